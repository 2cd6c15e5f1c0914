"""Designs with a known truth, for `coverage.py`: outcomes of policies that are all drawn in the same way.

An enumerated design has a policy for each outcome that there can be, with its probability; a simulated one has a few
policies that are drawn anew in each run. Of pairs the first policy is the one that the others are compared with.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import NormalDist

import numpy as np

from toolkit.columns import OutcomeColumn
from toolkit.stats import OutcomeBlock, Settings, auc_intervals, paired_interval
from toolkit.stats.curves.calibration import clustered_calibration
from toolkit.stats.many.headroom import captured_shares
from toolkit.stats.metrics.outcomes import Store
from toolkit.stats.metrics.scan import kish_number
from toolkit.stats.metrics.strata import Strata, effective_units

SIZES = (30, 100, 500, 2500)
POLICIES, COMPARED = 20, 4
"""Policies of a simulated run, which share the resamples; those that are compared share the baseline's outcomes too."""

THREE, TEN, RARE = (0.5, 0.3, 0.2), (0.1,) * 10, (0.1, 0.3, 0.6)
"""Shares of gold classes."""

LEFT_OUT = 2e-4
"""Probability of the rarest outcomes, which an enumeration leaves out."""

Array = np.ndarray
Generator = np.random.Generator

PER_RIGHT = OutcomeColumn("tokens_per_right", computed="ratio", ratio=("total_tokens", "accuracy"), cost=True)


@dataclass(frozen=True)
class Design:
    """What is drawn, and what is true of it.

    `metric`: the row whose intervals are counted, of the differences where `paired`. `draw`: a run of n examples, and
    the probabilities of its policies where they are enumerated. `events`: of n examples, how many errors, or examples
    on which the two differ, are expected; infinite where the metric counts none. `gold`: share of the rarest class.
    `clusters`: how many of equal size they are worth, 0 where examples are independent. `wide`: whether the rule errs
    on the wide side. `margin`: what is lost where the false "not worse" are counted. `power`: the aim where intervals
    that leave the truth out are counted. `least`: the promise, where it is another. `limits`: in place of `draw`,
    limits and methods themselves. `strata`: those of examples with such resampling units.
    """

    metric: str
    what: str
    truth: float
    draw: Callable[[Generator, int], tuple[OutcomeBlock, Array | None]] | None
    paired: bool = False
    labels: int = 0
    rate: float = math.inf
    gold: float = math.inf
    clusters: int = 0
    wide: bool = False
    margin: float | None = None
    power: float | None = None
    least: float | None = None
    limits: Callable[[Generator, int, Settings], tuple[Array, Array, Array]] | None = None
    sizes: Sequence[int] = SIZES
    strata: Callable[[Array], Strata | None] | None = None


def block(
    values: dict[str, Array], unit: Array | None = None, gold: Array | None = None, answers: Array | None = None,
    labels: int = 0,
) -> OutcomeBlock:  # fmt: skip
    n = next(iter(values.values())).shape[1]
    predicted = None if answers is None else (answers[..., None] == np.arange(labels)).astype(np.float64)
    units = np.arange(n) if unit is None else unit
    return OutcomeBlock(np.array([f"e{i:06d}" for i in range(n)], object), units, values, gold, predicted)


# ---- rates and their differences, by enumeration ----


def likeliest(log_probability: Array) -> Array:
    """The outcomes (indices) that have all but LEFT_OUT of the probability."""
    order = np.argsort(-log_probability.ravel())
    held = np.cumsum(np.exp(log_probability.ravel()[order]))
    return order[: int(np.searchsorted(held, 1 - LEFT_OUT)) + 1]


def log_factorials(n: int) -> Array:
    return np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, n + 1)))])


def accuracies(p: float) -> Design:
    def draw(_: Generator, n: int) -> tuple[OutcomeBlock, Array | None]:
        k, factorial = np.arange(n + 1), log_factorials(n)
        log = factorial[n] - factorial[k] - factorial[n - k] + k * math.log(p) + (n - k) * math.log(1 - p)
        some = likeliest(log)
        return block({"correct": (np.arange(n) < some[:, None]) * 1.0}), np.exp(log[some])

    return Design("accuracy", f"{100 * p:g} % right", p, draw, rate=min(p, 1 - p))


