"""Everything that the study of fact checking under a verifier budget computes on one log, before it is laid out."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import polars as pl

from replay.analyses.budgets import BEST as BEST_OF_N
from replay.analyses.budgets import Budgets, budgets
from replay.data.conditions import matching
from replay.data.contents import read_contents
from replay.runs.coverage_notes import FREE
from replay.studies.factcheck import analyses, runs
from replay.studies.factcheck.beyond import Beyond, beyond, check_development
from replay.studies.factcheck.euros import device_seconds
from replay.studies.factcheck.runs import ADAPTIVE, BEST, SURROGATE, FactcheckSetting, Methods
from replay.studies.factcheck.surrogate_keys import SurrogateKeys, surrogate_keys
from replay.studies.factcheck.wall_clock import WallClock, wall_clock
from replay.studies.gaps import told_left_out
from toolkit.errors import ThinkbackError, argument, listed, suggest
from toolkit.features import CLAIM_FEATURES
from toolkit.log import Log, collect
from toolkit.notes import Note, note
from toolkit.show import ShownInterval

MAIN = ("5.1", "5.2", "5.3", "5.4", "5.5", "5.6", "5.7", "B.1", "B.2", "B.3")
OTHER, LARGER = ("5.8", "5.9", "5.10"), ("5.11", "5.12", "5.13")
"""Tables of the main comparison, of another verifier, and of larger caps."""
SECONDS = ("trace seconds", "verification seconds", "trace device seconds", "verification device seconds")
UNSHOWN = frozenset({"finalizers", "truncated", "queries", "action_tokens", "device_s", "verification_tokens"})
"""Metrics of a run that no table of the study shows, so that notes on them are left out."""
CLASSES = {"supports": "T", "true": "T", "refutes": "F", "false": "F", "conflicting": "C"}
"""The thesis's letters for its three classes, by what a log calls them."""


@dataclass(frozen=True)
class BudgetGap:
    """An order of a pool of so many traces, or best-of-N there, whose budgets are not known, and why; None: of all."""

    traces: int
    order: str | None
    why: str

    def __str__(self) -> str:
        """The line beneath the tables of budgets."""
        named = {None: "", BEST_OF_N: f", {BEST_OF_N}"}.get(self.order, f", order {self.order}")
        return f"{self.traces} traces{named}: {self.why}"


@dataclass(frozen=True)
class Study:
    """Results on one log.

    `missing`: why numbers of a table could not be computed, by the table's number. `warnings`: what must be said above
    it; "" those of the main comparison, for every table that has none of its own.
    """

    name: str
    simulated: bool
    labels: tuple[str, ...]
    setting: FactcheckSetting
    depth: analyses.Depth  # of the pool
    main: Methods
    other: Methods
    caps: Mapping[int, Methods]
    budgets: tuple[Budgets, ...]  # of the pool up to the cap, and of the whole pool where it is larger
    budget_gaps: tuple[BudgetGap, ...]
    gold: pl.DataFrame
    unresolved: pl.DataFrame
    sensitivity: analyses.Sensitivity
    surrogate_keys: SurrogateKeys
    beyond: Beyond | None
    # Per claim, of (method, part); empty without device seconds
    device_s: Mapping[tuple[str, str], ShownInterval | None]
    wall: WallClock
    surrogate_s: float | None  # seconds per claim that replay spent on the surrogate
    datasets: tuple[str, ...]  # of the claims that are asked about
    features_note: str = ""  # where the surrogate does without some of the thesis's features
    notes: tuple[Note, ...] = ()
    missing: Mapping[str, Sequence[str]] = field(default_factory=dict)
    warnings: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def dataset(self) -> str:
        """The log's name, and that it is simulated where it is."""
        return f"{self.name} (simulated)" if self.simulated else self.name

    @property
    def left_out(self) -> dict[str, Mapping[str, str]]:
        """Claims that each comparison leaves out, with the reason."""
        results = {"main": self.main.result, f"verifier {self.setting.other_verifier}": self.other.result}
        results |= {f"cap {cap}": methods.result for cap, methods in self.caps.items()}
        results |= {f"budgets, {made.max_traces} traces": made.result for made in self.budgets}
        return {name: result.excluded for name, result in results.items() if result is not None}

    @property
    def classes(self) -> tuple[tuple[str, str, str], ...]:
        """(head, published column, metric) of each class's F1, in the thesis's order where the classes are its own."""
        letters = [CLASSES.get(label.lower()) for label in self.labels]
        if sorted(letter or "" for letter in letters) == ["C", "F", "T"]:
            by_letter = dict(zip(letters, self.labels, strict=True))
            return tuple((f"{x}-F1", f"{x.lower()}_f1_pct", f"f1:{by_letter[x]}") for x in "TFC")
        return tuple((f"F1 {label}", f"f1:{label}", f"f1:{label}") for label in self.labels)

    @property
    def eur_per_h(self) -> float:
        """Price of an hour of the device."""
        return self.setting.kw * self.setting.eur_per_kwh


