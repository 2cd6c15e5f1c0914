"""How many questions, and samples of each, show a difference between two policies, with a log as the pilot.

The variance of their difference on a question has a part between questions and one within: the luck of the order in
which its traces come. Over all orders the second goes; what is left of it in the first falls with more samples, as the
first traces of each question alone show.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from replay.data.block import LogBlock
from replay.data.contents import Contents, open_with_contents
from replay.data.needs import Needs
from replay.data.prices import GivenPrices, Prices, load_prices, logged_prices, missing_tokens
from replay.engine.costs import AT, COSTS, GENERATED, costs_by_name, verification_costs
from replay.policies.base import Evaluator, Policy, needs_of_policies
from replay.policies.suite import ORDERS, suite
from replay.policies.toml import GivenPolicies, load_policies
from replay.runs.passes.covered import check_rules
from replay.runs.passes.learning import fit_policies, resolve_policies
from replay.runs.passes.passes import ReplayPlan, correctness_of_policies, first_traces, read_blocks
from replay.runs.passes.strata import Weights, strata_column, with_strata
from replay.runs.passes.versions import policy_named
from replay.sampling.user_rules import GivenRules
from toolkit.arguments import checks_arguments
from toolkit.errors import ConflictError, EmptyError, InvalidError, UnsuitableError, argument, counted, quote
from toolkit.log import AnyLog, open_log
from toolkit.show import SIMULATED, IntervalCell, Number, NumberWithInterval, Table, TableColumn
from toolkit.show.tables.html import paragraph, simulated_mark
from toolkit.stats.limits.planning import POWER, DifferenceVariance, NeededQuestions, difference_variance
from toolkit.stats.metrics.resamples import check_level

POINT = 0.01
IN_ONE_ORDER, AS_LOGGED = "in one order", "as logged"
COST_NAMES = ("traces", "calls", "verifications", "total_tokens", "price")
"""Costs that a design has, if they are logged."""
GRID = (1, 2, 5)
FEWEST = 20
"""The number of questions from which the curve of detectable differences begins, and the fewest of a pilot."""


@dataclass(frozen=True)
class PlannedDesign:
    """A design: `samples` of each question (None: as many as were logged), compared in one or over `orders` of them.

    `needed`: questions that show the difference; None where more than ten million would have to. `costs`: of a
    question, in units of the columns of outcomes; None where they are not logged.
    """

    orders: str
    samples: int | None
    variance: DifferenceVariance
    needed: NeededQuestions | None
    costs: Mapping[str, float | None]

    @property
    def name(self) -> str:
        return (
            self.orders
            if self.samples is None or self.orders == AS_LOGGED
            else f"{self.orders} of {counted(self.samples, 'sample')} each"
        )


@dataclass(frozen=True, eq=False)
class QuestionPlan:
    """Designs that each show a difference of `detect` points of accuracy between two policies.

    `questions`: of the log, which is the pilot.
    """

    policies: tuple[str, str]
    detect: float
    level: float
    power: float
    questions: int
    designs: tuple[PlannedDesign, ...]
    log_name: str
    simulated: bool
    currency: str = "price"
    """The heading of money."""
    unpriced: str = ""
    """Why there is no price, in words, where prices were given."""

    @property
    def aim_text(self) -> str:
        """The difference to detect, in words."""
        return f"{self.detect:g} point{'' if self.detect == 1 else 's'}"

    @property
    def table(self) -> pl.DataFrame:
        """A row a design: orders, samples, questions with the ends of their range (low, high), whether they are those
        of an upper limit, the difference in points that the log's questions show (detectable), and the costs of the
        questions. Null where there is no number.
        """
        rows = []
        for design in self.designs:
            needed, detectable = design.needed, next(self._detectable_points(design, self.questions))
            number = (None,) * 4 if needed is None else (needed.number, needed.low, needed.high, needed.upper)
            paid = [
                None if needed is None or (each := design.costs[cost]) is None else needed.number * each
                for cost in COST_NAMES
            ]
            rows.append((design.orders, design.samples, *number, detectable, *paid))
        return pl.DataFrame(rows, SCHEMA | dict.fromkeys(COST_NAMES, pl.Float64), orient="row")

    @property
    def curve(self) -> pl.DataFrame:
        """The difference in points that each design detects, by the number of questions: orders, samples, questions,
        detectable, low, high.
        """
        numbers = [self.questions, *(one.needed.number for one in self.designs if one.needed is not None)]
        places = [digit * 10**power for power in range(1, 8) for digit in GRID]
        grid = [n for n in places if max(FEWEST, min(numbers) / 5) <= n <= max(100, 2 * max(numbers))]
        rows = [
            (design.orders, design.samples, n, *self._detectable_points(design, n))
            for design in self.designs
            for n in grid
        ]
        return pl.DataFrame(rows, CURVE_SCHEMA, orient="row")

    def _detectable_points(self, design: PlannedDesign, questions: int) -> Iterator[float | None]:
        for end in (0, -1, 1):
            share = design.variance.detectable(questions, level=self.level, power=self.power, end=end)
            yield None if share is None else share / POINT

    def as_table(self) -> Table:
        """The designs as a table for people."""
        forms = {"calls": "calls", "verifications": "verified", "total_tokens": "tokens", "price": self.currency}
        rows = []
        for row in self.table.iter_rows(named=True):
            questions = IntervalCell.of((row["questions"], row["low"], row["high"]))
            costs = (row[cost] for cost in ("traces", *forms))
            rows.append((row["orders"], row["samples"], questions, row["detectable"], *costs))
        return Table(
            title=f"Questions that tell {self.policies[0]} and {self.policies[1]} apart by {self.aim_text}",
            columns=(
                TableColumn("compared", key="orders"),
                TableColumn("samples each", Number(0), "samples"),
                TableColumn("questions", NumberWithInterval(0), core=True),
                TableColumn(f"{self.questions:,} show, points", Number(2), "detectable", drop=1),
                TableColumn("samples in all", Number(0), "traces", drop=2),
                *(
                    TableColumn(head, Number(2 if name == "price" else 0), name, drop=3, if_filled=True)
                    for name, head in forms.items()
                ),
            ),
            rows=tuple(rows),
            above=(SIMULATED,) if self.simulated else (),
            below=tuple(self.notes()),
        )

    def notes(self) -> Iterator[str]:
        """Lines beneath the table: the meaning of the numbers, and those that allow for a small pilot."""
        yield (
            f"{100 * self.power:g} % power, {100 * self.level:g} % intervals; in brackets what 80 % of pilots like "
            f"these {counted(self.questions, 'question')} would range over. Costs are those of all the questions"
        )
        if self.unpriced:
            yield self.unpriced
        few = [design for design in self.designs if design.variance.is_small_pilot]
        if few:
            yield (
                "by the upper 80 % limit of the variance, for the pilot is small (fewer than 100 questions, or than "
                f"20 that carry the difference): {'; '.join(one.name for one in few)}"
            )

    def __str__(self) -> str:
        one, two = self.policies
        parts = [f"{_number_of_samples_text(design)} {design.name}" for design in self._extreme_designs]
        text = (
            f"To tell {self.aim_text} between `{one}` and `{two}` apart with {100 * self.power:g} % power takes "
            f"{', or '.join(parts)}."
        )
        ends = [(next(self._detectable_points(design, self.questions)), design) for design in self._extreme_designs]
        known = [f"{difference:.2g} points {design.name}" for difference, design in ends if difference is not None]
        detects = f" The {self.questions:,} questions of this log show a difference of {', or '.join(known)}."
        return f"{text}{detects * bool(known)}"

    @property
    def _extreme_designs(self) -> tuple[PlannedDesign, ...]:
        """The design with the fewest samples and orders, and that with the most."""
        return self.designs if len(self.designs) < 2 else (self.designs[0], self.designs[-1])

    def _repr_html_(self) -> str:
        return simulated_mark(self.simulated) + paragraph(str(self)) + self.as_table().html()


SCHEMA = {
    "orders": pl.String, "samples": pl.Int64, "questions": pl.Int64, "low": pl.Int64, "high": pl.Int64,
    "upper": pl.Boolean, "detectable": pl.Float64,
}  # fmt: skip
CURVE_SCHEMA = {
    "orders": pl.String, "samples": pl.Int64, "questions": pl.Int64,
    **dict.fromkeys(("detectable", "low", "high"), pl.Float64),
}  # fmt: skip


def _number_of_samples_text(design: PlannedDesign) -> str:
    needed = design.needed
    return "more than ten million questions" if needed is None else needed.number_text


@checks_arguments(detect="percentage points, such as 1", power="a number from 0.5 to 1, such as 0.8")
def plan(
    log: AnyLog,
    first: str,
    second: str,
    policies: GivenPolicies | None = None,
    *,
    detect: float = 1.0,
    power: float = POWER,
    level: float = 0.95,
    where: str | None = None,
    strata: str | None = None,
    weigh: Weights | None = None,
    measure: str | None = None,
    prices: GivenPrices = None,
    rules: GivenRules = None,
) -> QuestionPlan:
    """How many questions show a difference of `detect` percentage points between two policies.

    The log is the pilot. `first` and `second` name policies of the file, by default of the standard suite; `where` is
    an SQL condition on the columns of `examples`. `strata` names the column of `examples` whose values keep their
    shares (data sets of fixed size), by default none, with `weigh` `dataset`; `weigh` is how much each of them counts:
    `equal`, or weights by value. `measure` names another column of success. `prices` (a TOML file, or `Prices`) take
    the place of those of the file, else of what the log was billed. Designs are one order of as few samples as the
    policies draw, and all orders of that many, of twice as many and so on up to those that the log has. `detect` is
    the difference worth knowing, not the one that the log shows, which is chance, too. Raises ThinkbackError for a name
    that no policy has, where fewer than 20 questions have both, or where the two never differ.
    """
    _check_plan_arguments(first, second, detect, power, level)
    if policies is None:
        log = open_log(log)
        policies = suite(log, where, prices)
    file = load_policies(policies, rules)
    where = file.where if where is None else where
    opened_log, contents = open_with_contents(log)
    named = tuple(replace(policy_named(file.policies, name), against=None) for name in (first, second))
    measure = measure or file.measure
    column = strata_column(contents, strata, weigh, ())
    columns = () if column is None else (column,)
    pair, examples, _ = resolve_policies(
        opened_log, contents, replace(file, policies=named), measure, where, columns=columns
    )
    examples, _ = with_strata(examples, column, weigh, is_requested=True)
    pair = fit_policies(opened_log, contents, pair, examples.frame["example_id"], measure)
    for one in pair:
        if not one.answers:
            raise UnsuitableError(f"policy `{one.name}` has no answer, so no accuracy to plan for: name another")
        if one.example_ranking is not None:
            raise UnsuitableError(
                f"policy `{one.name}` ranks all examples of a run, so its questions depend on each other: name another"
            )
    priced = (file.prices if prices is None else load_prices(prices)) or logged_prices(opened_log)
    replay_plan = ReplayPlan(opened_log, contents, examples, measure, priced, None)
    unit, parts = examples.resampling_units(examples.frame)
    designs = []
    for orders, samples, difference, within, costs in _pilots_of_designs(replay_plan, pair):
        known = ~np.isnan(difference)
        if known.sum() < FEWEST:
            raise EmptyError(
                f"{opened_log.address} has {counted(int(known.sum()), 'question')} on which both `{first}` and "
                f"`{second}` can be replayed; a pilot takes {FEWEST}"
            )
        variance = difference_variance(difference, within=within, cluster=unit, strata=parts)
        if variance.value > 0:
            needed = variance.questions_to_show(detect * POINT, level=level, power=power)
            designs.append(PlannedDesign(orders, samples, variance, needed, costs))
    if not designs:
        raise EmptyError(
            f"`{first}` and `{second}` give the same on all questions of {opened_log.address}, so that no number of "
            "questions follows: name two that differ"
        )
    pilot = designs[-1].variance.questions
    money = "price" if priced is None or not priced.currency else priced.currency
    lacking = ""
    if priced is not None and designs[-1].costs["price"] is None:
        pools = {name for one in pair for name in one.slices(contents)}
        lacking = next(filter(None, (missing_tokens(opened_log, priced, of) for of in (pools, contents.sizes))), "")
    return QuestionPlan(
        (first, second), detect, level, power, pilot, tuple(designs), opened_log.name, opened_log.simulated, money,
        lacking,
    )  # fmt: skip


def _check_plan_arguments(first: str, second: str, detect: float, power: float, level: float) -> None:
    if first == second:
        raise ConflictError(f"both policies are `{first}`; name two that differ")
    if not 0 < detect < 100:
        raise InvalidError(f"{argument('detect')} is {quote(detect)}; it takes percentage points, such as 1")
    if not 0.5 <= power < 1:
        raise InvalidError(f"{argument('power')} is {quote(power)}; it takes a number from 0.5 to 1, such as 0.8")
    check_level(level)


Pilot = tuple[str, int | None, np.ndarray, np.ndarray | None, Mapping[str, float | None]]
"""Orders, samples, the difference on each question, its variance between samples, and a question's costs."""


