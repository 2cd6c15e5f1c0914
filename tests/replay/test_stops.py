import numpy as np
import pytest
from scipy.stats import beta

from replay import Agreement, Budget, Margin, Never, Prefix, Window
from tests.errors import refuses
from toolkit.stopping.prefix import LazyArrays, _running_votes, prefix_of_one, running_best, running_sum_leaders
from toolkit.stopping.stops import _lead_probability, _stopping_step, crossing_step

THIRDS = np.array([False, False, True, False, False])
"""The ends of blocks of three."""


def seen(code: list[int], score: list[float]) -> Prefix:
    """Statistics of one example whose traces all come in order of generation and are verified at once."""
    codes, scores = np.array([code]), np.array([score])
    places = np.broadcast_to(np.arange(len(code)), codes.shape)
    answers = max(max(code) + 1, 1)
    first = np.array([[code.index(a) if a in code else 99 for a in range(answers)]])
    first_place = np.take_along_axis(first, np.maximum(codes, 0), axis=1)
    votes, best = _running_votes(codes, first_place, answers), running_best(codes, scores, places, answers)
    steps = np.arange(1, len(code) + 1)[None, :]
    told = {
        "traces": steps, "valid": np.cumsum(codes >= 0, axis=1), "answers": votes.answers, "votes": votes.votes,
        "second_votes": votes.second_votes, "run": votes.run, "verified": best.verified,
        "verified_answers": best.verified_answers, "best_score": best.best_score, "lead": best.lead,
        "last_score": scores, "tokens": steps * 10.0, "completion_tokens": steps * 5.0,
    }  # fmt: skip
    matches = {name: codes == number for number, name in enumerate("ABCD")}
    return Prefix(LazyArrays(told, told.__getitem__), answer_matches=LazyArrays(matches, matches.__getitem__))


def test_running_statistics_by_hand():
    # answers a b b - a c; scores .2 .5 .4 - .6 .6
    stats = seen([0, 1, 1, -1, 0, 2], [0.2, 0.5, 0.4, np.nan, 0.6, 0.6])
    assert stats.votes.tolist() == [[1, 1, 2, 2, 2, 2]]
    assert stats.second_votes.tolist() == [[0, 1, 1, 1, 2, 2]]
    assert stats.run.tolist() == [[1, 1, 2, 0, 1, 1]]
    assert stats.verified.tolist() == [[1, 2, 3, 3, 4, 5]]
    assert stats.verified_answers.tolist() == [[1, 2, 2, 2, 2, 3]]
    np.testing.assert_allclose(stats.best_score, [[0.2, 0.5, 0.5, 0.5, 0.6, 0.6]])
    # lead: none, .5-.2, .5-.2, .3, .6-.5, .6-.6
    np.testing.assert_allclose(stats.lead, [[np.nan, 0.3, 0.3, 0.3, 0.1, 0.0]])


def test_margin_waits_for_enough_and_for_more_while_one_answer_stands_alone():
    rule = Margin(0.15, min_valid=3, single_label=5)
    assert rule.holds(seen([0, 1, 0, 0], [0.9, 0.1, 0.2, 0.3])).tolist() == [[False, False, True, True]]
    assert rule.holds(seen([0] * 6, [0.9] * 6)).tolist() == [[False] * 4 + [True, True]]


def test_margin_is_met_exactly_within_a_hair():
    assert Margin(0.3, min_valid=2).holds(seen([0, 1], [0.4, 0.1])).tolist() == [
        [False, True]
    ]  # 0.4 - 0.1 < 0.3 in floats
    assert Margin(0.3001, min_valid=2).holds(seen([0, 1], [0.4, 0.1])).tolist() == [[False, False]]


def test_agreement_is_the_beta_posterior():
    for first in range(13):
        for second in range(first + 1):
            expected = 1 - beta.cdf(0.5, first + 1, second + 1)
            assert _lead_probability(first, second) == pytest.approx(expected, abs=1e-12)


def test_agreement_meets_an_exact_tie():
    # v1 = 1, v2 = 0: P(Binomial(2, 1/2) <= 1) = 3/4 exactly.
    assert Agreement(0.75).holds(seen([0], [0.5])).tolist() == [[True]]
    assert Agreement(0.7500001).holds(seen([0], [0.5])).tolist() == [[False]]