def study_factcheck(log: Log, setting: FactcheckSetting) -> Study:
    """Replay everything on one log.

    Raises ThinkbackError where the log has no class labels, a verifier is listwise, or the main comparison cannot be
    replayed.
    """
    contents = read_contents(log)
    listwise = listwise_verifiers(log, setting.pool)
    for name in (setting.verifier, setting.other_verifier):
        if name in listwise:
            raise ThinkbackError(
                f"verifier `{name}` ranks the traces of `{setting.pool}` against each other in one call, and the study "
                "verifies one trace at a time: name a verifier that scores each trace alone"
            )
    if setting.dev is not None:
        check_development(log, setting, setting.dev)
    labels = shared_labels(setting.claims(log, "dataset", "labels"))
    main = runs.replay_methods(log, setting)
    depth = analyses.pool_depth(log, setting)
    other = Methods(None, setting.cap, setting.verifier)
    others = sorted(contents.verifiers - {setting.verifier} - listwise)
    if setting.other_verifier is None and len(others) == 1:
        setting = replace(setting, other_verifier=others[0])
    if setting.other_verifier is not None:
        other = runs.replay_if_served(log, replace(setting, verifier=setting.other_verifier))
    by_cap = {cap: runs.replay_if_served(log, replace(setting, cap=cap), (BEST, ADAPTIVE)) for cap in setting.caps}
    missing = _missing(main, other, by_cap)
    if setting.other_verifier is None:
        nothing = "the log has one verifier that scores each trace alone, so nothing is compared"
        several = f"the log has {len(others)} other verifiers ({listed(others)}): name one with `other_verifier`"
        missing |= {number: [several if others else nothing] for number in OTHER}
    fixed, gaps = _budgets(log, setting, sorted({setting.cap, depth.size}))
    missing["B.4"] = [str(gap) for gap in gaps]
    spent = main.result.provenance["surrogate_s_per_example"] if main.result is not None else {}
    parts: Mapping[tuple[str, str], ShownInterval | None] = {}
    if main.result is not None and main.priced_by == "device_s":
        parts = device_seconds(log, setting.pool, main.result, setting.settings)
    return Study(
        name=log.name,
        simulated=log.simulated,
        labels=labels,
        setting=setting,
        depth=depth,
        main=main,
        other=other,
        caps=by_cap,
        budgets=fixed,
        budget_gaps=gaps,
        gold=analyses.gold_within(log, setting, depth.size),
        unresolved=analyses.unresolved(log, setting, depth.size),
        sensitivity=analyses.sensitivity(log, setting, depth.size),
        surrogate_keys=surrogate_keys(log, setting, [made.max_traces for made in fixed]),
        beyond=beyond(log, setting),
        device_s=parts,
        wall=wall_clock(log, setting, depth),
        surrogate_s=spent.get(SURROGATE),
        datasets=tuple(setting.claims(log, "dataset")["dataset"].drop_nulls().unique().sort()),
        features_note=features_note(setting.features, contents.features),
        notes=(*_claims(log, main, depth, setting.dev), *_notes(main)),
        missing=missing,
        warnings={
            "": main.warnings,
            "B.4": tuple(dict.fromkeys(warning for made in fixed for warning in runs.warnings_of(made.result))),
            **dict.fromkeys(OTHER, other.warnings),
            **dict.fromkeys(LARGER, tuple(dict.fromkeys(w for methods in by_cap.values() for w in methods.warnings))),
        },
    )


def _claims(log: Log, main: Methods, depth: analyses.Depth, dev: str | None) -> Iterator[Note]:
    """How many claims are reported, and how many are not because they are learnt from."""
    of = "" if main.n == depth.claims else f" of the {depth.claims:,} that are asked about"
    yield note("claims", f"{main.n:,} claims{of} are reported")
    if dev is not None:
        learnt = len(matching(log, dev, "dev"))
        yield note("learnt", f"{learnt:,} claims of `dev` ({dev}) are learnt from and not reported")


def _notes(main: Methods) -> tuple[Note, ...]:
    """What the run says of numbers that tables show. Costs that count as free there are dashes here, and said to be."""
    notes = main.result.notes if main.result is not None else ()
    left_out = told_left_out(main.result.excluded) if main.result is not None else ()
    shown = (one for one in notes if one.code != FREE and not (one.metrics and set(one.metrics) <= UNSHOWN))
    unlogged = (note("unlogged", text) for text in main.unlogged().values())
    return (*(note("left_out_file", text) for text in left_out), *shown, *unlogged)


