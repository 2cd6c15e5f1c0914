"""What a verifier on hidden states is worth on each data set of a log, and what strategies gain by it (LiLaVe 2025)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import polars as pl

from replay.analyses.strategies.frontier import Frontier, front_of, halved
from replay.analyses.strategies.strategies import MOST_MISSING, Strategies, strategies
from replay.analyses.strategies.votes_entropy import VotesEntropy
from replay.data.conditions import CONDITION, matching, matching_or_none, of_dataset, reported, without
from replay.data.contents import Contents, read_contents
from replay.latent.place_probes import PlaceArea
from replay.latent.probe_samples import ModelArea, SeededArea
from replay.runs.compare.curves import curves
from replay.studies.latent.signals import MeasuredPool, kinds_of, measured
from replay.studies.latent.verdicts import Gains, Verdict, gains_of, verdicts_of
from toolkit.arguments import checks_arguments
from toolkit.errors import EmptyError, ThinkbackError, UnknownError, UnsuitableError, argument, listed
from toolkit.log import TAKES, AnyLog, Log, collect, open_log
from toolkit.log.describe.scored_traces import ScoredTraces, scored_traces
from toolkit.stats import Interval, PairedInterval, Settings

SINGLE = ("avg", "majority", "pass")


@checks_arguments(log=TAKES)
def temperatures(log: AnyLog) -> dict[str, float]:
    """The temperature of each pool of first attempts that was drawn at one, the lowest first."""
    opened = open_log(log)
    traces = opened.scan("traces", ["pool", "action", "temperature"]).filter(pl.col("action") == "solve")
    of_pool = traces.group_by("pool").agg(
        lowest=pl.col("temperature").min(),
        highest=pl.col("temperature").max(),
        unknown=pl.col("temperature").null_count(),
    )
    alike = of_pool.filter((pl.col("lowest") == pl.col("highest")) & (pl.col("unknown") == 0))
    return dict(collect(alike.select("pool", "lowest").sort("lowest", "pool"), opened).iter_rows())


@checks_arguments(log=TAKES, where=CONDITION)
def by_temperature(
    log: AnyLog, *, subsets: int = 100, where: str | None = None, settings: Settings | None = None
) -> pl.DataFrame:
    """Accuracy of one sample, majority@k and pass@k of each pool that was drawn at one temperature.

    Columns: temperature, pool, metric (avg, majority, pass), k, estimate, low, high, n; each pool on its own examples.
    Raises ThinkbackError where no pool has one temperature.
    """
    opened = open_log(log)
    found = temperatures(opened)
    if not found:
        raise UnsuitableError(f"{opened.address} has no pool that was drawn at one known temperature")
    parts = [
        curves(opened, pool=pool, subsets=subsets, where=where, settings=settings)
        .filter(pl.col("metric").is_in(SINGLE))
        .select(pl.lit(temperature).alias("temperature"), "pool", "metric", "k", "estimate", "low", "high", "n")
        for pool, temperature in found.items()
    ]
    return pl.concat(parts)


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


LATENT = "latent"
"""The verifier that is studied where none is named."""
TRAIN = "split = 'train'"


@dataclass(frozen=True)
class LatentSetting:
    """The settings of a study; each is that of the data set it is of.

    `verifiers`: of these, that of a pool is the first that scored it. `pool` is sampled from, `probe` holds single
    attempts. `on` and `where`: conditions on the examples that verifiers were fitted on and that are reported.
    `trained`: how many training rows are among those to report, which `where` then leaves out.
    `published`: whether the paper's numbers stand beside. `seeds`: how often the ablations fit each classifier.
    """

    verifiers: tuple[str, ...]
    pool: str | None = None
    probe: str | None = None
    action: str | None = None
    on: str = TRAIN
    where: str | None = None
    trained: int = 0
    published: bool = False
    ablations: bool = True
    seeds: int = 3
    orders: int = 100
    settings: Settings = Settings()  # noqa: RUF009 -- frozen


UNTRAINED = "no training rows in this pool"
FRONT, SELECTING = "front", "weighted voting and best-of-n"
"""What strategies are called among what is missing."""
FEWEST_SCORED = 2
"""Samples to vote on."""


@dataclass(frozen=True, eq=False)
class LatentStudy:
    """Everything that the tables and figures of one data set show.

    `where`, `on`: conditions on its reported examples and on its training rows. `states`: the model whose hidden states
    its traces have, empty where there are none; `kinds`: of the log's verifiers. `pools`: those that a verifier of the
    study scored, that which is sampled from first. `strategies`, `front`: None where the log cannot serve them,
    `gains`: of these; `scored`: of the first samples alone, where the verifier scored no others of the pool; `chosen`
    (E,): the examples on which their settings were chosen. `models`: that which wrote the traces of a pool. `missing`:
    why something was not found, by what.
    """

    dataset: str
    log: Log
    asked: LatentSetting
    where: str
    on: str
    states: str
    kinds: Mapping[str, str]
    pools: tuple[MeasuredPool, ...]
    models: Mapping[str, str]
    strategies: Strategies | None = None
    scored: Strategies | None = None
    front: Frontier | None = None
    chosen: np.ndarray | None = None
    gains: Gains = field(default_factory=Gains)
    missing: Mapping[str, str] = field(default_factory=dict)
    ablations: Ablations = field(default_factory=Ablations)

    @cached_property
    def verdicts(self) -> tuple[Verdict, ...]:
        """The answers to the study's questions."""
        left_out = {} if self.strategies is None else self.strategies.left_out or {}
        return verdicts_of(self.main, self.asked.settings.level, self.gains, self.missing.get(FRONT), left_out)

    @property
    def simulated(self) -> bool:
        return self.log.simulated

    @property
    def shown(self) -> tuple[MeasuredPool, ...]:
        """The pools that tables show: that which is sampled from, and that of the probes."""
        probe = None if self.strategies is None else self.strategies.source.probe
        return tuple(one for one in self.pools if one is self.main or one.pool == probe)

    def beside(self, pool: MeasuredPool) -> bool:
        """Whether the published numbers stand beside a pool: the paper measures greedy attempts."""
        greedy = next((one for one in self.shown if one.temperature == 0), self.main)
        return self.asked.published and pool is greedy

    @property
    def main(self) -> MeasuredPool:
        """The pool that verdicts are of."""
        return self.pools[0]


