"""What a verifier on hidden states is worth on each data set of a log, and what strategies gain by it (LiLaVe 2025).

The ablations are further fits on the log. All classifiers are of one place, as in the paper, fitted on training rows
and measured on the reported traces of the pool that is sampled from. A verifier of several places is the mean of their
probabilities.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.util import find_spec

import numpy as np
import polars as pl

from replay.analyses.strategies.frontier import Frontier, front_of_strategies, random_half_of_examples
from replay.analyses.strategies.strategies import MOST_MISSING, Strategies, strategies
from replay.analyses.strategies.votes_entropy import VotesEntropy, votes_entropy
from replay.data.conditions import examples_where, excluding, ids_where, ids_where_or_none, in_dataset, report_condition
from replay.data.contents import Contents, read_contents
from replay.latent import place_probes
from replay.latent.place_probes import ModelAuc, PlaceAuc, PlacedTraces, SeededAuc
from replay.runs.compare.curves import curves
from replay.studies.kit.published import PublishedDataset, published_name
from replay.studies.latent.places import PAPER_PLACES, ablation_notes, choose_places, thin_out_places
from replay.studies.latent.verdicts import Gains, MeasuredPool, Verdict, gains_of, kinds_of, measure_pool, verdicts_of
from toolkit.arguments import checks_arguments
from toolkit.errors import EmptyError, ThinkbackError, UnknownError, UnsuitableError, argument, listed
from toolkit.log import AnyLog, Log, collect, open_log
from toolkit.log.describe.scored_traces import ScoredTraces, scored_traces
from toolkit.show import remark
from toolkit.stats import Interval, PairedInterval, Settings
from toolkit.stats.curves.roc import InfluencedEstimate, pooled_auc

SINGLE = ("avg", "majority", "pass")


@checks_arguments()
def temperatures(log: AnyLog) -> dict[str, float]:
    """Returns the temperature of each pool whose first attempts have one temperature, lowest first."""
    opened_log = open_log(log)
    traces = opened_log.scan("traces", ["pool", "action", "temperature"]).filter(pl.col("action") == "solve")
    of_pool = traces.group_by("pool").agg(
        lowest=pl.col("temperature").min(),
        highest=pl.col("temperature").max(),
        unknown=pl.col("temperature").null_count(),
    )
    constant = of_pool.filter((pl.col("lowest") == pl.col("highest")) & (pl.col("unknown") == 0))
    return dict(collect(constant.select("pool", "lowest").sort("lowest", "pool"), opened_log).iter_rows())


@checks_arguments()
def by_temperature(log: AnyLog, *, where: str | None = None, settings: Settings | None = None) -> pl.DataFrame:
    """Returns accuracy of one sample, majority@k and pass@k of each pool with one temperature.

    Columns: temperature, pool, metric (avg, majority, pass), k, estimate, low, high, n; each pool on its own examples.
    Raises ThinkbackError where no pool has one temperature.
    """
    opened_log = open_log(log)
    by_pool = temperatures(opened_log)
    if not by_pool:
        raise UnsuitableError(
            f"no pool of {opened_log.address} has one temperature: set the column `temperature` of traces"
        )
    parts = [
        curves(opened_log, pool=pool, where=where, settings=settings)
        .filter(pl.col("metric").is_in(SINGLE))
        .select(pl.lit(temperature).alias("temperature"), "pool", "metric", "k", "estimate", "low", "high", "n")
        for pool, temperature in by_pool.items()
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
"""Names of what may be missing."""
FITTED = (LOCATIONS, TEMPERATURES, TRANSFER, READERS, MODELS, SIZES, SHARES)
"""Names of what needs states."""


@dataclass(frozen=True)
class TemperatureAuc:
    """The mean AUC of classifiers that were trained on traces of one temperature and measured on those of another.

    `rows`: traces to train on. `behind`: how far those that are trained at the measured temperature are above them.
    """

    trained: float
    measured: float
    area: Interval
    rows: int = 0
    behind: PairedInterval | None = None


@dataclass(frozen=True)
class SuffixAuc:
    """AUCs from the last `length` tokens of the same `traces`: of log-probability and of hidden states."""

    length: int
    traces: int
    logprob: Interval | None
    states: Interval | None


@dataclass(frozen=True)
class VoteAtTemperature:
    """The accuracy of a majority vote of `votes` samples at a temperature."""

    temperature: float
    votes: int
    accuracy: Interval


@dataclass(frozen=True)
class Ablations:
    """The further fits on one data set.

    `transfer`: pooled AUC on its reported traces by the data set that a verifier was trained on. `readers`: that of
    verifiers on the states of a model, by the name of these states. `transfer_behind`, `readers_behind`: how far the
    verifier of its own data set, and that on the study's states, is above each other one on the same traces. `missing`:
    why something was not found, by what. `notes`: what all of them were fitted on. `places`: those that stand for all
    where many fits are made, `fewer`: where each is for several seeds; `measured`: the traces that all are measured on.
    """

    transfer: Mapping[str, Interval] = field(default_factory=dict)
    readers: Mapping[str, Interval] = field(default_factory=dict)
    transfer_behind: Mapping[str, PairedInterval] = field(default_factory=dict)
    readers_behind: Mapping[str, PairedInterval] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    locations: tuple[PlaceAuc, ...] = ()
    temperatures: tuple[TemperatureAuc, ...] = ()
    models: tuple[ModelAuc, ...] = ()
    sizes: tuple[SeededAuc, ...] = ()
    shares: tuple[SeededAuc, ...] = ()
    suffixes: tuple[SuffixAuc, ...] = ()
    entropy: VotesEntropy | None = None
    votes: tuple[VoteAtTemperature, ...] = ()
    places: tuple[tuple[int, int], ...] = ()
    fewer: tuple[tuple[int, int], ...] = ()
    measured: int = 0
    notes: tuple[str, ...] = ()


MOST_TRACES, MOST_PLACES = 2_500, 16
"""Of each data set, pool and part; places that stand for all where many fits are made (those of a cell of the paper's
figure 2).
"""
LATENT = "latent"
"""The verifier that is studied where none is named."""
TRAIN = "split = 'train'"


@dataclass(frozen=True)
class LatentSetting:
    """The settings of the study on one data set.

    `verifiers`: of these, that of a pool is the first that scored it. `pool` is sampled from, `probe` holds single
    attempts. `on` and `where`: conditions on the examples that verifiers were fitted on and that are reported.
    `trained`: how many training rows are among those to report, which `where` then leaves out.
    `published`: data sets of the paper whose numbers stand beside. `answered`: whether judged traces without an answer,
    which are wrong ones, are left out everywhere. `seeds`: how often the ablations fit each classifier; `most`: the
    traces of each data set, pool and part (trained on or measured) that they take, 0 for all; `positions`: the layers
    and tokens that stand for all where many classifiers are fitted, 0 for all.
    """

    verifiers: tuple[str, ...]
    pool: str | None = None
    probe: str | None = None
    action: str | None = None
    on: str = TRAIN
    where: str | None = None
    trained: int = 0
    published: tuple[PublishedDataset, ...] = ()
    answered: bool = False
    ablations: bool = True
    most: int = MOST_TRACES
    positions: int = MOST_PLACES
    seeds: int = 3
    orders: int = 20
    settings: Settings = Settings()  # noqa: RUF009 -- frozen


UNTRAINED = "no training rows in this pool"
FRONT, SELECTING = "front", "weighted voting and best-of-n"
SCORED_SAMPLES = "scored_samples"
"""Code of a line on votes by score that use the first samples alone."""
"""Names of strategies among what is missing."""
FEWEST_SCORED = 2
"""Samples to vote on."""


@dataclass(frozen=True, eq=False)
class LatentStudy:
    """The results that the tables and figures of one data set show.

    `where`, `on`: conditions on its reported examples and on its training rows. `states`: the model whose hidden states
    its traces have, empty where there are none; `kinds`: of the log's verifiers. `pools`: those that a verifier of the
    study scored, that which is sampled from first. `strategies`, `front`: None where the log cannot serve them,
    `gains`: of these; `scored`: of the first samples alone, where the verifier scored no others of the pool; `chosen`
    (E,): the examples on which their settings were chosen. `models`: that which wrote the traces of a pool. `missing`:
    why something was not found, by what. `published`: the paper's data set whose numbers stand beside.
    """

    dataset: str
    log: Log
    setting: LatentSetting
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
    published: str | None = None

    @cached_property
    def verdicts(self) -> tuple[Verdict, ...]:
        left_out = {} if self.strategies is None else self.strategies.left_out or {}
        return verdicts_of(self.main_pool, self.setting.settings.level, self.gains, self.missing.get(FRONT), left_out)

    @property
    def simulated(self) -> bool:
        return self.log.simulated

    @property
    def table_pools(self) -> tuple[MeasuredPool, ...]:
        """The pools that tables show: the pool of samples, and the pool of probes."""
        probe = None if self.strategies is None else self.strategies.source.probe
        return tuple(pool for pool in self.pools if pool is self.main_pool or pool.pool == probe)

    def has_published_numbers(self, pool: MeasuredPool) -> bool:
        """Whether published numbers stand beside a pool: the paper measures greedy attempts."""
        greedy = next((table_pool for table_pool in self.table_pools if table_pool.temperature == 0), self.main_pool)
        return self.published is not None and pool is greedy

    @property
    def main_pool(self) -> MeasuredPool:
        """The pool that verdicts are of."""
        return self.pools[0]


def study_log(log: Log, setting: LatentSetting) -> tuple[LatentStudy, ...]:
    """Studies every data set of the reported examples that a verifier of the study scored."""
    contents = read_contents(log)
    _require_named_in_log(log, contents, setting)
    where, verifiers = setting.where or report_condition(log), _named_verifiers(contents, setting.verifiers)
    setting = replace(setting, where=where, verifiers=verifiers)
    ids = examples_where(log, setting.where)["example_id"]
    train = ids_where_or_none(log, setting.on)
    both = ids.is_in(train.implode())
    if both.any():
        setting = replace(setting, where=excluding(setting.where, setting.on), trained=int(both.sum()))
    ids = ids.filter(~both)
    if ids.is_empty():
        raise EmptyError(f"{argument('where')} names training rows alone; report others, such as split = 'test'")
    studies = tuple(_dataset_studies(log, contents, setting, ids, train))
    alone = len(studies) == 1
    studies = tuple(replace(one, published=published_name(setting.published, one.dataset, alone)) for one in studies)
    if not studies:
        raise EmptyError(f"{listed(setting.verifiers)} scored no judged traces of the reported examples")
    unserved = [study.missing[FRONT] for study in studies if FRONT in study.missing]
    if (setting.probe or setting.action) and len(unserved) == len(studies):
        raise EmptyError(unserved[0])
    return studies


def _require_named_in_log(log: Log, contents: Contents, setting: LatentSetting) -> None:
    """Raises ThinkbackError where the log lacks a named pool, verifier, action or set of training examples."""
    for pool in (setting.pool, setting.probe):
        if pool is not None:
            contents.require_pool(pool)
    if setting.action is not None:
        contents.require_action(setting.action)
    if setting.on != TRAIN:
        ids_where(log, setting.on, "on")


def _named_verifiers(contents: Contents, names: Sequence[str]) -> tuple[str, ...]:
    for name in names:
        contents.require_verifier(name)
    if not names and LATENT not in contents.verifiers:
        raise UnknownError(
            f"the log has no verifier `{LATENT}`: fit one with `thinkback fit-verifier LOG --train-on "
            f"\"split='train'\" --name {LATENT}`, or name another with {argument('verifier')}"
        )
    return tuple(names) or (LATENT,)


def _dataset_studies(
    log: Log, contents: Contents, setting: LatentSetting, ids: pl.Series, train: pl.Series
) -> Iterator[LatentStudy]:
    drawn_at, kinds = temperatures(log), kinds_of(log)
    every = sorted(contents.pools)
    answered = setting.answered
    trained = scored_traces(log, train, every, answered=answered) if len(train) else ()
    fitted = {(one.dataset, one.pool): one for one in trained}
    by_dataset: dict[str, list[ScoredTraces]] = {}
    for traces in scored_traces(log, ids, every, answered=answered):
        by_dataset.setdefault(traces.dataset, []).append(traces)
    for dataset, pool_traces in sorted(by_dataset.items()):
        pools = []
        for traces in sorted(pool_traces, key=lambda one: _pool_key(one, drawn_at.get(one.pool), setting)):
            verifier = next((name for name in setting.verifiers if name in traces.scores), None)
            if verifier is not None:
                training = fitted.get((dataset, traces.pool))
                pools.append(measure_pool(drawn_at.get(traces.pool), verifier, traces, training, kinds, UNTRAINED))
        if pools:
            study = LatentStudy(
                dataset, log, setting, in_dataset(setting.where, dataset), in_dataset(setting.on, dataset),
                _states_model(log, dataset), kinds, tuple(pools), _models_by_pool(log, dataset),
            )  # fmt: skip
            yield _with_strategy_front(study, pool_traces, contents)


def _pool_key(traces: ScoredTraces, drawn_at: float | None, setting: LatentSetting) -> tuple[bool, float, float, str]:
    """Returns a sort key of pools: the one asked for first, then larger ones, then higher temperatures."""
    size = len(traces.right) / (int(traces.example.max()) + 1)
    return traces.pool != setting.pool, -round(size), -(drawn_at or 0.0), traces.pool


def _with_strategy_front(study: LatentStudy, pool_traces: Sequence[ScoredTraces], contents: Contents) -> LatentStudy:
    """Adds strategies and their frontier to a study, where the log has what they need."""
    setting = study.setting
    try:
        pool = (
            setting.pool
            or min(pool_traces, key=lambda one: _pool_key(one, _temperature_of_pool(study, one.pool), setting)).pool
        )
        probe = setting.probe or _probe_pool(study, pool)
        scored = next((one.verifier for one in study.pools if one.pool == (probe or pool)), None)
        pool_strategies = strategies(
            study.log, pool=pool, probe=probe, verifiers=[] if scored is None else [scored], action=setting.action,
            orders=setting.orders, seed=setting.settings.seed, where=study.where,
        )  # fmt: skip
        chosen = random_half_of_examples(pool_strategies.examples, setting.settings.seed)
        front = front_of_strategies(pool_strategies, chosen, setting.settings)
    except ThinkbackError as error:
        return replace(study, missing={**study.missing, FRONT: str(error)})
    extended = study if scored is None else _with_scored_samples(study, pool_strategies, scored)
    others = _other_pools(study, pool_strategies, contents)
    gains = gains_of(pool_strategies, front, chosen, setting.settings, extended.scored, others)
    return replace(extended, strategies=pool_strategies, front=front, chosen=chosen, gains=gains)


def _with_scored_samples(study: LatentStudy, pool_strategies: Strategies, verifier: str) -> LatentStudy:
    """Adds strategies on the first samples of each question, where the verifier scored only those."""
    if any(one.verifier == verifier for one in pool_strategies.plain):
        return study
    source, setting = pool_strategies.source, study.setting
    first = _count_first_scored(study.log, verifier, source.pool, pool_strategies.examples["example_id"])
    if first < FEWEST_SCORED:
        return study
    try:
        scored = strategies(
            study.log, pool=source.pool, probe=source.probe, verifiers=[verifier], samples=first,
            orders=setting.orders, seed=setting.settings.seed, where=study.where,
        )  # fmt: skip
    except ThinkbackError as error:
        return replace(study, missing={**study.missing, SELECTING: str(error)})
    if not any(one.verifier == verifier for one in scored.plain):
        return study
    text = f"`{verifier}` scored the first {first} samples of `{source.pool}`, so its strategies use these alone"
    return replace(study, scored=scored, missing={**study.missing, SELECTING: remark(SCORED_SAMPLES, text)})


def _other_pools(study: LatentStudy, pool_strategies: Strategies, contents: Contents) -> dict[str, Strategies]:
    """Returns the strategies of other pools with several samples by the same model on the same examples."""
    source, by_pool = pool_strategies.source, dict[str, Strategies]()
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
        on = one.examples["example_id"].is_in(pool_strategies.examples["example_id"].implode()).to_numpy()
        if on.sum() == len(pool_strategies.unit):
            by_pool[pool] = one.for_examples(on)
    return by_pool


def _count_first_scored(log: Log, verifier: str, pool: str, examples: pl.Series) -> int:
    traces = log.scan("traces", ["trace_id", "example_id", "pool", "action", "sample_index"]).filter(
        pl.col("pool") == pool, pl.col("action") == "solve", pl.col("example_id").is_in(examples.implode())
    )
    scores = log.scan("verifications", ["trace_id", "verifier"]).filter(pl.col("verifier") == verifier)
    counts = traces.join(scores, on="trace_id", how="semi").group_by("sample_index").len()
    at = dict(collect(counts, log).iter_rows())
    least = (1 - MOST_MISSING) * len(examples)
    return next(number for number in range(len(at) + 1) if at.get(number, 0) < least)


def _temperature_of_pool(study: LatentStudy, pool: str) -> float | None:
    return next((one.temperature for one in study.pools if one.pool == pool), None)


def _probe_pool(study: LatentStudy, pool: str) -> str | None:
    """Returns the coldest pool of single attempts that its verifier scored: the probe; None where there is none."""
    single = [(one.temperature or 0.0, one.pool) for one in study.pools if one.is_single and one.pool != pool]
    return min(single)[1] if single else None


def _states_model(log: Log, dataset: str) -> str:
    """Returns the model that has hidden states of most traces of a data set; empty where no model has any."""
    quoted = log.scan("examples", ["example_id", "dataset"]).filter(pl.col("dataset") == dataset)
    traces = log.scan("traces", ["trace_id", "example_id"]).join(quoted, on="example_id", how="semi").select("trace_id")
    counts = {}
    for model in log.hidden_models:
        rows = log.scan(f"hidden_states/{model}", ["trace_id"]).join(traces, on="trace_id", how="semi")
        counts[model] = collect(rows.select(pl.len()), log).item()
    best = max(counts, key=lambda name: counts[name], default="")
    return best if counts.get(best) else ""


def _models_by_pool(log: Log, dataset: str) -> dict[str, str]:
    """Maps each pool of a data set to the model of its first attempts; pools of several models are absent."""
    examples = log.scan("examples", ["example_id", "dataset"]).filter(pl.col("dataset") == dataset)
    traces = log.scan("traces", ["example_id", "pool", "action", "model"]).filter(pl.col("action") == "solve")
    pairs = traces.join(examples, on="example_id", how="semi").select("pool", "model").unique()
    models = collect(pairs.group_by("pool").agg(pl.col("model").first(), pl.len()), log)
    return {pool: model for pool, model, count in models.sort("pool").iter_rows() if count == 1 and model is not None}


LONGEST = 16
"""Suffix, in tokens (figure 11)."""
FEW_DEGREES = "votes on these questions were drawn at fewer than two known temperatures"


def ablations_of(study: LatentStudy, every: Sequence[LatentStudy]) -> Ablations:
    """Fits the ablations of one data set. `every` holds all data sets of the log, this one included."""
    missing = dict[str, str]()
    on_votes = Ablations(
        entropy=_votes_entropy(study, missing), votes=tuple(_votes_by_temperature(study, missing)), missing=missing
    )
    placed = _placed_traces_of_all_datasets(study, every) if study.states else None
    if placed is None:
        why = f"no model has hidden states of traces of {study.dataset} both to train on and to report"
        missing |= dict.fromkeys(FITTED, why)
        return replace(on_votes, suffixes=tuple(_suffix_aucs(study, study.main_pool.pool, None, None)))
    level = study.setting.settings.level
    dataset_traces = place_probes.restrict_traces(placed, placed.has_value("dataset", study.dataset))
    pool = _pool_for_ablations(study, dataset_traces)
    main = place_probes.restrict_traces(dataset_traces, dataset_traces.has_value("pool", pool))
    few = choose_places(main, study.setting.positions)
    fewer = thin_out_places(few, study.setting.positions)
    table = place_probes.score_table(main, main.train, main.states_at())
    transferred, read = _transfer_aucs(study, every, placed, pool, few, missing), _reader_aucs(study, pool, missing)
    others = max(len(transferred) - 1, 0) + max(len(read) - 1, 0)
    by_temperature = tuple(_temperature_aucs(study, dataset_traces, few, missing, others))
    raised = _bonferroni_level(level, others + sum(one.behind is not None for one in by_temperature))
    return replace(
        on_votes,
        transfer={name: area.interval(level) for name, area in transferred.items()},
        readers={name: area.interval(level) for name, area in read.items()},
        transfer_behind=_differences_to_reference(transferred, study.dataset, raised),
        readers_behind=_differences_to_reference(read, study.states, raised),
        locations=place_probes.auc_by_place(main, table, level),
        temperatures=by_temperature,
        models=tuple(_model_aucs(study, main, missing)),
        sizes=tuple(place_probes.auc_by_training_questions(main, fewer, study.setting.seeds, level)),
        shares=tuple(place_probes.auc_by_right_share(main, fewer, study.setting.seeds, level)),
        suffixes=tuple(_suffix_aucs(study, pool, main, table)),
        places=tuple(main.places[place] for place in few),
        notes=tuple(ablation_notes(main, pool, few, placed.left_out, table, level)),
        fewer=tuple(main.places[place] for place in fewer),
        measured=int((~main.train & ~np.isnan(table).all(axis=1)).sum()),
    )


def _placed_traces_of_all_datasets(study: LatentStudy, every: Sequence[LatentStudy]) -> PlacedTraces | None:
    """Reads hidden states by one model: training traces of all data sets, and reported traces of this one."""
    train = pl.concat([ids_where_or_none(one.log, one.on) for one in every if one.states == study.states])
    return _placed_traces(study, study.states, train)


def _placed_traces(study: LatentStudy, states: str, train: pl.Series) -> PlacedTraces | None:
    """Reads traces with their hidden states; None where this data set has no training trace or no reported one."""
    setting, reported = study.setting, ids_where(study.log, study.where, "where")
    placed = place_probes.placed_traces(
        study.log, states, train, reported, setting.most, setting.settings.seed, answered=setting.answered
    )
    if placed is None:
        return None
    in_dataset = placed.has_value("dataset", study.dataset)
    return placed if (in_dataset & placed.train).any() and (in_dataset & ~placed.train).any() else None


def _pool_for_ablations(study: LatentStudy, placed: PlacedTraces) -> str:
    """Returns the pool of the verdicts where its traces have states, else the pool with most such traces."""
    counts = placed.keys.filter(pl.Series(~placed.train))["pool"].value_counts().sort("count", "pool", descending=True)
    return study.main_pool.pool if study.main_pool.pool in counts["pool"] else str(counts["pool"][0])


def _temperature_aucs(
    study: LatentStudy, placed: PlacedTraces, places: Sequence[int], missing: dict[str, str], others: int
) -> Iterator[TemperatureAuc]:
    """Trains at each temperature, measures at every one. `others`: further differences at the same joint level."""
    drawn_at = temperatures(study.log)
    pools = {pool: drawn_at[pool] for pool in placed.keys["pool"].unique().sort() if pool in drawn_at}
    by_degree: dict[float, np.ndarray] = {}
    for pool, degree in sorted(pools.items(), key=lambda one: one[1]):
        by_degree[degree] = by_degree.get(degree, np.zeros(len(placed.right), bool)) | placed.has_value("pool", pool)
    if len(by_degree) < 2:
        missing[TEMPERATURES] = "traces with hidden states were drawn at fewer than two known temperatures"
        return
    names = {f"{degree:g}": degree for degree in by_degree}
    settings, parts = study.setting.settings, {name: by_degree[degree] for name, degree in names.items()}
    level, balanced = settings.level, place_probes.equal_training_parts(placed, parts, settings.seed)
    areas = place_probes.transfer_aucs(placed, parts, places, trained_on=balanced)
    behind = place_probes.transfer_auc_gaps(areas, _bonferroni_level(level, len(parts) * (len(parts) - 1) + others))
    for (trained, at), area in areas.items():
        rows, less = int(balanced[trained].sum()), behind.get((trained, at))
        yield TemperatureAuc(names[trained], names[at], area.interval(level), rows, less)


def _bonferroni_level(level: float, count: int) -> float:
    """Returns the level of each of `count` intervals that shall hold at once (Bonferroni)."""
    return 1 - (1 - level) / max(count, 1)


def _differences_to_reference(
    areas: Mapping[str, InfluencedEstimate], reference: str, level: float
) -> dict[str, PairedInterval]:
    """Returns the paired difference of the reference's AUC to each other one."""
    if reference not in areas:
        return {}
    return {name: areas[reference].difference_to(area, level) for name, area in areas.items() if name != reference}


