"""The systems of a log of checks: which method and which model stand behind each pool, and the policy that replays it.

A pool's name is a method's, or has it before or behind a dash: `listening`, `second-listening`, `listening-direct`.
What is left names the backbone where the log does not say the model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from replay.data.contents import Contents
from replay.kinds.buzz import Buzz
from replay.kinds.sample import Sample
from replay.policies.base import Policy
from toolkit.errors import UnsuitableError
from toolkit.log import Log, collect
from toolkit.stopping.stops import AtLeast, Says

DIVER, ONE_SHOT, NO_FILTER, SENTENCES = "DIVER", "one-shot extraction", "no filter", "sentences as claims"
DIRECT, SEARCH, PREFIXES = "Vanilla LLM", "LLM + Web Search", "LLM over prefixes"
CHECKED: Mapping[str, str] = {
    "listening": DIVER, "diver": DIVER, "simulated": DIVER, "one-shot": ONE_SHOT, "no-filter": NO_FILTER,
    "sentences": SENTENCES,
}  # fmt: skip
"""Names of pools of checks -> methods."""
WITHOUT_PART = (ONE_SHOT, NO_FILTER, SENTENCES)
"""Methods that are the system without a part."""
TEXT_METHODS: Mapping[str, str] = {
    "direct": DIRECT, "search": SEARCH, "prefixes": PREFIXES, "hiss": "HiSS", "factcheck-gpt": "FactCheck-GPT",
    "bidev": "BiDeV", "safe": "SAFE", "fire": "FIRE", "qacheck": "QACheck", "programfc": "ProgramFC",
    "flan-t5": "FLAN-T5", "infact": "InFact", "hero": "HerO",
}  # fmt: skip
"""Names of pools of verdicts on texts -> methods."""
FIRST = "first"
REFUTED = "refuted"
"""A verdict, and the verifier that says how sure a model is that something in a text is wrong."""
EVEN = 0.5


@dataclass(frozen=True)
class System:
    """A pool with its `method` and `backbone`. `checks`: it is one of checks, else of verdicts on whole texts;
    `positioned`: those are of a growing beginning of the text; `row`: what rows of one backbone call it, the pool with
    it where the method has several; `name`: the same with the backbone; `group`: what its pool's name has beside the
    method, the same for all pools of a backbone.
    """

    pool: str
    method: str
    group: str
    checks: bool
    positioned: bool = False
    backbone: str = ""
    row: str = ""
    name: str = ""


@dataclass(frozen=True)
class Systems:
    """The systems of a log; `main`: the one that the study is of."""

    main: System
    every: tuple[System, ...]

    @property
    def groups(self) -> list[str]:
        """The backbones' groups, that of the main system first."""
        return list(dict.fromkeys([self.main.group, *(one.group for one in self.every)]))

    def of(self, method: str, group: str) -> System | None:
        """Returns the system of a method and a backbone; None where there is none."""
        return next((one for one in self.every if (one.method, one.group) == (method, group)), None)

    def listening(self, group: str) -> System | None:
        """Returns the system of a backbone that takes the main one's place."""
        return self.main if group == self.main.group else self.of(self.main.method, group)

    def baselines(self, group: str) -> list[System]:
        """The verdicts on whole texts, and on growing ones, by one backbone."""
        return [one for one in self.every if not one.checks and one.group == group]


def split_pool_name(pool: str, methods: Collection[str]) -> tuple[str | None, str]:
    """Splits a pool's name into the longest method that it has, None without one, and what is left."""
    for name in sorted(methods, key=len, reverse=True):
        if pool == name:
            return name, ""
        if pool.endswith(f"-{name}"):
            return name, pool.removesuffix(f"-{name}")
        if pool.startswith(f"{name}-"):
            return name, pool.removeprefix(f"{name}-")
    return None, pool


def read_systems(log: Log, contents: Contents, named: str | None) -> Systems:
    """Reads the systems of a log; `named`: the pool of the main one, by default that of DIVER, or with most rounds.

    Raises ThinkbackError where the log has no checks, or no such pool.
    """
    if not log.has("checks"):
        raise UnsuitableError("the log has no `checks`, which the study is of")
    if named is not None:
        contents.pool_of_table("checks", named)
    checked = [_system(pool, CHECKED, checks=True) for pool in sorted(contents.rows("checks"))]
    of_texts = [
        replace(_system(pool, TEXT_METHODS, checks=False), positioned=pool in contents.positioned)
        for pool in sorted(contents.pools)
    ]
    every = _with_backbones([*checked, *of_texts], _models(log))
    most = contents.rows("checks")
    checked = every[: len(checked)]
    by_default = min(checked, key=lambda one: (one.method != DIVER, one.group, -most[one.pool]))
    main = next((one for one in checked if one.pool == named), by_default)
    return Systems(main, tuple(sorted(every, key=_place)))