def pairs(fixed: float, broken: float, what: str, margin: float | None = None) -> Design:
    """Policies that fix and break so many examples of a baseline that is right on every second one."""

    def draw(_: Generator, n: int) -> tuple[OutcomeBlock, Array | None]:
        factorial, most = log_factorials(n), n // 2
        a, b = (one.ravel() for one in np.meshgrid(np.arange(most + 1), np.arange(most + 1), indexing="ij"))
        log = factorial[n] - factorial[a] - factorial[b] - factorial[n - a - b]
        for count, rate in ((a, fixed), (b, broken), (n - a - b, 1 - fixed - broken)):
            log = log + (count * math.log(rate) if rate else np.where(count > 0, -np.inf, 0.0))
        some = likeliest(log)
        wrong, right = np.arange(n) // 2, np.arange(n) // 2  # place among the wrong, or the right, of the baseline
        base = np.arange(n) % 2 == 1
        mine = np.where(base, right >= b[some, None], wrong < a[some, None])
        return block({"correct": np.concatenate([base[None], mine]) * 1.0}), np.exp(log[some])

    return Design("accuracy", what, fixed - broken, draw, paired=True, rate=fixed + broken, margin=margin)


def losing(margin: float, fixed: float) -> Design:
    """Policies that are worse by exactly a margin."""
    fixes = f"{100 * fixed:g} %" if fixed else "none"
    return pairs(fixed, fixed + margin, f"{100 * (fixed + margin):g} % broken, {fixes} fixed", margin)


# ---- graded values ----

GRADES: dict[str, tuple[float, Callable[[Generator, tuple[int, int]], Array]]] = {
    "a judge's tenths": (0.75, lambda rng, shape: rng.choice([0.4, 0.6, 0.7, 0.8, 0.9, 1.0], shape, p=JUDGED)),
    "30 % at 0, 50 % at 1": (0.6, lambda rng, shape: rng.choice([0.0, 0.25, 0.75, 1.0], shape, p=[0.3, 0.1, 0.1, 0.5])),
    "90 % at 1": (0.95, lambda rng, shape: 1 - (rng.random(shape) < 0.1) * rng.random(shape)),
    "97 % at 1": (0.985, lambda rng, shape: 1 - (rng.random(shape) < 0.03) * rng.random(shape)),
    "90 % at 0": (0.05, lambda rng, shape: (rng.random(shape) < 0.1) * rng.random(shape)),
}
JUDGED = [0.05, 0.2, 0.25, 0.25, 0.15, 0.1]


def graded(name: str) -> Design:
    truth, drawn = GRADES[name]

    def draw(rng: Generator, n: int) -> tuple[OutcomeBlock, Array | None]:
        return block({"correct": np.ones((POLICIES, n)), "credit": drawn(rng, (POLICIES, n))}), None

    return Design("credit", name, truth, draw, rate=min(truth, 1 - truth))


def graded_clusters(clusters: int, shape: str = "", paired: bool = False) -> Design:
    """A judge's grades, a third of which is the cluster's; of a pair the example's share is a half of the rest."""

    def draw(rng: Generator, n: int) -> tuple[OutcomeBlock, Array | None]:
        unit, rows = units(shape, clusters, n), 1 + COMPARED if paired else POLICIES
        drawn = GRADES["a judge's tenths"][1]
        own = drawn(rng, (rows, n))
        own = np.where(rng.random((rows, n)) < 0.5, drawn(rng, (1, n)), own) if paired else own
        common = drawn(rng, (1 if paired else rows, clusters))[:, unit]
        return block(
            {"correct": np.ones((rows, n)), "credit": np.where(rng.random((rows, n)) < 0.3, common, own)}, unit
        ), None

    n = 30 if clusters < 10 else 100
    equal = int(kish_number(units(shape, clusters, n)))
    what = f"a judge's tenths, {clusters} clusters{f' ({shape})' * bool(shape)}"
    truth = 0.0 if paired else GRADES["a judge's tenths"][0]
    return Design("credit", what, truth, draw, paired, clusters=equal, wide=True, sizes=[n])


# ---- means over orders ----

LOG, DATASETS = Path(__file__).resolve().parents[1] / "data" / "log", ("algebra_linear_1d", "numeric_claims")


@cache
def real_votes() -> dict[tuple[str, int], Array]:
    """The exact means over all orders of votes of the shipped log's questions, by data set and number of traces."""
    import polars as pl

    from replay import run

    key = 'kind = "sample"\npool = "votes"\nselect = "majority"\nexpected = true\nname = "{0}"\nmax_traces = {0}'
    policies = "\n".join(f"[[policy]]\n{key.format(k)}" for k in (1, 4, 8))
    outcomes = run(LOG, policies, resamples=1).outcomes.collect()
    names = pl.read_parquet(LOG / "examples" / "*.parquet").select("example_id", "dataset")
    wide = outcomes.pivot("policy", index="example_id", values="correct").join(names, on="example_id")
    return {
        (str(dataset), k): part[str(k)].to_numpy().astype(np.float64)
        for (dataset,), part in wide.sort("example_id").partition_by("dataset", as_dict=True).items()
        for k in (1, 4, 8)
    }