def _pilots_of_designs(replay_plan: ReplayPlan, pair: Sequence[Policy]) -> Iterator[Pilot]:
    """The differences between the policies under each design, from one pass over the log."""
    contents = replay_plan.contents
    means = [_as_mean_over_orders(policy, contents) for policy in pair]
    drawn = _most_traces_drawn_by_pool(pair, contents)
    movable = any(policy.as_mean_over_seeded_orders(contents, 1, 0) is not policy for policy in pair)
    in_order = (
        [policy.as_mean_over_seeded_orders(contents, 1, seed) for seed in range(ORDERS) for policy in pair]
        if movable
        else []
    )
    several = [one.filled(name=str(number)) for number, one in enumerate([*means, *in_order])]
    needs = needs_of_policies(several, contents)
    sizes = _sample_numbers_of_designs(drawn, contents)
    parts: dict[int, list[np.ndarray]] = {size: [] for size in sizes}
    costs: dict[int, list[np.ndarray]] = {size: [] for size in sizes}
    for number, block in enumerate(read_blocks(replay_plan, several)):
        if number == 0:
            check_rules(block, several)
        for size in sizes:
            few = first_traces(block, {pool: max(most, size) for pool, most in drawn.items()})
            parts[size].append(correctness_of_policies(Evaluator(few, several if size == sizes[-1] else several[:2])))
            costs[size].append(_generation_costs(few, needs))
    values = {size: np.concatenate(chunks, axis=1) for size, chunks in parts.items()}
    paid = {size: _mean_costs(np.concatenate(chunks), replay_plan.prices) for size, chunks in costs.items()}
    whole = values[sizes[-1]]
    single = whole[2::2] - whole[3::2]
    moves = movable and bool(np.nanmax(single.std(axis=0), initial=0.0) > 0)
    samples = {size: _samples_per_question(drawn, size, contents) for size in sizes}
    if moves:
        yield IN_ONE_ORDER, samples[sizes[0]], single.mean(axis=0), single.var(axis=0), paid[sizes[0]]
    means_over = sorted({policy.mean_over_text for policy in means if policy.mean_over_text})
    orders = f"over {means_over[0]}" if moves and means_over else AS_LOGGED
    for size in sizes:
        yield orders, samples[size], values[size][0] - values[size][1], None, paid[size]


