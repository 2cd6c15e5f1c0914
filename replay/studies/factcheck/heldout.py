"""Published numbers that no simulation was fitted to, which test it: what logs of several seeds say of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from replay.analyses.budgets import ORDERS, budgets
from replay.analyses.pool_depth import gold_within
from replay.analyses.surrogate_keys import gaps
from replay.studies.factcheck import runs
from replay.studies.factcheck.check import CAP, RESAMPLES
from replay.studies.factcheck.fixed_budgets import BUDGETS
from replay.studies.factcheck.published import WORK, published
from replay.studies.factcheck.runs import ADAPTIVE, BEST, SURROGATE, bucket_keys
from replay.studies.kit.cells import cell
from replay.studies.kit.fidelity import HeldOut, HeldOutNumber, held_out_line, over_seeds
from replay.studies.kit.published import PublishedDataset
from toolkit.features import CLAIM_FEATURES
from toolkit.log import Log
from toolkit.show import ShownInterval

TRACES = {"quantemp": 40, "claimdecomp": 50}
"""Traces per claim that these tables take."""
SPLITS = {"quantemp": ("QuanTemp test", 15), "claimdecomp": ("ClaimDecomp test", 50)}
"""Rows of table B.4 that are of a simulated split, and the size of their pool."""
GOLD = {"quantemp": "QuanTemp claims with a gold-label trace among the first five attempts"}
"""What the thesis's text says of it (section 1.1.5), in per cent."""
EARLIER_RUN = "the published run of 40 traces is another one than that of 15, which was fitted to, and 2.4 points lower"
EXACT = "operations hardly vary, so that a slightly other share of missing labels or of margins that hold shows"
HARDNESS = "how hard a claim is and how soon its margin holds go together more loosely than in the published run"
UNSEEN = (
    "the label score of an answer that is not yet verified is not published, and decides signs (`budget_keys`); most "
    "published differences lie within two sampling errors of 0"
)
LUCK = "simulated labels vary more from trace to trace than the published ones"
REASONS = {"5.11": EARLIER_RUN, "5.12": EXACT, "B.1": HARDNESS, "B.4": UNSEEN, "gold": LUCK}
"""What is known of the numbers of each table that fail."""


def held_out(logs: Iterable[Log], name: str, pool: str) -> list[HeldOut]:
    """Every number that the simulation of a data set was not fitted to, in its logs of several seeds."""
    return over_seeds(_found(log, name, pool, 1 if i else RESAMPLES) for i, log in enumerate(logs))


def _found(log: Log, name: str, pool: str, resamples: int) -> Iterator[HeldOutNumber]:
    numbers, asked = published(name), {"where": "split = 'test'", "resamples": resamples}
    setting = runs.FactcheckSetting(pool, "lora", CLAIM_FEATURES, CAP, asked=asked)
    for bucket in runs.replay_methods(log, setting).buckets():
        for what, name_of, column in (
            ("method macro-F1, %", bucket.policy, "method_macro_f1_pct"),
            ("exhaustive macro-F1, %", BEST, "exhaustive_macro_f1_pct"),
        ):
            found = None if bucket.part is None else cell(bucket.part, name_of, "macro_f1", 100)
            wanted, which = numbers.value("B.1", column, **bucket_keys(bucket)), f"{bucket.first} to {bucket.last}"
            yield from held_out_line("B.1", bucket.policy, f"{which} traces: {what}", wanted, found)
    if name == "quantemp":
        yield from _larger_caps(log, setting, numbers)
    if name in GOLD:
        within = gold_within(log, pool, 5, where=setting.where, settings=setting.settings).filter(k=5)
        share = ShownInterval.of(within.select("share", "low", "high").row(0), 100)
        yield from held_out_line(
            "gold", "first 5 traces", "claims with a gold trace, %", WORK.stated(GOLD[name]), share
        )
    yield from _signs(log, name, setting)


def _larger_caps(log: Log, setting: runs.FactcheckSetting, numbers: PublishedDataset) -> Iterator[HeldOutNumber]:
    for cap in (20, 30, 40):
        made = runs.replay_methods(
            log, runs.FactcheckSetting(setting.pool, setting.verifier, setting.features, cap, asked=setting.asked),
            (BEST, ADAPTIVE),
        )  # fmt: skip
        for method in (BEST, ADAPTIVE):
            keys = {"max_traces": cap, "method": method}
            for table, column, metric, scale in (
                ("5.11", "macro_f1_pct", "macro_f1", 100),
                ("5.12", "operations", "operations", made.n),
            ):
                wanted, what = numbers.value(table, column, **keys), f"{metric}, cap {cap}"
                yield from held_out_line(table, method, what, wanted, made.cell(method, metric, scale))


def _signs(log: Log, name: str, setting: runs.FactcheckSetting) -> Iterator[HeldOutNumber]:
    pool, size = SPLITS[name]
    rows = {row["k"]: row for row in WORK.rows("B.4") if row["pool"] == pool}
    columns = {"generation": "generation_order_macro_f1_pct", "random, expected": "random_macro_f1_pct"}
    orders = {order: ORDERS[order] for order in (*columns, "surrogate")}
    made = budgets(
        log, verifier=setting.verifier, max_traces=size, pool=setting.pool, features=setting.features, orders=orders,
        budget=BUDGETS[size], **setting.asked,
    )  # fmt: skip
    for order, column in columns.items():
        found = gaps(made, "surrogate", order)
        for k in BUDGETS[size]:
            wanted, what = rows[k]["surrogate_macro_f1_pct"] - rows[k][column], f"k = {k}: less {order}, points"
            less = found[k].points if k in found else None
            yield from held_out_line("B.4", SURROGATE, what, round(wanted, 2), less, True)