def _place(system: System) -> tuple[Any, ...]:
    """Sorts systems by backbone, baselines first, in the paper's order."""
    order = [*dict.fromkeys(TEXT_METHODS.values()), *reversed(dict.fromkeys(CHECKED.values()))]
    known = order.index(system.method) if system.method in order else len(order)
    return system.group, system.checks, known, system.pool


def _system(pool: str, methods: Mapping[str, str], checks: bool) -> System:
    name, group = split_pool_name(pool, methods)
    if name is None:
        return System(pool, pool, "", checks)
    if not checks:
        group = split_pool_name(group, CHECKED)[1]
    return System(pool, methods[name], group, checks)


def _models(log: Log) -> dict[str, str]:
    """The model of each pool that the manifest or the traces tell."""
    records = dict(_pool_records(None if log.manifest is None else log.manifest.source))
    models = {pool: str(one["model"]) for pool, one in records.items() if isinstance(one.get("model"), str)}
    if log.has("traces"):
        rows = log.scan("traces", ["pool", "model"]).drop_nulls().unique()
        models |= dict(collect(rows, log).unique("pool", keep="none").iter_rows())
    return models


def _pool_records(source: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The records of pools in a manifest's source, and in those of the logs that it was joined of."""
    if not isinstance(source, Mapping):
        return
    for part in source.get("joined") or ():
        yield from _pool_records(part.get("source"))
    yield from ((pool, one) for pool, one in (source.get("pools") or {}).items() if isinstance(one, Mapping))


def _with_backbones(systems: Sequence[System], models: Mapping[str, str]) -> list[System]:
    """Names each system's backbone: by its model where that is one of this group alone, else by the group."""
    by_group: dict[str, set[str]] = {}
    for one in systems:
        by_group.setdefault(one.group, set()).update([models[one.pool]] if one.pool in models else [])
    names = {}
    for group, known in by_group.items():
        elsewhere = {model for other, some in by_group.items() if other != group for model in some}
        names[group] = next(iter(known)) if len(known) == 1 and not known & elsewhere else group or FIRST
    counts = Counter((one.method, one.group) for one in systems)
    named = []
    for one in systems:
        pool = f", {one.pool}" if counts[one.method, one.group] > 1 else ""
        backbone = "" if len(by_group) == 1 else f" ({names[one.group]})"
        row, name = f"{one.method}{pool}", f"{one.method}{backbone}{pool}"
        named.append(replace(one, backbone=names[one.group], row=row, name=name))
    return named


def policy_of(system: System, scored: Collection[str]) -> Policy:
    """Returns the policy of a system as it ran: it acts at the first refutation and listens to the end; a model that is
    asked again and again acts once it is sure, or, without a score, at its first `refuted`. `scored`: pools with a
    score by the verifier `refuted`.
    """
    if system.checks:
        return Buzz(name=system.name, pool=system.pool, to_end=True)
    if not system.positioned:
        return Sample(name=system.name, pool=system.pool, max_traces=1, select="first")
    stop = AtLeast(score=EVEN, verifier=REFUTED) if system.pool in scored else Says(answer=REFUTED)
    return Sample(name=system.name, pool=system.pool, select="last", stop=stop)


def acting_lines(systems: Iterable[System], scored: Collection[str]) -> Iterator[str]:
    """Says when models act that are asked again and again while a text unfolds."""
    rules = {
        True: f"once the verifier `{REFUTED}` is at {EVEN:g}",
        False: f"at its first `{REFUTED}`: no score is logged",
    }
    for one in systems:
        if one.positioned:
            yield f"{one.name} acts {rules[one.pool in scored]}."


def scored_pools(log: Log) -> frozenset[str]:
    """Returns the pools of traces that the verifier `refuted` scored."""
    if not log.has("verifications") or not log.has("traces"):
        return frozenset()
    scores = log.scan("verifications", ["trace_id", "verifier"]).filter(pl.col("verifier") == REFUTED)
    pools = log.scan("traces", ["trace_id", "pool"]).join(scores, on="trace_id", how="semi")
    return frozenset(collect(pools.select(pl.col("pool").unique()), log)["pool"])


def match_rules(log: Log) -> dict[str, str]:
    """Returns the rule by which a pool's claims were compared with the error: as the manifest says it of the pool, with
    the engine that judged them, or of how it was generated.
    """
    if log.manifest is None:
        return {}
    settings = {pool: one.get("sampling") for pool, one in _pool_records(log.manifest.source)}
    rules = {pool: str(one["match"]) for pool, one in settings.items() if isinstance(one, Mapping) and "match" in one}
    for pool in log.manifest.pools:
        rule, engine = (log.manifest.pool_setting(pool, key) for key in ("match", "match_engine"))
        if rule is not None:
            rules[pool] = f"{rule}, {engine}" if engine else str(rule)
    return rules
