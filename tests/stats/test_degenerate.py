"""Degenerate data: each case has one decided answer."""

from statistics import NormalDist

import numpy as np
import pytest
from scipy.stats import beta, binom, t

from tests.errors import noted, quotes
from toolkit.errors import ThinkbackError
from toolkit.stats import Settings, interval, newcombe, paired_interval, resampled_metric, summarise, wilson
from toolkit.stats.limits.discordant import tango_limits
from toolkit.stats.limits.intervals import ResampledValues, quantile_limits
from toolkit.stats.metrics.resamples import Resamples
from toolkit.stats.metrics.scan import round_to_bits

QUICK = Settings(resamples=1000)
Z = NormalDist().inv_cdf(0.975)
METHODS = ["percentile", "bca"]


def only(frame, **where):
    return frame.filter(**where).row(0, named=True)


@pytest.mark.parametrize("method", METHODS)
def test_identical_policies_differ_by_nothing(random_run, made, factory, method):
    one = random_run(0, 100, policies=1)
    twice = made(
        {k: np.concatenate([v, v]) for k, v in one.values.items()},
        gold=one.gold, predicted=np.concatenate([one.predicted, one.predicted]),
    )  # fmt: skip
    settings = Settings(resamples=500, method=method)
    table = summarise(factory(twice), ["a", "b"], labels=["x", "y", "z"], baseline="b", settings=settings).comparisons
    table = table.filter(policy="a", baseline="b")
    assert len(table) == 6 + 4 + 4  # quality; traces, tokens, seconds, euros; their reductions
    assert (table["difference"] == 0).all()
    assert (table["p_value"] == 1).all()
    assert table["identical"].all()
    f1s = table["method"] == "delta"  # one more example could have told them apart
    assert table.filter(f1s)["metric"].str.contains("f1").all()
    assert f1s.sum() == 5
    assert (table.filter(f1s)["low"] == -table.filter(f1s)["high"]).all()
    assert (table.filter(f1s)["low"] < 0).all()
    rates = table["metric"] == "accuracy"
    for column in ("low", "high"):
        assert (table.filter(~f1s & ~rates)[column] == 0).all()
    row = table.filter(rates).row(0, named=True)
    half = Z * Z / (row["n"] + Z * Z)
    assert (row["low"], row["high"]) == pytest.approx((-half, half))


def test_identical_policies_with_few_events_differ_by_nothing(made, factory):
    right = np.ones(200)
    right[:3] = 0
    result = summarise(factory(made({"correct": [right, right]})), ["a", "b"], baseline="b", settings=QUICK)
    row = only(result.comparisons, policy="a", metric="accuracy")
    half = Z * Z / (200 + Z * Z)
    assert (row["low"], row["high"]) == pytest.approx((-half, half))
    assert (row["difference"], row["p_value"], row["identical"]) == (0, 1, True)


@pytest.mark.parametrize("method", METHODS)
def test_one_example_has_no_interval(made, factory, method):
    one = made({"correct": [[1], [0]], "traces": [[3], [4]]}, gold=[0], predicted=[[[1.0]], [[0.0]]])
    settings = Settings(resamples=100, method=method)
    result = summarise(factory(one), ["a", "b"], labels=["x"], baseline="b", settings=settings)
    for frame in (result.summary, result.comparisons):
        assert len(frame) > 0
        assert frame["low"].null_count() == frame["high"].null_count() == frame["method"].null_count() == len(frame)
    assert result.comparisons["p_value"].null_count() == len(result.comparisons)
    assert only(result.summary, policy="a", metric="accuracy")["estimate"] == 1
    assert only(result.comparisons, policy="a", metric="accuracy")["difference"] == 1
    assert np.isnan(resampled_metric(factory(one), ["a", "b"], "accuracy", settings=settings)).all()
    noted(result.notes, "one_unit")


def test_one_cluster_has_no_interval():
    got = interval(np.arange(20.0), cluster=np.zeros(20))
    assert (got.estimate, got.low, got.high, got.n) == (9.5, None, None, 20)


