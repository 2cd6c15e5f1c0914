"""The kinds of signals there are, by the list of a recipe that they stand in: a further one is a module and a line."""

from __future__ import annotations

from generate.signals.claim_features import ClaimFeatures
from generate.signals.hidden_states import HiddenStates
from generate.signals.judge import Judge, Listwise, Reflection
from generate.signals.logprob import LogProb
from generate.signals.peers import PeerContradiction, PeerSimilarity
from generate.signals.random_score import RandomScore
from generate.signals.sequence_classifier import SequenceClassifier
from generate.signals.serving import ServingFeatures
from generate.signals.signal import TraceSignal

KINDS: dict[str, dict[str, type[TraceSignal]]] = {
    "verify": {
        "classifier": SequenceClassifier,
        "reward": SequenceClassifier,
        "judge": Judge,
        "reflection": Reflection,
        "listwise": Listwise,
        "logprob": LogProb,
        "random": RandomScore,
    },
    "features": {
        "claims": ClaimFeatures,
        "serving": ServingFeatures,
        "peers": PeerSimilarity,
        "contradiction": PeerContradiction,
    },
    "states": {"states": HiddenStates},
}
DEFAULTS = {"states": "states"}
"""The kind of a table that names none, where there was no other before."""