def gain_of(dataset: str, more: int, fewer: int) -> float:
    return float((real_votes()[dataset, more] - real_votes()[dataset, fewer]).mean())


def votes(dataset: str, more: int, fewer: int, lost: float | None = None) -> Design:
    """More votes against fewer, on questions drawn from the real ones; with a loss, fewer on as large a share of the
    questions as makes it against more on all.
    """
    many, few = (real_votes()[dataset, k] for k in (more, fewer))
    gain = gain_of(dataset, more, fewer)

    def pair(rng: Generator, n: int) -> tuple[Array, Array]:
        drawn = rng.integers(0, len(many), n)
        if lost is None:
            return many[drawn], few[drawn]
        return np.where(rng.random(n) < lost / gain, few[drawn], many[drawn]), many[drawn]

    return of_pairs(f"{more} against {fewer} votes over all orders, {dataset}", pair, gain, lost)


def total_losses(lost: float) -> Design:
    """Two of five examples move by 1/20, as many up as down, and a few lose all."""

    def pair(rng: Generator, n: int) -> tuple[Array, Array]:
        moved, gone = (rng.random(n) < 0.4) * rng.choice([-0.05, 0.05], n), rng.random(n) < lost
        return np.where(gone, 0.0, 0.5 + moved), np.where(gone, 1.0, 0.5)

    return of_pairs(f"40 % move by 1/20, {100 * lost:g} % lose all", pair, -lost, lost)


def of_pairs(
    what: str, pair: Callable[[Generator, int], tuple[Array, Array]], truth: float, lost: float | None
) -> Design:
    """Differences of two policies whose values on n examples are drawn."""

    def limits(rng: Generator, n: int, settings: Settings) -> tuple[Array, Array, Array]:
        rows = [paired_interval(*pair(rng, n), settings=settings) for _ in range(COMPARED)]
        low, high = (np.array([getattr(one, end) for one in rows], np.float64) for end in ("low", "high"))
        return low, high, np.array([str(one.method) for one in rows])

    sizes = SIZES[:3] if lost is None else SIZES[2:]
    return Design(
        "accuracy", what, truth if lost is None else -lost, None, True, margin=lost, limits=limits, sizes=sizes
    )


# ---- F1 ----


def right_or_other(rng: Generator, gold: Array, accuracy: float, policies: int, labels: int) -> Array:
    """Answers (policies, n): the gold, or any other label alike."""
    hard = rng.random(len(gold)) < 0.5  # where policies that are compared err more often
    wrong = rng.random((policies, len(gold))) < np.where(hard, 1.5, 0.5) * (1 - accuracy)
    return np.where(wrong, (gold + rng.integers(1, labels, (policies, len(gold)))) % labels, gold)


def true_f1(shares: Array, accuracy: float, label: int) -> float:
    missed = (1 - accuracy) / (len(shares) - 1)
    named = shares[label] * accuracy + (1 - shares[label]) * missed
    return float(2 * shares[label] * accuracy / (shares[label] + named))


def f1(accuracy: float, shares: Sequence[float], label: int | None = None, paired: bool = False) -> Design:
    share = np.array(shares)
    labels = len(share)
    truths = [true_f1(share, accuracy, one) for one in range(labels)]
    truth = float(np.mean(truths)) if label is None else truths[label]

    def draw(rng: Generator, n: int) -> tuple[OutcomeBlock, Array | None]:
        gold = rng.choice(labels, n, p=share).astype(np.int32)
        answers = right_or_other(rng, gold, accuracy, 1 + COMPARED if paired else POLICIES, labels)
        return block({"correct": (answers == gold) * 1.0}, gold=gold, answers=answers, labels=labels), None

    told = f"{100 * accuracy:g} % right, {labels} classes"
    if label is not None:
        told = f"{100 * accuracy:g} % right, class of {100 * share[label]:g} %"
    wrong = 1 - accuracy
    rate = sum(share * (1 - share) for share in (1.5 * wrong, 0.5 * wrong)) if paired else wrong
    metric = "macro_f1" if label is None else f"f1:{label}"
    gold = float(share.min() if label is None else share[label])
    return Design(metric, told, 0.0 if paired else truth, draw, paired, labels, rate, gold)