def study_log(log: Log, asked: LatentSetting) -> tuple[LatentStudy, ...]:
    """Every data set among the examples to report on that a verifier of the study scored."""
    contents = read_contents(log)
    _require(log, contents, asked)
    asked = replace(asked, verifiers=_verifiers(contents, asked.verifiers), where=asked.where or reported(log))
    ids = matching(log, asked.where, "where") if asked.where is not None else _ids(log)
    train = matching_or_none(log, asked.on)
    both = ids.is_in(train.implode())
    if both.any():
        asked = replace(asked, where=without(asked.where, asked.on), trained=int(both.sum()))
    ids = ids.filter(~both)
    if ids.is_empty():
        raise EmptyError(f"{argument('where')} names training rows alone; report others, such as split = 'test'")
    found = tuple(_studies(log, contents, asked, ids, train))
    if not found:
        raise EmptyError(f"{listed(asked.verifiers)} scored no judged traces of the reported examples")
    unserved = [one.missing[FRONT] for one in found if FRONT in one.missing]
    if (asked.probe or asked.action) and len(unserved) == len(found):
        raise EmptyError(unserved[0])
    return found


def _require(log: Log, contents: Contents, asked: LatentSetting) -> None:
    """Raises ThinkbackError for a name that the log lacks, and for training rows that are named and not there."""
    for pool in (asked.pool, asked.probe):
        if pool is not None:
            contents.require_pool(pool)
    if asked.action is not None:
        contents.require_action(asked.action)
    if asked.on != TRAIN:
        matching(log, asked.on, "on")