def test_one_judged_example_among_many_has_no_interval(made, factory):
    correct = np.full(50, np.nan)
    correct[7] = 1
    result = summarise(factory(made({"correct": [correct], "traces": [np.arange(50)]})), ["a"], settings=QUICK)
    row = only(result.summary, metric="accuracy")
    assert (row["estimate"], row["low"], row["high"], row["n"], row["method"]) == (1.0, None, None, 1, None)
    assert only(result.summary, metric="traces")["method"] == "studentised_few"


@pytest.mark.parametrize("right", [0.0, 1.0])
def test_all_right_or_all_wrong_gets_wilson(right):
    got = interval(np.full(100, right))
    assert (got.low, got.high) == wilson(100 * right, 100)
    assert got.method == "wilson"


def test_ten_events_get_the_bootstrap_and_nine_wilson():
    values = np.zeros(300)
    values[:9] = 1
    assert interval(values).method == "wilson"
    assert interval(1 - values).method == "wilson"
    values[9] = 1
    assert interval(values).method == "percentile"
    values[9] = 0.5  # not a column of 0 and 1
    assert interval(values).method == "percentile"


def test_counts_are_no_rates(made, factory):
    one = made({"correct": [np.tile([0, 1], 50)], "traces": [np.ones(100)]})
    row = only(summarise(factory(one), ["a"], settings=QUICK).summary, metric="traces")
    assert (row["low"], row["high"], row["method"]) == (1.0, 1.0, "percentile")


@pytest.mark.parametrize("method", METHODS)
def test_rates_that_differ_on_few_examples_get_tango_and_the_mid_p(made, factory, method):
    # 400 examples: both right 391, only a 5, only b 2, neither 2.
    first = np.r_[np.ones(391), np.ones(5), np.zeros(2), np.zeros(2)]
    second = np.r_[np.ones(391), np.zeros(5), np.ones(2), np.zeros(2)]
    one = made({"correct": [first, second]})
    settings = Settings(resamples=1000, method=method)
    row = only(summarise(factory(one), ["a", "b"], baseline="b", settings=settings).comparisons, policy="a")
    assert np.array((row["low"], row["high"])) == pytest.approx(np.array(tango_limits(5, 2, 400)))
    assert row["method"] == "tango"
    # Seven pairs, at most two of a kind: 2 (1 + 7 + 21) / 128, of which half of the last counts in the mid-p.
    assert row["exact_p"] == pytest.approx(58 / 128)
    assert row["p_value"] == pytest.approx((58 - 21) / 128)


def test_one_marked_rate_of_two_keeps_the_bootstrap():
    rng = np.random.default_rng(0)
    assert paired_interval(np.ones(200), rng.integers(0, 2, 200)).method == "percentile"


def test_all_right_against_all_wrong():
    got = paired_interval(np.ones(50), np.zeros(50))
    assert got.method == "percentile"  # fifty discordant pairs
    few = paired_interval(np.ones(19), np.zeros(19))
    assert few.method == "tango"
    assert (few.difference, few.high) == (1, 1)
    assert 0.6 < few.low < 1
    assert few.p_value == pytest.approx(0.5**19)


def test_nothing_judged(made, factory):
    one = made({"correct": [np.full(30, np.nan)] * 2, "traces": [np.arange(30), np.arange(30)]})
    result = summarise(factory(one), ["a", "b"], baseline="b", settings=QUICK)
    row = only(result.summary, policy="a", metric="accuracy")
    assert (row["estimate"], row["low"], row["high"], row["n"]) == (None, None, None, 0)
    row = only(result.comparisons, policy="a", metric="accuracy")
    assert (row["difference"], row["low"], row["p_value"]) == (None, None, None)
    assert (result.leader, result.judged, result.n) == (None, 0, 30)
    assert only(result.summary, policy="a", metric="traces")["estimate"] == 14.5