def _as_mean_over_orders(policy: Policy, contents: Contents) -> Policy:
    """The policy (resolved) as its exact mean over all orders, else over twenty; unchanged if it has one order."""
    several = policy.as_mean_over_seeded_orders(contents, ORDERS, 0)
    if several is policy or policy.mean_over_text:
        return policy
    return policy.as_mean_over_all_orders() or several


def _most_traces_drawn_by_pool(pair: Sequence[Policy], contents: Contents) -> dict[str, int]:
    """Pool -> the most traces that the two policies draw; empty where one of them takes all that are logged."""
    each = [policy.traces_drawn_by_pool(contents) for policy in pair]
    pools = sorted({pool for drawn in each for pool in drawn}) if all(each) else []
    return {pool: max(drawn.get(pool, 0) for drawn in each) for pool in pools}


def _sample_numbers_of_designs(drawn: Mapping[str, int], contents: Contents) -> list[int]:
    """Numbers of samples of each question that designs have: those drawn, doubled up to all; 0: as logged."""
    if not drawn:
        return [0]
    least, most = max(drawn.values()), max(contents.sizes[pool] for pool in drawn)
    return sorted({least * 2**i for i in range(20) if least * 2**i < most} | {max(least, most)})


def _samples_per_question(drawn: Mapping[str, int], size: int, contents: Contents) -> int | None:
    """How many samples a question has over all pools, with `size` of each as far as it has them; None: as logged."""
    return sum(min(max(most, size), contents.sizes[pool]) for pool, most in drawn.items()) or None