def test_agreement_needs_a_vote():
    assert Agreement(0.0).holds(seen([-1, 0], [np.nan, 0.5])).tolist() == [[False, True]]


def test_window_looks_at_whole_blocks_only():
    rule = Window(2)
    assert rule.holds(seen([0, 1, 1, 1], [0] * 4)).tolist() == [[False, False, False, True]]
    assert rule.holds(seen([0, 0, -1, 0], [0] * 4)).tolist() == [[False, True, False, False]]


def test_budgets_count_traces_verifications_or_completion_tokens():
    stats = seen([0, -1, 1], [0.5, np.nan, 0.5])
    assert Budget(traces=2).holds(stats).tolist() == [[False, True, True]]
    assert Budget(verifications=2).holds(stats).tolist() == [[False, False, True]]
    assert [Budget(completion_tokens=n).holds(stats).sum() for n in (5, 6, 10, 15, 16)] == [3, 2, 2, 1, 0]
    assert Budget(completion_tokens=16).undecidable_steps(prefix_of_one(completion_tokens=[8, None])).tolist() == [
        [False, True]
    ]
    assert Budget(traces=2).statistic_key == Budget(traces=3).statistic_key != Budget(verifications=3).statistic_key


@pytest.mark.parametrize(
    "rule", [Margin(0.2, 2, 3), Agreement(0.7), Budget(traces=3), Budget(verifications=2), Budget(completion_tokens=22)]
)
def test_threshold_rules_cross_where_they_first_hold(rule):
    rng = np.random.default_rng(0)
    for _ in range(50):
        code = rng.integers(-1, 3, 8).tolist()
        stats = seen(code, np.where(np.array(code) >= 0, rng.integers(0, 5, 8) / 4, np.nan).tolist())
        limit = np.array([rng.integers(0, 9)])
        highest = np.maximum.accumulate(rule.statistic(stats).T, axis=0)
        step, ruled = _stopping_step(rule.holds(stats), limit)
        crossed, crossing = crossing_step(highest, rule.threshold, limit)
        assert (step == crossed).all()
        assert (ruled == crossing).all()


def test_blocks_of_width_are_looked_at_at_their_ends_and_at_the_limit():
    holds = np.array([[False, True, True, True, True]])
    assert _stopping_step(holds, np.array([5]), ends=THIRDS)[0].tolist() == [3]
    assert _stopping_step(holds, np.array([2]), ends=THIRDS)[0].tolist() == [2]
    assert _stopping_step(holds, np.array([1]), ends=THIRDS)[1].tolist() == [False]


def test_weighted_sums_break_ties_by_the_earliest_verified():
    # b .3 verified first, then a .3: equal sums; a was generated first.
    code, score, place = np.array([[1, 0]]), np.array([[0.3, 0.3]]), np.array([[1, 0]])
    assert running_sum_leaders(code, score, place, 2).tolist() == [[1, 0]]


def test_best_breaks_ties_by_generation_in_any_order_of_verification():
    best = running_best(np.array([[1, 0]]), np.array([[0.3, 0.3]]), np.array([[1, 0]]), 2)
    assert best.best_step.tolist() == [[1, 2]]


@pytest.mark.parametrize(
    ("build", "refusal"),
    [
        (lambda: Budget(), ("required", "`traces`", "`verifications`", "`completion_tokens`")),
        (lambda: Budget(traces=1, completion_tokens=1), ("required", "`completion_tokens`")),
        (lambda: Budget(traces=0), ("invalid", "1")),
        (lambda: Margin(min_valid=0), ("invalid", "1")),
        (lambda: Margin(margin="much"), ("invalid",)),
        (lambda: Window(size=0), ("invalid", "1")),
        (lambda: Agreement(confidence=float("nan")), ("invalid",)),
    ],
)
def test_settings_without_sense_are_refused(build, refusal):
    with refuses(*refusal):
        build()


def test_never_holds_nowhere():
    assert not Never().holds(seen([0, 0], [1.0, 1.0])).any()