def _ids(log: Log) -> pl.Series:
    return collect(log.scan("examples", ["example_id"]), log)["example_id"]


def _verifiers(contents: Contents, named: Sequence[str]) -> tuple[str, ...]:
    """Those that are named, else `latent`."""
    for name in named:
        contents.require_verifier(name)
    if not named and LATENT not in contents.verifiers:
        raise UnknownError(
            f"the log has no verifier `{LATENT}`: fit one with `thinkback fit-verifier LOG --train-on "
            f"\"split='train'\" --name {LATENT}`, or name another with {argument('verifier')}"
        )
    return tuple(named) or (LATENT,)


def _studies(
    log: Log, contents: Contents, asked: LatentSetting, ids: pl.Series, train: pl.Series
) -> Iterator[LatentStudy]:
    drawn_at, kinds = temperatures(log), kinds_of(log)
    every = sorted(contents.pools)
    fitted = {(one.dataset, one.pool): one for one in scored_traces(log, train, every)} if len(train) else {}
    by_dataset: dict[str, list[ScoredTraces]] = {}
    for traces in scored_traces(log, ids, every):
        by_dataset.setdefault(traces.dataset, []).append(traces)
    for dataset, found in sorted(by_dataset.items()):
        pools = []
        for traces in sorted(found, key=lambda one: _first(one, drawn_at.get(one.pool), asked)):
            verifier = next((name for name in asked.verifiers if name in traces.scores), None)
            if verifier is not None:
                own = fitted.get((dataset, traces.pool))
                pools.append(measured(drawn_at.get(traces.pool), verifier, traces, own, kinds, UNTRAINED))
        if pools:
            study = LatentStudy(
                dataset, log, asked, of_dataset(asked.where, dataset), of_dataset(asked.on, dataset),
                _states_of(log, dataset), kinds, tuple(pools), _models_of(log, dataset),
            )  # fmt: skip
            yield _with_front(study, found, contents)


def _first(traces: ScoredTraces, drawn_at: float | None, asked: LatentSetting) -> tuple[bool, float, float, str]:
    """Orders pools: the one that is asked for, then larger ones, of equal ones that of the highest temperature."""
    size = len(traces.right) / (int(traces.example.max()) + 1)
    return traces.pool != asked.pool, -round(size), -(drawn_at or 0.0), traces.pool


def _with_front(study: LatentStudy, found: Sequence[ScoredTraces], contents: Contents) -> LatentStudy:
    """The same with its strategies, where the log can serve them."""
    asked = study.asked
    try:
        pool = asked.pool or min(found, key=lambda one: _first(one, _temperature(study, one.pool), asked)).pool
        probe = asked.probe or _probe(study, pool)
        scored = next((one.verifier for one in study.pools if one.pool == (probe or pool)), None)
        made = strategies(
            study.log, pool=pool, probe=probe, verifiers=[] if scored is None else [scored], action=asked.action,
            orders=asked.orders, seed=asked.settings.seed, where=study.where,
        )  # fmt: skip
        chosen = halved(made.examples, asked.settings.seed)
        front = front_of(made, chosen, asked.settings)
    except ThinkbackError as error:
        return replace(study, missing={**study.missing, FRONT: str(error)})
    served = study if scored is None else _with_scored(study, made, scored)
    gains = gains_of(made, front, chosen, asked.settings, served.scored, _other_pools(study, made, contents))
    return replace(served, strategies=made, front=front, chosen=chosen, gains=gains)