def test_graded_values_have_as_many_trials_as_their_variance_is_worth(made, factory):
    """Scores of a judge: Korn and Graubard's limits, by scipy; no wider than Student's by more than a tenth."""
    scores = np.array([0.6, 0.7, 0.7, 0.8, 0.8, 0.8, 0.9, 0.9, 1.0] * 3)
    table = summarise(factory(made({"correct": [np.ones(27)], "credit": [scores]})), ["a"]).summary
    row, mean, error = only(table, metric="credit"), scores.mean(), scores.std(ddof=1) / np.sqrt(27)
    trials = mean * (1 - mean) / error**2 * (1.959963984540054 / t.ppf(0.975, 26)) ** 2
    low = beta.ppf(0.025, mean * trials, trials - mean * trials + 1)
    high = beta.ppf(0.975, mean * trials + 1, trials - mean * trials)
    assert (row["low"], row["high"], row["method"]) == (pytest.approx(low), pytest.approx(high), "graded")
    assert high - low < 1.1 * 2 * t.ppf(0.975, 26) * error


def test_graded_values_off_one_end_leave_the_bootstrap(made, factory):
    def row(credit):
        values = {"correct": [np.ones(400)], "credit": [np.r_[credit, np.full(400 - len(credit), np.nan)]]}
        return only(summarise(factory(made(values)), ["a"], settings=QUICK).summary, metric="credit")

    alike, unseen = row(np.full(27, 0.8)), 1 - 0.025 ** (1 / 27)  # of 27 a share of .128 is not seen
    assert (alike["low"], alike["high"]) == pytest.approx((0.8 * (1 - unseen), 0.8 + unseen * 0.2))
    rare = row(np.r_[np.full(4, 0.5), np.ones(96)])
    assert (rare["low"], rare["high"]) == pytest.approx(wilson(98, 100))
    sizes = [(1, 0), (2, 0), (5, 95), (15, 85), (29, 271), (30, 270)]
    methods = [row(np.r_[np.linspace(0.1, 0.9, some), np.ones(all_right)])["method"] for some, all_right in sizes]
    assert methods == [None, "graded", "graded_few", "graded", "graded", "percentile"]


def test_five_per_cent_dropped_is_the_limit():
    draws = np.ones((3, 1000))
    draws[0, :49] = draws[1, :50] = draws[2, :51] = np.nan
    assert ResampledValues.of(draws).has_enough.tolist() == [True, True, False]


def test_a_note_names_the_reduction_that_has_no_interval(made, factory):
    # The baseline verifies in 2 of 400 examples, 1.4 standard errors from none; 13 % of the resamples have none.
    base = np.r_[np.ones(2), np.zeros(398)]
    one = made({"correct": [np.tile([0, 1], 200)] * 2, "verifications": [np.full(400, 3.0), base]})
    for method, code, own in (
        ("percentile", "weak_denominator", "studentised_few"), ("bca", "too_few_resamples", "bca_tail"),
    ):  # fmt: skip
        result = summarise(factory(one), ["a", "b"], baseline="b", settings=Settings(resamples=1000, method=method))
        assert only(result.comparisons, policy="a", metric="verifications")["method"] == own
        assert only(result.comparisons, policy="a", metric="reduction:verifications")["method"] is None
        note = next(note for note in result.notes if note.code == code)
        quotes(note.text, "`reduction:verifications`")
        assert note.metrics == ("reduction:verifications",)


def test_events_among_the_counts_are_rates(made, factory):
    few = np.r_[np.ones(3), np.zeros(397)]
    halves = np.where(few == 1, 0.5, 0)
    one = made({
        "correct": [np.tile([0, 1], 200)] * 2, "traces": [few, few[::-1]], "truncated": [few, few[::-1]],
        "finalizers": [few, halves],
    })  # fmt: skip
    result = summarise(factory(one), ["a", "b"], baseline="b", settings=QUICK)
    methods = {(r["policy"], r["metric"]): r["method"] for r in result.summary.iter_rows(named=True)}
    assert methods["a", "truncated"] == methods["b", "truncated"] == methods["a", "finalizers"] == "wilson"
    assert (methods["a", "traces"], methods["b", "finalizers"]) == ("studentised_few", "graded_few")
    row = only(result.comparisons, policy="a", metric="truncated")
    assert np.array((row["low"], row["high"])) == pytest.approx(np.array(tango_limits(3, 3, 400)))
    assert only(result.comparisons, policy="a", metric="reduction:truncated")["method"] != "tango"
    note = noted(result.notes, "few_events", "truncated: ", "`a`, `b`", "Wilson")
    assert (note.policies, note.metrics) == (("a", "b"), ("truncated",))