def _transfer_aucs(
    study: LatentStudy, every: Sequence[LatentStudy], placed: PlacedTraces, pool: str, places: Sequence[int],
    missing: dict[str, str],
) -> Mapping[str, InfluencedEstimate]:  # fmt: skip
    names = [one.dataset for one in every if one.states == study.states]
    at_pool = placed.has_value("pool", pool)
    parts = {name: at_pool & placed.has_value("dataset", name) for name in names}
    parts = {name: part for name, part in parts.items() if part.any()}
    if len(parts) < 2:
        missing[TRANSFER] = "no model has hidden states of two data sets in one pool"
    areas = place_probes.transfer_aucs(placed, parts, places, together=True)
    return {trained: area for (trained, at), area in areas.items() if at == study.dataset}


def _reader_aucs(study: LatentStudy, pool: str, missing: dict[str, str]) -> Mapping[str, InfluencedEstimate]:
    train, by_model = ids_where_or_none(study.log, study.on), {}
    for name in study.log.hidden_models:
        placed = _placed_traces(study, name, train)
        in_pool = placed if placed is None else place_probes.restrict_traces(placed, placed.has_value("pool", pool))
        if in_pool is not None and in_pool.train.any() and not in_pool.train.all():
            by_model[name] = in_pool
    if len(by_model) < 2:
        missing[READERS] = f"no two models have hidden states of the same traces of `{pool}`"
        return {}
    common = pl.concat([reader_traces.keys["trace_id"].to_frame() for reader_traces in by_model.values()])
    counts = common.group_by("trace_id").len().filter(pl.col("len") == len(by_model))["trace_id"]
    scores, traces = {}, None
    for name, reader_traces in by_model.items():
        is_common = reader_traces.keys["trace_id"].is_in(counts.implode()).to_numpy()
        common_traces = place_probes.restrict_traces(reader_traces, is_common)
        if common_traces.train.any() and not common_traces.train.all():
            rows = common_traces.states_at(choose_places(common_traces, study.setting.positions))
            table = place_probes.score_table(common_traces, common_traces.train, rows)
            scores[name], traces = place_probes.mean_score_over_places(table), common_traces
    if traces is None:
        return {}
    known = ~traces.train & ~np.isnan(list(scores.values())).any(axis=0)
    return {name: place_probes.pooled_auc_of_score(traces, score, known) for name, score in scores.items()}


