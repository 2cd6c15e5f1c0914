"""Score intervals, quantiles and p-values by hand and against published examples."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.stats import newcombe, wilson
from toolkit.stats.limits.intervals import ResampledValues

Z = 1.959963984540054


def test_wilson_by_hand():
    # 8 of 20: (p + z²/2n ± z·sqrt(p(1−p)/n + z²/4n²)) / (1 + z²/n)
    p, n = 0.4, 20
    middle = p + Z * Z / (2 * n)  # 0.4960
    half = Z * math.sqrt(p * (1 - p) / n + Z * Z / (4 * n * n))  # 0.2352
    down = 1 + Z * Z / n  # 1.1921
    assert wilson(8, 20) == pytest.approx(((middle - half) / down, (middle + half) / down), abs=1e-12)
    assert wilson(8, 20) == pytest.approx((0.21880, 0.61342), abs=1e-5)


def test_wilson_at_the_ends():
    # No event in n: 0 to z²/(n + z²)
    assert wilson(0, 10) == pytest.approx((0.0, Z * Z / (10 + Z * Z)), abs=1e-12)
    assert wilson(10, 10)[1] == 1.0
    assert wilson(10, 10)[0] == pytest.approx(1 - wilson(0, 10)[1], abs=1e-12)


def test_wilson_published():
    # Newcombe, Statistics in Medicine 17 (1998) 857, table I, method 3: 81/263, 15/148, 0/20, 1/29.
    for (events, n), limits in {
        (81, 263): (0.2553, 0.3662),
        (15, 148): (0.0624, 0.1605),
        (0, 20): (0.0, 0.1611),
        (1, 29): (0.0061, 0.1718),
    }.items():
        assert wilson(events, n) == pytest.approx(limits, abs=5e-5)


def test_newcombe_by_hand():
    # 20 both, 12 only one, 2 only two, 16 neither: rates 0.64 and 0.44, difference 0.2.
    (l1, u1), (l2, u2) = wilson(32, 50), wilson(22, 50)
    phi = (20 * 16 - 12 * 2) / math.sqrt(32 * 18 * 22 * 28)
    down = math.sqrt((0.64 - l1) ** 2 - 2 * phi * (0.64 - l1) * (u2 - 0.44) + (u2 - 0.44) ** 2)
    up = math.sqrt((u1 - 0.64) ** 2 - 2 * phi * (u1 - 0.64) * (0.44 - l2) + (0.44 - l2) ** 2)
    assert newcombe(20, 12, 2, 16) == pytest.approx((0.2 - down, 0.2 + up), abs=1e-12)
    assert newcombe(20, 12, 2, 16) == pytest.approx((0.0618, 0.3242), abs=5e-5)


def test_newcombe_with_the_papers_corrected_phi_gives_altmans_example():
    # Altman et al., Statistics with Confidence (2000), table 6.2 (14, 5, 0, 22): 0.122 (0.011 to 0.226). They take the
    # paper's method 10, which subtracts n/2 from φ's numerator. The rest of the formula is ours.
    n, one, two = 41, 19 / 41, 14 / 41
    (l1, u1), (l2, u2) = wilson(19, n), wilson(14, n)
    phi = (14 * 22 - 5 * 0 - n / 2) / math.sqrt(19 * 22 * 14 * 27)
    low = one - two - math.sqrt((one - l1) ** 2 - 2 * phi * (one - l1) * (u2 - two) + (u2 - two) ** 2)
    high = one - two + math.sqrt((u1 - one) ** 2 - 2 * phi * (u1 - one) * (two - l2) + (two - l2) ** 2)
    assert (low, high) == pytest.approx((0.011, 0.226), abs=5e-4)
    inside = newcombe(14, 5, 0, 22)
    assert low < inside[0] < 5 / 41 < inside[1] < high


def test_newcombe_turns_over_with_the_order():
    low, high = newcombe(3, 5, 1, 91)
    assert newcombe(3, 1, 5, 91) == pytest.approx((-high, -low), abs=1e-15)


def test_newcombe_with_an_empty_margin_takes_no_correlation():
    # All right against 8 of 10: φ = 0, so the limits combine as of independent rates.
    (l1, _), (l2, u2) = wilson(10, 10), wilson(8, 10)
    low, high = newcombe(8, 2, 0, 0)
    assert low == pytest.approx(0.2 - math.hypot(1 - l1, u2 - 0.8), abs=1e-12)
    assert high == pytest.approx(0.2 + (0.8 - l2), abs=1e-12)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30), st.floats(0.01, 0.99))
def test_quantiles_are_type_7(values, level):
    ours = ResampledValues.of(np.array([values])).quantile(np.array([level]))[0]
    assert ours == pytest.approx(np.quantile(values, level), rel=1e-12, abs=1e-9)


def test_quantiles_leave_out_resamples_without_a_value():
    draws = np.array([[3.0, np.nan, 1.0, 2.0] + [2.0] * 76])
    assert ResampledValues.of(draws).has_enough[0]
    kept = draws[~np.isnan(draws)]
    low, high = ResampledValues.of(draws).percentile_limits(0.9)
    assert (low[0], high[0]) == pytest.approx((np.quantile(kept, 0.05), np.quantile(kept, 0.95)))
    assert not ResampledValues.of(np.array([[np.nan, 1.0] * 10])).has_enough[0]


def test_p_values_by_hand():
    # B = 9. (a) 2 values <= 0, 7 >= 0: 2·(1 + 2)/10. (b) none <= 0: 2/10. (c) all zero up to 1e-12: capped at 1.
    # (d) one is missing: B = 8, one value <= 0: 2·2/9.
    draws = np.array(
        [
            [-1, -2, 3, 3, 3, 3, 3, 3, 3],
            [1] * 9,
            [0, 1e-13, -1e-13, 0, 0, 0, 0, 0, 0],
            [-1, 1, 1, 1, 1, 1, 1, 1, np.nan],
        ],
        np.float64,
    )
    assert ResampledValues.of(draws).p_values() == pytest.approx([0.6, 0.2, 1.0, 4 / 9])