def f1_clusters(accuracy: float, clusters: int, size: int, base: float = math.nan, shape: str = "") -> Design:
    """Macro-F1 of three classes over clusters, some harder; differences to a policy that is right on `base` of all."""
    share, paired = np.array(THREE), base == base
    truths = [[true_f1(share, one, label) for label in range(3)] for one in (accuracy, base)]
    truth = float(np.mean(truths[0]) - (np.mean(truths[1]) if paired else 0))

    def draw(rng: Generator, n: int) -> tuple[OutcomeBlock, Array | None]:
        unit, gold = units(shape, clusters, n), rng.choice(3, n, p=share).astype(np.int32)
        rows = 1 + COMPARED if paired else POLICIES
        wrong = 1 - np.r_[base if paired else accuracy, np.full(rows - 1, accuracy)]
        hard = rng.choice([0.5, 1.5], (1 if paired else rows, clusters))[:, unit] * rng.choice([0.5, 1.5], n)
        missed = rng.random((rows, n)) < hard * wrong[:, None]
        answers = np.where(missed, (gold + rng.integers(1, 3, (rows, n))) % 3, gold)
        return block({"correct": (answers == gold) * 1.0}, unit, gold, answers, 3), None

    n, against = clusters * size, f" against {100 * base:g} %" if paired else ""
    equal = int(kish_number(units(shape, clusters, n)))
    what = f"{100 * accuracy:g} %{against} right, 3 classes, {clusters} clusters{f' ({shape})' * bool(shape)}"
    return Design("macro_f1", what, truth, draw, paired, 3, clusters=equal, wide=True, sizes=[n])


# ---- costs ----

Costs = Callable[[Generator, tuple[int, int]], Array]

LIGHT: Costs = lambda rng, shape: rng.gamma(2.0, 0.5, shape)  # noqa: E731 -- a table of draws
TAILS: dict[str, tuple[Costs, float]] = {
    "gamma, shape 2": (LIGHT, 1.0),
    "lognormal, σ 1": (lambda rng, shape: rng.lognormal(0, 1, shape), math.exp(0.5)),
    "lognormal, σ 1.5": (lambda rng, shape: rng.lognormal(0, 1.5, shape), math.exp(1.125)),
    "Pareto, 2.2": (lambda rng, shape: 1 + rng.pareto(2.2, shape), 2.2 / 1.2),
}


def means(tail: str) -> Design:
    drawn, truth = TAILS[tail]

    def draw(rng: Generator, n: int) -> tuple[OutcomeBlock, Array | None]:
        return block({"latency_s": drawn(rng, (POLICIES, n))}), None

    return Design("latency_s", tail, truth, draw)


def cost_pairs(tail: str, against: str, reduction: bool = False) -> Design:
    """Costs against those of a baseline; half of what makes them long is the example's."""
    (one, mean), (two, base) = TAILS[tail], TAILS[against]

    def draw(rng: Generator, n: int) -> tuple[OutcomeBlock, Array | None]:
        shared = rng.gamma(4.0, 0.25, n)
        return block({"latency_s": shared * np.concatenate([two(rng, (1, n)), one(rng, (COMPARED, n))])}), None

    truth = 1 - mean / base if reduction else mean - base
    return Design("reduction:latency_s" if reduction else "latency_s", f"{tail} – {against}", truth, draw, paired=True)


def per_right(tail: str, accuracy: float) -> Design:
    drawn, mean = TAILS[tail]

    def draw(rng: Generator, n: int) -> tuple[OutcomeBlock, Array | None]:
        right = rng.random((POLICIES, n)) < accuracy
        return block({"correct": right * 1.0, "total_tokens": drawn(rng, (POLICIES, n))}), None

    return Design("tokens_per_right", f"{tail}; {100 * accuracy:g} % right", mean / accuracy, draw)


# ---- calibration ----