def _generation_costs(block: LogBlock, needs: Needs) -> np.ndarray:
    """Costs (E, C) of each question's traces, and of the scores of them that are read."""
    costs = np.zeros((len(block.examples), len(COSTS)))
    for name in {*needs.pools, *needs.slices.values()}:
        pool = block.pools[name]
        costs[:, AT["traces"]] += pool.size
        for cost, values in pool.costs.items():
            costs[:, AT[GENERATED.get(cost, cost)]] += np.where(pool.has_trace, values, 0.0).sum(axis=1)
        for scores in pool.scores.values():
            verified = pool.has_trace & ~np.isnan(scores.score)
            calls = np.where(scores.listwise_mask, verified.any(axis=1), verified.sum(axis=1))
            costs[:, AT["verifications"]] += calls
            for at, values in verification_costs(scores.costs):
                costs[:, at] += np.where(verified, values, 0.0).sum(axis=1)
    return costs


def _mean_costs(costs: np.ndarray, prices: Prices | None) -> dict[str, float | None]:
    """The mean costs of a question by name; None where a cost is not logged, or is 0 (which is a price)."""
    named = costs_by_name(costs.mean(axis=0))
    known = {name: float(named[name]) for name in COST_NAMES}
    free = "price" if prices is not None else ""
    return {name: None if math.isnan(value) or not (value or name == free) else value for name, value in known.items()}