def test_the_note_for_clusters_that_agree(made, factory):
    one = made({"correct": [np.ones(100)]}, unit=np.arange(100) // 4)
    note = noted(summarise(factory(one), ["a"], settings=QUICK).notes, "clusters_agree", "accuracy: ", "`a`")
    assert (note.policies, note.metrics) == (("a",), ("accuracy",))


@pytest.mark.parametrize("examples", [40, 4500])
@pytest.mark.parametrize("step", [1 / 67, 1 / 75, 1 / 3003, 1 / (67 * 71), 1 / (70 * np.pi)])
def test_exact_ties_count_as_zero(made, factory, step, examples):
    # Multiples of a step: two resampled means are equal exactly where whole numbers say so.
    rng = np.random.default_rng(0)
    whole = np.tile(rng.integers(4, 63, examples), (2, 1))
    whole[1, -12:] += rng.integers(-4, 5, 12)  # they differ in few and by little, so that ties are common
    settings = Settings(resamples=400)
    got = resampled_metric(factory(made({"correct": whole * step})), ["a", "b"], "accuracy", settings=settings)
    resamples = Resamples(examples, 400, 0)
    counts = np.concatenate([resamples.counts_of_chunk(k) for k in range(len(resamples.sizes))], axis=1).astype(
        np.int64
    )
    tied = counts @ (whole[0] - whole[1]) == 0
    assert tied.sum() > 2
    assert np.array_equal(np.abs(got[0] - got[1]) < 1e-12, tied)


@pytest.mark.parametrize(
    ("call", "names"),
    [
        (lambda: wilson(0, 0), ["`events`", "`n`"]),
        (lambda: wilson(5, 3), ["`events` is 5", "`n` 3"]),
        (lambda: wilson(1, 3, 2), ["`level` is 2"]),
        (lambda: newcombe(0, 0, 0, 0), ["0, 0, 0, 0"]),
        (lambda: newcombe(1, 2, -1, 4), ["1, 2, -1, 4"]),
        (lambda: newcombe(1, 2, 3, 4, 2), ["`level` is 2"]),
        (lambda: Settings(resamples=1.5), ["`resamples` is 1.5"]),
        (lambda: Settings(seed=1.5), ["`seed` is 1.5"]),
        (lambda: Settings(seed=True), ["`seed` is True"]),
        (lambda: Settings(level="x"), ["`level` is 'x'"]),
        (lambda: Settings(method=3), ["`method` is 3"]),
        (lambda: Settings(kw=float("nan")), ["`kw` is nan"]),
        (lambda: interval([1, np.inf]), ["`values`", "index 1"]),
        (lambda: paired_interval([1, 2], [-np.inf, 1]), ["`second`", "index 0"]),
    ],
)
def test_doors(call, names):
    with pytest.raises(ThinkbackError) as error:
        call()
    assert all(name in str(error.value) for name in names)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("right", [0.0, 1.0])
def test_no_event_in_clusters_counts_clusters(right):
    # 25 clusters that agree within bound the rate as 25 examples would: by Clopper and Pearson 1 − .025^(1/25).
    got = interval(np.full(100, right), cluster=np.arange(100) // 4)
    far = 1 - 0.025 ** (1 / 25)
    assert (got.low, got.high) == pytest.approx((0, far) if right == 0 else (1 - far, 1))
    assert got.method == "korn-graubard_few"
    assert got.n == 100


def test_bca_falls_back_where_it_is_undefined(made, factory):
    one = made({"correct": [np.tile([0, 1], 20)], "traces": [np.full(40, 3)]})
    result = summarise(factory(one), ["a"], settings=Settings(resamples=200, method="bca"))
    row = only(result.summary, metric="traces")
    assert (row["low"], row["high"], row["method"]) == (3.0, 3.0, "percentile")
    assert only(result.summary, metric="accuracy")["method"] == "bca"


def test_equal_sums_on_different_grids_are_equal():
    # Thirds against sevenths: every difference of the two is a multiple of 1/21 or exactly 0.
    rng = np.random.default_rng(0)
    one = rng.integers(0, 4, 60) / 3
    got = paired_interval(one, one[::-1], settings=Settings(resamples=2001))
    assert got.difference == 0
    assert got.p_value > 0.5
    assert interval(one / 7).estimate == pytest.approx(one.mean() / 7, rel=1e-14)


@pytest.mark.parametrize("whole", [3.0, 7.0, 21.0, 67.0])
def test_sums_in_any_order_are_equal_in_their_significant_bits(whole):
    # Multiples of 1/whole, added up in another order: other floats, the same number.
    rng = np.random.default_rng(0)
    values = rng.integers(0, 5000, (200, 3000)) / whole
    forth, back = np.cumsum(values, axis=1)[:, -1], np.cumsum(values[:, ::-1], axis=1)[:, -1]
    assert (forth != back).any()
    assert (round_to_bits(forth, 40) == round_to_bits(back, 40)).all()
    assert round_to_bits(forth, 40) == pytest.approx(forth, rel=2.0**-40)
    assert (round_to_bits(np.arange(10_000.0), 40) == np.arange(10_000.0)).all()


def test_a_constant_of_any_value_has_an_interval_without_width():
    for value in (1 / 3, 0.1, 7.3e-5):
        got = interval(np.full(300, value))
        assert got.low == got.high == got.estimate == pytest.approx(value, rel=1e-13)


def test_tiny_values_are_not_rounded_away():
    values = np.random.default_rng(0).random(200) * 1e-9
    got = interval(values)
    error = values.std() / np.sqrt(200)
    assert got.low == pytest.approx(values.mean() - 1.96 * error, abs=0.2 * error)


def test_a_cost_of_nothing_has_no_interval(made, factory):
    """Ten examples without a verification say nothing of what the next would cost; one that is constant is."""
    values = {"correct": [np.tile([0, 1], 5)] * 2, "verifications": [np.zeros(10), np.full(10, 2.0)]}
    for unit in (None, np.arange(10) // 2):
        table = summarise(factory(made(values, unit)), ["a", "b"], settings=QUICK).summary
        rows = [only(table, policy=policy, metric="verifications") for policy in ("a", "b")]
        assert [(row["estimate"], row["low"], row["high"]) for row in rows] == [(0, None, None), (2, 2, 2)]


@pytest.mark.parametrize(
    ("share", "size", "places"), [(0.5, 10, (2, 9)), (0.99, 367, (359, None)), (0.99, 368, (360, 368))]
)
def test_limits_of_quantiles_are_ordered_values(share, size, places):
    """Of ten values the second and the ninth: below the median are at most one, or nine or more, with 11/1,024 each."""
    values = np.arange(1.0, size + 1)
    low, high = quantile_limits(values, share, 0.95)
    assert (low, high) == places
    assert binom.cdf(low - 1, size, share) <= 0.025 < binom.cdf(low, size, share)
    if high is not None:
        assert binom.cdf(high - 1, size, share) >= 0.975 > binom.cdf(high - 2, size, share)


@pytest.mark.parametrize(("long", "carrying"), [(60.0, 2), (1.0, None)])
def test_a_note_says_how_few_examples_carry_half_of_the_seconds(made, factory, long, carrying):
    """Two time-outs of a minute beside 98 seconds: 120 of 218 s."""
    seconds = np.r_[np.full(2, long), np.ones(98)]
    one = made({"correct": [np.tile([0, 1], 50)], "latency_s": [seconds]})
    notes = [note.text for note in summarise(factory(one), ["a"], settings=QUICK).notes if note.code == "long_calls"]
    assert bool(notes) == (carrying is not None)
    for text in notes:
        quotes(text, f"{carrying} of 100 ", "`a`")