def calibrated(first: float, second: float, true: float, traces: int = 1) -> Design:
    """Scores from a beta distribution that are too high by so much, as far as chances reach; of some traces a question.

    The truth is taken of 400,000 scores. Traces of a question share its score's deviation from the mean by a half.
    """

    def chances(score: Array) -> Array:
        return np.clip(score - shift, 0, 1)

    def ece(score: Array) -> float:
        place = np.minimum((score * 10).astype(int), 9)
        return float(np.abs(np.bincount(place, weights=score - chances(score))).sum() / len(score))

    large, shift = np.random.default_rng(0).beta(first, second, 400_000), 0.0
    for _ in range(40 if true else 0):
        shift += true - ece(large)

    def limits(rng: Generator, n: int, settings: Settings) -> tuple[Array, Array, Array]:
        found = []
        for _ in range(POLICIES):
            question, mixed = np.repeat(np.arange(n), traces), rng.random((n, traces)) < 0.5
            score = np.where(mixed, rng.beta(first, second, (n, 1)), rng.beta(first, second, (n, traces))).ravel()
            shared = np.where(rng.random((n, traces)) < 0.5, rng.random((n, 1)), rng.random((n, traces))).ravel()
            found.append(clustered_calibration(score, shared < chances(score), question, settings=settings).ece)
        low, high = (np.array([getattr(one, end) for one in found], np.float64) for end in ("low", "high"))
        return low, high, np.array([str(one.method) for one in found])

    what = f"true ECE {true:g}, scores Beta({first:g}, {second:g}){f', {traces} traces an example' * (traces > 1)}"
    return Design("ece", what, true, None, wide=True, limits=limits, sizes=SIZES[:3])


def area(apart: float, share: float) -> Design:
    """Scores of right ones that lie so many standard deviations above those of wrong ones; so many are right."""

    def limits(rng: Generator, n: int, settings: Settings) -> tuple[Array, Array, Array]:
        found = []
        for _ in range(POLICIES):
            right = rng.random(n) < share
            found.append(auc_intervals(rng.normal(size=n) + apart * right, right, np.arange(n), settings=settings).auc)
        low, high = (np.array([getattr(one, end) for one in found], np.float64) for end in ("low", "high"))
        return low, high, np.array([str(one.method) for one in found])

    truth = NormalDist().cdf(apart / math.sqrt(2))
    return Design(
        "auroc", f"{truth:.2f} in truth, {100 * share:g} % right", truth, None, limits=limits, sizes=SIZES[:3]
    )


LOST = 0.02
"""The share of what the baseline has right that a policy loses on its way to the oracle."""


def headroom(base: float, oracle: float, share: float) -> Design:
    """Policies that go such a share of the way from a baseline to an oracle, which is right where the baseline is."""
    gained = share + LOST * base / (oracle - base)

    def limits(rng: Generator, n: int, settings: Settings) -> tuple[Array, Array, Array]:
        ends = []
        for _ in range(POLICIES):
            place, luck = rng.random((2, n))
            first, best = place < base, place < oracle
            policy = np.where(first, luck >= LOST, best & (luck < gained))
            drawn = block({"correct": np.stack([first, policy, best]) * 1.0})
            found = captured_shares(
                Store.of_blocks(lambda drawn=drawn: iter([drawn]), 3, None), "correct", 0, 2, settings
            )
            ends.append((found.low[1], found.high[1], found.method[1]))
        low, high, method = zip(*ends, strict=True)
        return np.array(low), np.array(high), np.array(method)

    what = f"{100 * share:g} % of the way from {100 * base:g} to {100 * oracle:g} % right"
    return Design("headroom share", what, share, None, rate=oracle - base, limits=limits)


# ---- clusters ----

Weights = Callable[[int], Array]

SHAPES: dict[str, Weights] = {
    "": np.ones,
    "geometric, .75": lambda size: 0.75 ** np.arange(size),
    "geometric, .95": lambda size: 0.95 ** np.arange(size),
    "Zipf": lambda size: 1 / np.arange(1.0, size + 1),
    "lognormal, σ 1": lambda size: np.exp([NormalDist().inv_cdf((i + 0.5) / size) for i in range(size)]),
}


def units(shape: str, clusters: int, n: int) -> Array:
    """The cluster of each of n examples, in sizes of such a shape, at least one example each."""
    weights = SHAPES[shape](clusters)
    ends = np.cumsum(1 + weights / weights.sum() * (n - clusters))
    return np.searchsorted(np.rint(ends), np.arange(n), "right")


def clustered(
    accuracy: float, clusters: int, paired: bool = False, shape: str = "", correlation: float = 0.2
) -> Design:
    """Clusters with an intraclass correlation; a pair's two share the cluster's part."""

    def draw(rng: Generator, n: int) -> tuple[OutcomeBlock, Array | None]:
        unit, rows, spread = units(shape, clusters, n), 1 + COMPARED if paired else POLICIES, 1 / correlation - 1
        chance = rng.beta(spread * accuracy, spread * (1 - accuracy), (1 if paired else rows, clusters))
        return block({"correct": (rng.random((rows, n)) < chance[:, unit]) * 1.0}, unit), None

    sizes = [n for n in SIZES if n >= 10 * clusters] or [10 * clusters]
    what = f"{clusters} clusters{f' ({shape})' * bool(shape)}, {100 * accuracy:g} % right"
    what += f"{f', correlation {correlation:g}' * (correlation != 0.2)}"
    truth, most = 0.0 if paired else accuracy, 1 if shape else 2
    equal = int(kish_number(units(shape, clusters, sizes[0])))
    return Design("accuracy", what, truth, draw, paired, clusters=equal, wide=True, sizes=sizes[:most])