def _missing(main: Methods, other: Methods, by_cap: Mapping[int, Methods]) -> dict[str, list[str]]:
    """By table: methods that cannot be served, seconds and tokens that are not logged."""
    capped = [f"cap {cap}: {why}" for cap, methods in by_cap.items() for why in told(methods)]
    missing = {number: told(main) for number in MAIN}
    missing |= dict.fromkeys(OTHER, told(other)) | dict.fromkeys(LARGER, capped)
    seconds = {"5.5": [main], "5.7": [main], "B.2": [main], "5.10": [other], "5.13": list(by_cap.values())}
    wanted = [(number, kind, made) for number, all_of in seconds.items() for kind in SECONDS for made in all_of]
    for number, kind, methods in (*wanted, ("5.4", "trace tokens", main)):
        why = methods.unlogged().get(kind)
        missing[number] = list(dict.fromkeys([*missing[number], *([why] if why else [])]))
    return missing


def features_note(used: Sequence[str], known: Collection[str]) -> str:
    """Which features the surrogate reads and which of the thesis's five it does without; "" where it has them all."""
    without = [name for name in CLAIM_FEATURES if name not in used]
    if not without:
        return ""
    reads = listed(used) or "no feature, only the answers and scores so far"
    lacking, spurned = ([name for name in without if (name in known) == has] for has in (False, True))
    why = [f"the log lacks {listed(lacking)}"] if lacking else []
    why += [f"{listed(spurned)} {'is' if len(spurned) == 1 else 'are'} not asked for"] if spurned else []
    return f"the surrogate reads {reads}; of the thesis's five features, {'; '.join(why)}"


def _budgets(
    log: Log, setting: FactcheckSetting, sizes: Sequence[int]
) -> tuple[tuple[Budgets, ...], tuple[BudgetGap, ...]]:
    """Every budget of pools of these sizes, and why sizes or orders of them are left out."""
    found, gaps = [], []
    for traces in sizes:
        try:
            made = budgets(
                log, verifier=setting.verifier, max_traces=traces, pool=setting.pool, features=setting.features,
                random_seed=setting.random_seed, **setting.asked,
            )  # fmt: skip
        except ThinkbackError as error:
            gaps.append(BudgetGap(traces, None, str(error)))
        else:
            found.append(made)
            gaps += [BudgetGap(traces, order, why) for order, why in made.missing.items()]
    return tuple(found), tuple(gaps)


def told(methods: Methods) -> list[str]:
    """Each reason once, with the methods that it takes away."""
    reasons: dict[str, list[str]] = {}
    for name, why in methods.missing.items():
        reasons.setdefault(why, []).append(name)
    return [why if len(names) > 2 else f"{', '.join(names)}: {why}" for why, names in reasons.items()]


def shared_labels(claims: pl.DataFrame) -> tuple[str, ...]:
    """The label space of claims (columns dataset and labels). Raises ThinkbackError where they share none."""
    found = claims.select("dataset", pl.col("labels").fill_null([])).unique().sort("dataset")
    spaces = {tuple(labels) for labels in found["labels"]}
    if spaces == {()} or not spaces:
        raise ThinkbackError("the study of fact checking needs claims with a label space: give `labels` of examples")
    if len(spaces) > 1:
        labelled = found.filter(pl.col("labels").list.len() > 0)["dataset"].unique().sort().to_list()
        raise ThinkbackError(
            f"the study of fact checking needs claims that share one label space, and the log has {len(spaces)} (none "
            f"counts as one): choose claims with {argument('where')}, such as \"dataset = '{labelled[0]}'\""
        )
    return spaces.pop()


NONE_KNOWN = {
    "pool": "the log has no pool of first attempts",
    "verifier": "the log has no verifications, and the study is about them: add a verifier's scores with a "
    "recipe of `[[verify]]`",
}


def listwise_verifiers(log: Log, pool: str) -> frozenset[str]:
    """Verifiers that rank the traces of a pool in one call, so that none can be asked about one trace more."""
    traces = log.scan("traces", ["trace_id", "pool"]).filter(pl.col("pool") == pool)
    scores = log.scan("verifications", ["trace_id", "verifier", "candidates"])
    ranked = scores.filter(pl.col("candidates").is_not_null()).join(traces, on="trace_id", how="semi")
    return frozenset(collect(ranked.select("verifier").unique(), log)["verifier"])


def choose(name: str | None, known: Sequence[str] | frozenset[str], what: str) -> str:
    """A pool or verifier by name, or the only one. Raises ThinkbackError otherwise."""
    if name is None and len(known) == 1:
        return next(iter(known))
    if name is None and known:
        raise ThinkbackError(
            f"the log has {len(known)} {what}s, so name one with {argument(what)}; {suggest('', known)}"
        )
    if not known:
        raise ThinkbackError(NONE_KNOWN[what])
    if name is None or name not in known:
        raise ThinkbackError(f"the log has no {what} `{name or ''}`; {suggest(name or '', known)}")
    return name