def _model_aucs(study: LatentStudy, main: PlacedTraces, missing: dict[str, str]) -> Iterator[ModelAuc]:
    """Fits each kind of classifier at the last layer, at the tokens −1, −2, −4, −8 and −16 where they are logged."""
    layer = max(layer for layer, _ in main.places)
    ends = [
        at for at, (at_layer, token) in enumerate(main.places) if at_layer == layer and token in (-1, *PAPER_PLACES)
    ]
    places = ends or [at for at, (at_layer, _) in enumerate(main.places) if at_layer == layer]
    kinds = ["xgboost", "logistic", "mlp"]
    if find_spec("torch") is None:
        missing["the classifier swiglu"] = "the classifier needs the package torch, which the extra `generate` brings"
    else:
        kinds.append("swiglu")
    yield from place_probes.auc_by_model_kind(
        main, thin_out_places(places, study.setting.positions), kinds, study.setting.seeds, study.setting.settings.level
    )


def _suffix_aucs(
    study: LatentStudy, pool: str, main: PlacedTraces | None, table: np.ndarray | None
) -> Iterator[SuffixAuc]:
    measured = next((one for one in study.pools if one.pool == pool), study.main_pool)
    traces, level = measured.traces, study.setting.settings.level
    scores = traces.log_probabilities_by_suffix(range(1, min(LONGEST, traces.most_tokens) + 1))
    tokens = [-token for _, token in main.places if token < 0] if main is not None else []
    for length in range(1, min(LONGEST, max([*scores, *tokens], default=0)) + 1):
        states, logprob = None, scores.get(length)
        if main is not None and table is not None and length >= min(tokens, default=LONGEST + 1):
            within = [at for at, (_, token) in enumerate(main.places) if -length <= token < 0]
            measured_scores = np.where(main.train, np.nan, place_probes.mean_score_over_places(table, within))
            states = _align_scores_to_traces(traces, main.keys["trace_id"], measured_scores)
        given = [~np.isnan(one) for one in (logprob, states) if one is not None]
        known = np.logical_and.reduce(given) if given else np.zeros(0, bool)  # both on the traces that have both
        if known.any():
            areas = (None if one is None else _pooled_auc_of_known(traces, one, known) for one in (logprob, states))
            limits = [None if area is None else area.interval(level) for area in areas]
            yield SuffixAuc(length, int(known.sum()), *limits)