def _with_scored(study: LatentStudy, made: Strategies, verifier: str) -> LatentStudy:
    """The same with strategies of the first samples of each question, where the verifier scored these alone."""
    if any(one.verifier == verifier for one in made.plain):
        return study
    source, asked = made.source, study.asked
    first = _first_scored(study.log, verifier, source.pool, made.examples["example_id"])
    if first < FEWEST_SCORED:
        return study
    try:
        found = strategies(
            study.log, pool=source.pool, probe=source.probe, verifiers=[verifier], samples=first,
            orders=asked.orders, seed=asked.settings.seed, where=study.where,
        )  # fmt: skip
    except ThinkbackError as error:
        return replace(study, missing={**study.missing, SELECTING: str(error)})
    if not any(one.verifier == verifier for one in found.plain):
        return study
    told = f"`{verifier}` scored the first {first} samples of `{source.pool}`, so that they are of these"
    return replace(study, scored=found, missing={**study.missing, SELECTING: told})


def _other_pools(study: LatentStudy, made: Strategies, contents: Contents) -> dict[str, Strategies]:
    """Strategies of the other pools of several samples by the same model, on the same examples."""
    source, found = made.source, dict[str, Strategies]()
    model = study.models.get(source.pool)
    for pool in sorted(contents.pools - {source.pool, source.probe}):
        if contents.sizes[pool] == 1 or model is None or study.models.get(pool) != model:
            continue
        try:
            one = strategies(
                study.log, pool=pool, probe=source.probe, verifiers=[], orders=source.orders, seed=source.seed,
                where=study.where,
            )  # fmt: skip
        except ThinkbackError:  # it cannot be voted on
            continue
        on = one.examples["example_id"].is_in(made.examples["example_id"].implode()).to_numpy()
        if on.sum() == len(made.unit):
            found[pool] = one.among(on)
    return found


def _first_scored(log: Log, verifier: str, pool: str, examples: pl.Series) -> int:
    """How many of the first samples of a pool a verifier scored, of nearly all examples."""
    traces = log.scan("traces", ["trace_id", "example_id", "pool", "action", "sample_index"]).filter(
        pl.col("pool") == pool, pl.col("action") == "solve", pl.col("example_id").is_in(examples.implode())
    )
    told = log.scan("verifications", ["trace_id", "verifier"]).filter(pl.col("verifier") == verifier)
    counts = traces.join(told, on="trace_id", how="semi").group_by("sample_index").len()
    at = dict(collect(counts, log).iter_rows())
    least = (1 - MOST_MISSING) * len(examples)
    return next(number for number in range(len(at) + 1) if at.get(number, 0) < least)


def _temperature(study: LatentStudy, pool: str) -> float | None:
    return next((one.temperature for one in study.pools if one.pool == pool), None)


def _probe(study: LatentStudy, pool: str) -> str | None:
    """The pool of single attempts that its verifier scored, of several the coldest; None where there is none."""
    single = [(one.temperature or 0.0, one.pool) for one in study.pools if one.single and one.pool != pool]
    return min(single)[1] if single else None


def _states_of(log: Log, dataset: str) -> str:
    """The model with most hidden states of a data set's traces; empty where none has any."""
    quoted = log.scan("examples", ["example_id", "dataset"]).filter(pl.col("dataset") == dataset)
    own = log.scan("traces", ["trace_id", "example_id"]).join(quoted, on="example_id", how="semi").select("trace_id")
    counts = {}
    for model in log.hidden_models:
        rows = log.scan(f"hidden_states/{model}", ["trace_id"]).join(own, on="trace_id", how="semi")
        counts[model] = collect(rows.select(pl.len()), log).item()
    best = max(counts, key=lambda name: counts[name], default="")
    return best if counts.get(best) else ""


def _models_of(log: Log, dataset: str) -> dict[str, str]:
    """The model that wrote the first attempts of each pool of a data set; none where there are several."""
    own = log.scan("examples", ["example_id", "dataset"]).filter(pl.col("dataset") == dataset)
    traces = log.scan("traces", ["example_id", "pool", "action", "model"]).filter(pl.col("action") == "solve")
    pairs = traces.join(own, on="example_id", how="semi").select("pool", "model").unique()
    found = collect(pairs.group_by("pool").agg(pl.col("model").first(), pl.len()), log)
    return {pool: model for pool, model, count in found.sort("pool").iter_rows() if count == 1 and model is not None}