def clustered_costs(clusters: int, spread: float, shape: str = "") -> Design:
    """Lognormal costs of an example, times a lognormal factor of its cluster."""

    def draw(rng: Generator, n: int) -> tuple[OutcomeBlock, Array | None]:
        unit = units(shape, clusters, n)
        drawn = rng.lognormal(0, 0.8, (POLICIES, n)) * rng.lognormal(0, spread, (POLICIES, clusters))[:, unit]
        return block({"latency_s": drawn}, unit), None

    what = f"{clusters} clusters{f' ({shape})' * bool(shape)}, lognormal, σ 0.8 and {spread:g}"
    truth, n = math.exp((0.8**2 + spread**2) / 2), next(n for n in SIZES if n >= 2 * clusters)
    return Design(
        "latency_s", what, truth, draw, clusters=int(kish_number(units(shape, clusters, n))), wide=True, sizes=[n]
    )


def clustered_losses(clusters: int, lost: float, margin: float, correlation: float = 0.2) -> Design:
    """Policies that break so many examples of a baseline that is always right, some clusters more than others."""

    def draw(rng: Generator, n: int) -> tuple[OutcomeBlock, Array | None]:
        unit, rows, spread = np.arange(n) * clusters // n, POLICIES, 1 / correlation - 1
        chance = rng.beta(spread * lost, spread * (1 - lost), (rows, clusters))
        right = rng.random((rows, n)) >= chance[:, unit]
        return block({"correct": np.concatenate([np.ones((1, n)), right])}, unit), None

    what = f"{100 * lost:g} % broken, none fixed, {clusters} clusters"
    return Design("accuracy", what, -lost, draw, True, rate=lost, clusters=clusters, margin=margin, sizes=SIZES[2:])


# ---- strata ----


@dataclass(frozen=True)
class Parts:
    """Data sets: of each a share of the examples, and what of means where they are weighed."""

    shares: tuple[float, ...]
    weights: tuple[float, ...] = ()

    @property
    def what(self) -> str:
        sizes = ", ".join(f"{100 * share:g}" for share in self.shares)
        weighed = f", weighed {':'.join(f'{one:g}' for one in self.weights)}" if self.weights else ""
        return f"data sets of {sizes} %{weighed}"

    def of(self, n: int) -> Array:
        """The data set of each of n examples."""
        return np.searchsorted(np.rint(np.cumsum(self.shares) * n), np.arange(n), "right")

    def strata(self, unit: Array) -> Strata | None:
        names = tuple(map(str, range(len(self.shares))))
        weights = dict(zip(names, self.weights, strict=True)) if self.weights else None
        return Strata.of("dataset", self.of(len(unit)), names, unit, weights)

    @property
    def worth(self) -> int:
        """How many alike 500 weighed examples are worth; 0 where none are weighed."""
        sizes = np.array(self.shares) * SIZES[2]
        weights = np.array(self.weights) / sum(self.weights) / sizes if self.weights else sizes
        both = (weights * sizes)[:, None], (weights**2 * sizes)[:, None]
        return int(effective_units(*both)[0]) if self.weights else 0

    def mean(self, values: Sequence[float]) -> float:
        weights = np.array(self.weights or self.shares)
        return float(weights @ np.array(values) / weights.sum())


def strata_rates(parts: Parts, rates: Sequence[float], clusters: int = 0, sizes: Sequence[int] = SIZES) -> Design:
    """Each data set with its accuracy, in so many clusters with an intraclass correlation of 0.2 or in none."""

    def draw(rng: Generator, n: int) -> tuple[OutcomeBlock, Array | None]:
        chance = np.array(rates)[parts.of(n)]
        if not clusters:
            return block({"correct": (rng.random((POLICIES, n)) < chance) * 1.0}), None
        place = parts.of(n)
        first = np.searchsorted(place, place)  # of each data set
        unit = place * clusters + (np.arange(n) - first) * clusters // np.bincount(place)[place]
        of_cluster = rng.beta(4 * chance, 4 * (1 - chance), (POLICIES, n))
        _, start = np.unique(unit, return_index=True)
        return block({"correct": (rng.random((POLICIES, n)) < of_cluster[:, start[unit]]) * 1.0}, unit), None

    told = ", ".join(f"{100 * rate:g}" for rate in rates)
    what = f"{parts.what}; {told} % right{f'; {clusters} clusters each' * bool(clusters)}"
    rate = min(min(rate, 1 - rate) for rate in rates)
    wide = bool(clusters or parts.weights)
    return Design(
        "accuracy", what, parts.mean(rates), draw, rate=rate, clusters=clusters * len(rates), wide=wide, sizes=sizes,
        strata=parts.strata,
    )  # fmt: skip


