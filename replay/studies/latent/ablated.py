"""What the study's ablations found on a data set: numbers alone, for its tables and figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from replay.analyses.strategies.votes_entropy import VotesEntropy
from replay.latent.place_probes import PlaceArea
from replay.latent.probe_samples import ModelArea, SeededArea
from toolkit.stats import Interval, PairedInterval

TEMPERATURES, TRANSFER, READERS, LOCATIONS = "temperatures", "transfer", "readers", "locations"
MODELS, SIZES, SHARES, SUFFIXES = (
    "kinds of classifiers",
    "sizes of the training set",
    "shares of right ones",
    "suffixes",
)
ENTROPY, VOTES = "entropy of the votes", "votes by temperature"
"""What may be missing, by name."""
FITTED = (LOCATIONS, TEMPERATURES, TRANSFER, READERS, MODELS, SIZES, SHARES)
"""What states are needed for."""


@dataclass(frozen=True)
class TemperatureArea:
    """The mean area of the classifiers of some places, trained at one temperature and measured at another.

    `rows`: traces to train on. `behind`: how far those that are trained at the measured temperature are above them.
    """

    trained: float
    measured: float
    area: Interval
    rows: int = 0
    behind: PairedInterval | None = None


@dataclass(frozen=True)
class SuffixArea:
    """What the last `length` tokens tell: their log-probability, and the states of their places."""

    length: int
    logprob: Interval | None
    states: Interval | None


@dataclass(frozen=True)
class VotesAt:
    """Accuracy of the majority of `votes` samples at a temperature."""

    temperature: float
    votes: int
    accuracy: Interval


@dataclass(frozen=True)
class Ablations:
    """Of one data set.

    `transfer`: pooled AUC on its reported traces by the data set that a verifier was trained on. `readers`: that of
    verifiers on the states of a model, by the name of these states. `transfer_behind`, `readers_behind`: how far the
    verifier of its own data set, and that on the study's states, is above each other one on the same traces. `missing`:
    why something was not found, by what. `notes`: what all of them were fitted on. `places`: those that stand for all
    where many fits are made.
    """

    transfer: Mapping[str, Interval] = field(default_factory=dict)
    readers: Mapping[str, Interval] = field(default_factory=dict)
    transfer_behind: Mapping[str, PairedInterval] = field(default_factory=dict)
    readers_behind: Mapping[str, PairedInterval] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    locations: tuple[PlaceArea, ...] = ()
    temperatures: tuple[TemperatureArea, ...] = ()
    models: tuple[ModelArea, ...] = ()
    sizes: tuple[SeededArea, ...] = ()
    shares: tuple[SeededArea, ...] = ()
    suffixes: tuple[SuffixArea, ...] = ()
    entropy: VotesEntropy | None = None
    votes: tuple[VotesAt, ...] = ()
    places: tuple[tuple[int, int], ...] = ()
    notes: tuple[str, ...] = ()