def _pooled_auc_of_known(traces: ScoredTraces, score: np.ndarray, known: np.ndarray) -> InfluencedEstimate:
    return pooled_auc(np.where(known, score, np.nan), traces.right, traces.unit, int(traces.unit.max()) + 1)


def _align_scores_to_traces(traces: ScoredTraces, ids: pl.Series, score: np.ndarray) -> np.ndarray:
    """Aligns scores of other traces, by `ids`, to these traces (N,); NaN where a trace has no score."""
    known = pl.DataFrame({"trace_id": ids, "score": score})
    joined = traces.trace.to_frame("trace_id").join(known, on="trace_id", how="left", maintain_order="left")
    return joined["score"].fill_null(float("nan")).to_numpy()


def _votes_entropy(study: LatentStudy, missing: dict[str, str]) -> VotesEntropy | None:
    source = study.strategies.source if study.strategies is not None else None
    pool = source.pool if source is not None else study.main_pool.pool
    probe = source.probe if source is not None else None
    scored = {one.pool: one.verifier for one in study.pools}
    verifier = scored.get(probe or pool)
    entropy = None
    if verifier is not None:
        level = study.setting.settings.level
        entropy = votes_entropy(study.log, verifier, pool=pool, probe=probe, where=study.where, level=level)
    if entropy is None:
        missing[ENTROPY] = "too few questions have a scored first attempt and several votes beside it"
    return entropy


def _votes_by_temperature(study: LatentStudy, missing: dict[str, str]) -> Iterator[VoteAtTemperature]:
    pools = _pools_with_several_samples(study)
    if len({degree for pool, degree in temperatures(study.log).items() if pool in pools}) < 2:
        missing[VOTES] = FEW_DEGREES
        return
    frame = by_temperature(study.log, where=study.where, settings=study.setting.settings)
    frame = frame.filter(pl.col("metric") == "majority", pl.col("pool").is_in(pools), pl.col("estimate").is_not_null())
    if frame["temperature"].n_unique() < 2:
        missing[VOTES] = FEW_DEGREES
        return
    for row in frame.sort("k", "temperature").iter_rows(named=True):
        accuracy = Interval(row["estimate"], row["low"], row["high"], row["n"], None)
        yield VoteAtTemperature(row["temperature"], row["k"], accuracy)


def _pools_with_several_samples(study: LatentStudy) -> list[str]:
    attempts = study.log.scan("traces", ["pool", "action", "example_id"]).filter(pl.col("action") == "solve")
    sizes = collect(attempts.group_by("pool").agg(most=pl.len() / pl.col("example_id").n_unique()), study.log)
    return sizes.filter(pl.col("most") > 1)["pool"].to_list()