def strata_pairs(parts: Parts, fixed: Sequence[float], broken: Sequence[float]) -> Design:
    """Policies that fix so many of a data set's examples, and break so many."""

    def draw(rng: Generator, n: int) -> tuple[OutcomeBlock, Array | None]:
        place, drawn = parts.of(n), rng.random((POLICIES, n))
        up, down = np.array(fixed)[place], np.array(broken)[place]
        base = rng.random(n) < 0.5
        gain, loss = drawn < up / 0.5, drawn < down / 0.5
        return block({"correct": np.concatenate([base[None], np.where(base, ~loss, gain)]) * 1.0}), None

    told = ", ".join(f"+{100 * up:g} −{100 * down:g}" for up, down in zip(fixed, broken, strict=True))
    truth = parts.mean([up - down for up, down in zip(fixed, broken, strict=True)])
    rate = parts.mean([up + down for up, down in zip(fixed, broken, strict=True)])
    wide = bool(parts.weights)
    return Design(
        "accuracy", f"{parts.what}; {told} points", truth, draw, True, rate=rate, wide=wide, strata=parts.strata
    )


def strata_costs(parts: Parts, times: Sequence[float], tail: str, paired: bool = False) -> Design:
    """Costs with such a tail, so many times as long in each data set; of pairs the policies cost a half more."""
    drawn, mean = TAILS[tail]

    def draw(rng: Generator, n: int) -> tuple[OutcomeBlock, Array | None]:
        rows = 1 + COMPARED if paired else POLICIES
        cost = drawn(rng, (rows, n)) * np.array(times)[parts.of(n)]
        return block(
            {"total_tokens": cost * np.where(np.arange(rows) > 0, 1.5, 1.0)[:, None] if paired else cost}
        ), None

    truth = parts.mean(times) * mean * (0.5 if paired else 1)
    what = f"{parts.what}; {tail}, times {', '.join(f'{one:g}' for one in times)}"
    wide = bool(parts.weights)
    return Design("total_tokens", what, truth, draw, paired, clusters=parts.worth, wide=wide, strata=parts.strata)


HALVES, EQUAL = Parts((0.5, 0.5)), Parts((0.1, 0.9), (1, 1))
TENTHS = Parts((0.1,) * 10)
STRATA: tuple[Design, ...] = (
    strata_rates(HALVES, (0.95, 0.3)),
    strata_rates(HALVES, (0.9, 0.6)),
    strata_rates(TENTHS, (0.05, 0.15, 0.25, 0.35, 0.45, 0.55, 0.65, 0.75, 0.85, 0.95)),
    strata_rates(Parts((0.7, 0.3)), (0.98, 0.4)),
    strata_rates(EQUAL, (0.95, 0.3)),
    strata_rates(EQUAL, (0.7, 0.98)),
    strata_rates(EQUAL, (0.98, 0.7)),
    strata_rates(Parts((0.2, 0.3, 0.5), (3, 2, 1)), (0.9, 0.6, 0.3)),
    strata_rates(HALVES, (0.95, 0.3), 25, SIZES[2:]),
    strata_rates(EQUAL, (0.9, 0.5), 40, SIZES[2:]),
    strata_pairs(HALVES, (0.3, 0.0), (0.0, 0.2)),
    strata_pairs(HALVES, (0.05, 0.01), (0.01, 0.02)),
    strata_pairs(HALVES, (0.01, 0.0), (0.0, 0.01)),
    strata_pairs(EQUAL, (0.3, 0.0), (0.0, 0.2)),
    strata_pairs(EQUAL, (0.05, 0.05), (0.05, 0.05)),
    strata_costs(HALVES, (1, 10), "gamma, shape 2"),
    strata_costs(HALVES, (1, 10), "lognormal, σ 1"),
    strata_costs(HALVES, (1, 10), "gamma, shape 2", paired=True),
    strata_costs(EQUAL, (1, 10), "gamma, shape 2"),
    strata_costs(EQUAL, (10, 1), "lognormal, σ 1"),
)

