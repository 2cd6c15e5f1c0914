"""Reading what a recipe adds to a log: the lists `[[verify]]`, `[[features]]` and `[[states]]` of its file.

Every table says which traces it is for: `pools`, `split` and `dataset` of the examples, `answered` (only traces with an
answer); by default all. A recipe may hold these lists beside the tables that make a log, or alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from generate.recipes.prompting import read_template, read_whole
from generate.recipes.recipe import EmbeddingSettings, read_chat_template, read_engine
from generate.recipes.toml_file import name_file_in_errors, read_head, read_optional, read_toml, table_place, tables_of
from generate.signals.checks import CheckFeatures
from generate.signals.claim_features import ClaimFeatures
from generate.signals.hidden_states import HiddenStates
from generate.signals.judge import Judge, Listwise, Reflection
from generate.signals.logprob import LogProb
from generate.signals.peers import PeerContradiction, PeerSimilarity
from generate.signals.random_score import RandomScore
from generate.signals.sequence_classifier import RewardModel, SequenceClassifier
from generate.signals.serving import ServingFeatures
from generate.signals.signal import Additions, TraceSignal
from toolkit.errors import ConflictError, InvalidError, RequiredError, UnknownError, listed, quote, suggest
from toolkit.settings import from_table

LISTS: Mapping[str, tuple[type[TraceSignal], ...]] = {
    "verify": (SequenceClassifier, RewardModel, Judge, Reflection, Listwise, LogProb, RandomScore),
    "features": (ClaimFeatures, ServingFeatures, CheckFeatures, PeerSimilarity, PeerContradiction),
    "states": (HiddenStates,),
}
KINDS = {name: {one.kind: one for one in kinds} for name, kinds in LISTS.items()}
"""The kinds of signals, by their list in a recipe."""
DEFAULTS = {"states": "states"}
"""The kind of a table without `kind`, by list."""


def load_additions(recipe: str | Path, settings: Sequence[str] = ()) -> Additions:
    """Reads what a recipe adds to a log. `settings` are `KEY=VALUE` strings, such as `verify.judge.max_tokens=32`.

    ThinkbackError: one line that names the file and the key.
    """
    top, path = read_toml(recipe, settings)
    with name_file_in_errors(path):
        return _read_additions(top, path)


def _read_additions(top: Mapping[str, Any], path: Path) -> Additions:
    head, folder = read_head(top, path), path.resolve().parent
    additions = Additions(
        file=path.name,
        folder=folder,
        name=head.name,
        seed=head.seed,
        engine=read_engine(top["engine"]) if "engine" in top else None,
        embedding=read_optional(EmbeddingSettings, top, "embedding"),
        verify=_read_signals(top, "verify"),
        features=_read_signals(top, "features"),
        states=_read_signals(top, "states"),
        prompts={},
    )
    prompts = {name: read_template(name, folder) for step in additions.steps for name in step.prompt_files}
    prompts |= read_chat_template(additions.engine, additions)
    for step in additions.steps:
        prompts |= {
            name: read_whole(name, additions.resolve_path(name), "chat_template") for name in step.template_files
        }
    return replace(additions, prompts=prompts)


def _read_signals(top: Mapping[str, Any], name: str) -> tuple[TraceSignal, ...]:
    return tuple(_read_signal(name, table) for table in tables_of(top, name))


def _read_signal(name: str, table: Any) -> TraceSignal:
    place, kinds = table_place(name, table), KINDS[name]
    if not isinstance(table, Mapping):
        raise InvalidError(f"`{place}` is {quote(table)}; it takes a table")
    kind = table.get("kind", DEFAULTS.get(name))
    if kind is None:
        raise RequiredError(f"`{place}.kind` is required; it takes one of {listed(sorted(kinds))}")
    if not isinstance(kind, str) or kind not in kinds:
        raise UnknownError(f"`{place}.kind` is {quote(kind)}; {suggest(str(kind), kinds)}")
    for key in table:
        others = [name for name, other in kinds.items() if key in _signal_keys(other)]
        if others and key not in _signal_keys(kinds[kind]):
            raise ConflictError(f"`{place}.{key}` needs the kind {listed(others)}")
    return from_table(kinds[kind], {key: table[key] for key in table if key != "kind"}, place)


def _signal_keys(cls: type[TraceSignal]) -> frozenset[str]:
    return frozenset(field.name for field in fields(cls))
