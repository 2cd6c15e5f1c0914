"""Published against simulated: the numbers that a simulation was fitted to, and how near they should lie."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from replay.analyses.budgets.pool_depth import gold_within
from replay.data.conditions import TEST
from replay.studies.factcheck.methods.methods import Methods, replay_methods
from replay.studies.factcheck.published import CAP, WORK, FactcheckSetting, bucket_keys, published
from replay.studies.factcheck.simulated.fidelity import Line, bounded, fit_of, fitted_lines, known_of, share_error
from replay.studies.kit.published import PublishedDataset
from toolkit.errors import ThinkbackError, argument
from toolkit.features import CLAIM_FEATURES
from toolkit.log import Log

FIT = fit_of(WORK)
"""What the simulations were fitted to, with the distances."""
KNOWN = known_of(FIT)
RESAMPLES = 200
GOLD = FIT["gold"]
"""What the thesis's text says of it (section 1.1.5), in per cent."""
FIRST_FIVE = "first 5 traces"


def simulated_setting(pool: str, cap: int = CAP, resamples: int = RESAMPLES) -> FactcheckSetting:
    """What is asked of a simulated log."""
    return FactcheckSetting(pool, "lora", CLAIM_FEATURES, cap, asked={"where": TEST, "resamples": resamples})


def check_simulation(log: Log, name: str, pool: str) -> list[Line]:
    """Replay a simulated data set with the cap of 15 and compare it with the published numbers.

    Raises ThinkbackError where the pool is smaller than that.
    """
    numbers, setting = published(name), simulated_setting(pool)
    main = replay_methods(log, setting)
    if main.missing:
        raise ThinkbackError(
            f"the published runs have {CAP} traces per claim: simulate at least as many {argument('traces')}"
        )
    lines = [*fitted_lines(FIT, "main", main, numbers), *_shares(main, numbers), *_gold(log, name, setting, main.n)]
    if name == "quantemp":
        lines += fitted_lines(FIT, "other", replay_methods(log, replace(setting, verifier="deepseek")), numbers)
    return [bounded(x, FIT["relaxed"].get(name, 1.0), KNOWN.get((name, x.table, x.method, x.what))) for x in lines]


def _gold(log: Log, name: str, setting: FactcheckSetting, claims: int) -> Iterator[Line]:
    within = gold_within(log, setting.pool, 5, where=setting.where, settings=setting.settings).filter(k=5)
    wanted = WORK.stated(GOLD[name])
    found, error = 100 * within["share"].item(), share_error(wanted / 100, claims)
    yield Line("gold", FIRST_FIVE, "claims with a gold trace, %", wanted, found, FIT["shares"], error)


def _shares(main: Methods, numbers: PublishedDataset) -> Iterator[Line]:
    for bucket in main.buckets():
        wanted = numbers.value("B.1", "claims", **bucket_keys(bucket))
        if wanted is not None:
            what, share = f"claims with {bucket.first} to {bucket.last} traces, %", wanted / main.n
            error = share_error(share, main.n)
            yield Line("B.1", bucket.policy, what, 100 * share, 100 * bucket.share, FIT["shares"], error)
