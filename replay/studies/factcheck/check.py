"""Published against simulated: the numbers that a simulation was fitted to, and how near they should lie."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from replay.analyses.pool_depth import gold_within
from replay.studies.factcheck.published import WORK, FactcheckSetting, bucket_keys, published
from replay.studies.kit.fidelity import Known, Line, bounded, sampling_error, share_error
from replay.studies.kit.methods import ADAPTIVE, BEST, SURROGATE, TOP, VERIFYING, VOTE, Methods, replay_methods
from replay.studies.kit.published import PublishedDataset
from toolkit.errors import ThinkbackError, argument
from toolkit.features import CLAIM_FEATURES
from toolkit.log import Log

CAP = 15
FIRST_FIVE = "first 5 traces"
QUALITY, CLASS_F1, TRACES, SHARE, CALLS = 1.5, 4.0, 0.6, 8.0, 6.0
"""Distances: points of accuracy and macro-F1, points of a class's F1, traces per claim, points, percent."""
RELAXED = {"claimdecomp": 2.0}
"""With 200 claims, twice as far."""
FASTER = "the simulated margins part a little sooner than the published ones"
STAYS = "the simulated surrogate leaves the first label later, so that more claims stop in the middle"
LUCK = "simulated labels vary more from trace to trace than the published ones"
KNOWN = {
    ("quantemp", "gold", FIRST_FIVE, "claims with a gold trace, %"): Known(2.85, LUCK),
    ("quantemp", "5.3", ADAPTIVE, "traces per claim"): Known(-0.276, FASTER),
    ("quantemp", "5.6", ADAPTIVE, "verifier calls"): Known(-654.0, FASTER),
    ("quantemp", "5.6", SURROGATE, "verifier calls"): Known(-890.0, FASTER),
    ("quantemp", "B.1", ADAPTIVE, "claims with 6 to 10 traces, %"): Known(-1.08, FASTER),
    ("quantemp", "B.1", SURROGATE, "claims with 6 to 10 traces, %"): Known(3.17, STAYS),
    ("quantemp", "B.1", SURROGATE, "claims with 11 to 15 traces, %"): Known(-3.29, STAYS),
}
"""Fitted numbers that are known to lie further off, and by how much in the log of seed 0: by data set, table, method
and number."""
RESAMPLES = 200
GOLD = {
    "quantemp": "QuanTemp claims with a gold-label trace among the first five attempts",
    "claimdecomp": "ClaimDecomp claims with a gold-label trace among the first five attempts",
}
"""What the thesis's text says of it (section 1.1.5), in per cent."""
LABELS = {"t_f1_pct": "f1:Supports", "f_f1_pct": "f1:Refutes", "c_f1_pct": "f1:Conflicting"}


def check_simulation(log: Log, name: str, pool: str) -> list[Line]:
    """Replay a simulated data set with the cap of 15 and compare it with the published numbers.

    Raises ThinkbackError where the pool is smaller than that.
    """
    numbers, factor = published(name), RELAXED.get(name, 1.0)
    setting = FactcheckSetting(
        pool, "lora", CLAIM_FEATURES, CAP, asked={"where": "split = 'test'", "resamples": RESAMPLES}
    )
    main = replay_methods(log, setting)
    if main.missing:
        raise ThinkbackError(
            f"the published runs have {CAP} traces per claim: simulate at least as many {argument('traces')}"
        )
    lines = [*_main(main, numbers), *_gold(log, name, setting, main.n)]
    if name == "quantemp":
        lines += _other(replay_methods(log, replace(setting, verifier="deepseek")), numbers)
    return [bounded(line, factor, KNOWN.get((name, line.table, line.method, line.what))) for line in lines]


def _main(main: Methods, numbers: PublishedDataset) -> Iterator[Line]:
    for method in (TOP, VOTE, BEST):
        yield from _quality(main, numbers, "5.1", method, QUALITY, CLASS_F1)
    yield from _quality(main, numbers, "5.2", ADAPTIVE, QUALITY, CLASS_F1)
    yield from _traces(main, numbers, "5.3", ADAPTIVE)
    for method in VERIFYING:
        yield from _calls(main, numbers, "5.6", method)
    yield from _shares(main, numbers)


def _gold(log: Log, name: str, setting: FactcheckSetting, claims: int) -> Iterator[Line]:
    within = gold_within(log, setting.pool, 5, where=setting.where, settings=setting.settings).filter(k=5)
    wanted = WORK.stated(GOLD[name])
    error = share_error(wanted / 100, claims)
    what = "claims with a gold trace, %"
    yield Line("gold", FIRST_FIVE, what, wanted, 100 * within["share"].item(), SHARE, error)


def _other(other: Methods, numbers: PublishedDataset) -> Iterator[Line]:
    yield from _quality(other, numbers, "5.8", BEST, QUALITY, CLASS_F1)
    for method in (ADAPTIVE, SURROGATE):
        yield from _quality(other, numbers, "5.8", method, QUALITY, CLASS_F1)
    yield from _traces(other, numbers, "5.9", ADAPTIVE)
    for method in VERIFYING:
        yield from _calls(other, numbers, "5.9", method)


def _quality(
    methods: Methods, numbers: PublishedDataset, table: str, method: str, near: float, near_class: float
) -> Iterator[Line]:
    metrics = {"accuracy_pct": "accuracy", "macro_f1_pct": "macro_f1", **LABELS}
    for column, metric in metrics.items():
        wanted = numbers.value(table, column, method=method)
        found = methods.cell(method, metric, 100)
        if wanted is not None and found is not None:
            allowed = near_class if column in LABELS else near
            yield Line(table, method, f"{metric}, %", wanted, found.estimate, allowed, sampling_error(found))


def _traces(methods: Methods, numbers: PublishedDataset, table: str, method: str) -> Iterator[Line]:
    wanted, found = numbers.value(table, "traces_per_claim", method=method), methods.cell(method, "traces")
    if wanted is not None and found is not None:
        yield Line(table, method, "traces per claim", wanted, found.estimate, TRACES, sampling_error(found))


def _calls(methods: Methods, numbers: PublishedDataset, table: str, method: str) -> Iterator[Line]:
    wanted, found = (
        numbers.value(table, "verifier_calls", method=method),
        methods.cell(method, "verifications", methods.n),
    )
    if wanted is not None and found is not None:
        allowed, error = CALLS / 100 * wanted, sampling_error(found)
        yield Line(table, method, "verifier calls", wanted, found.estimate, allowed, error)


def _shares(main: Methods, numbers: PublishedDataset) -> Iterator[Line]:
    for bucket in main.buckets():
        wanted = numbers.value("B.1", "claims", **bucket_keys(bucket))
        if wanted is not None:
            what = f"claims with {bucket.first} to {bucket.last} traces, %"
            share = wanted / main.n
            error = share_error(share, main.n)
            yield Line("B.1", bucket.policy, what, 100 * share, 100 * bucket.share, SHARE, error)