DESIGNS: tuple[Design, ...] = (
    *(accuracies(p) for p in (0.7, 0.97, 0.995)),
    pairs(0.01, 0.01, "1 % fixed, 1 % broken"),
    pairs(0.05, 0.05, "5 % fixed, 5 % broken"),
    pairs(0.01, 0.0, "1 % fixed, none broken"),
    *(graded(name) for name in GRADES),
    *(votes(dataset, *sizes) for dataset in DATASETS for sizes in ((8, 4), (8, 1))),
    *(graded_clusters(*one) for one in ((9,), (27,), (27, "", True), (60, "Zipf"), (60, "Zipf", True))),
    *(f1(accuracy, RARE, 0) for accuracy in (0.7, 0.97, 0.995)),
    *(f1(accuracy, THREE) for accuracy in (0.7, 0.97, 0.995)),
    *(f1(accuracy, TEN) for accuracy in (0.7, 0.97)),
    *(f1(accuracy, RARE, 0, paired=True) for accuracy in (0.7, 0.97)),
    *(f1(accuracy, THREE, paired=True) for accuracy in (0.7, 0.97, 0.995)),
    *(
        f1_clusters(*one)
        for one in ((0.9, 20, 5), (0.7, 20, 5), (0.7, 100, 5), (0.7, 100, 5, math.nan, "geometric, .95"))
    ),
    *(f1_clusters(*one) for one in ((0.95, 20, 5, 0.9), (0.9, 20, 5, 0.9), (0.7, 20, 5, 0.7), (0.9, 100, 5, 0.9))),
    *(means(tail) for tail in TAILS),
    cost_pairs("lognormal, σ 1", "lognormal, σ 1"),
    cost_pairs("Pareto, 2.2", "lognormal, σ 1"),
    cost_pairs("lognormal, σ 1", "lognormal, σ 1.5", reduction=True),
    cost_pairs("Pareto, 2.2", "gamma, shape 2", reduction=True),
    per_right("lognormal, σ 1", 0.7),
    *(calibrated(2, 2, true, traces) for true in (0.0, 0.02, 0.05, 0.15) for traces in (1, 8)),
    *(area(apart, share) for apart in (0.7, 1.5) for share in (0.5, 0.2)),
    headroom(0.7, 0.95, 0.3),
    headroom(0.7, 0.95, 0.65),
    headroom(0.9, 0.97, 0.6),
    *(calibrated(6, 1.2, true) for true in (0.0, 0.02, 0.05, 0.15)),
    *(clustered(accuracy, clusters) for accuracy in (0.7, 0.97) for clusters in (5, 10, 50)),
    *(clustered(0.7, clusters, paired=True) for clusters in (5, 10, 50)),
    *(clustered(0.7, clusters, shape="geometric, .75") for clusters in (10, 50)),
    *(
        clustered(accuracy, clusters, paired, shape, correlation)
        for shape, clusters in (("geometric, .95", 100), ("Zipf", 60), ("Zipf", 150), ("lognormal, σ 1", 60))
        for accuracy, paired, correlation in ((0.7, False, 0.2), (0.7, False, 0.6), (0.9, False, 0.2), (0.7, True, 0.2))
    ),
    *(clustered(0.97, 200, shape="lognormal, σ 1", correlation=correlation) for correlation in (0.05, 0.6)),
    *(clustered_costs(clusters, 0.7, shape) for clusters, shape in ((50, "geometric, .95"), (1000, "lognormal, σ 1"))),
    *STRATA,
)

LOSSES: tuple[Design, ...] = (
    *(
        votes(dataset, *sizes, lost)
        for dataset in DATASETS
        for sizes in ((8, 4), (8, 1))
        for lost in (0.01, 0.02)
        if lost < gain_of(dataset, *sizes)
    ),
    *(total_losses(lost) for lost in (0.01, 0.02)),
    *(losing(margin, fixed) for margin in (0.01, 0.02, 0.03, 0.05) for fixed in (0.0, 0.01, 0.05)),
    *(clustered_losses(clusters, 0.01, 0.01) for clusters in (10, 100, 250)),
    clustered_losses(20, 0.05, 0.05),
)


def main() -> None:
    """Every design on a line."""
    for design in (*DESIGNS, *LOSSES):
        print(f"{design.metric}{', difference' * design.paired}: {design.what}; in truth {design.truth:.4g}")


if __name__ == "__main__":
    main()
