"""What the ranked table says of policies that agree: identical calls, ties, and claims that rest on few examples."""

from dataclasses import replace

import polars as pl

from tests.errors import remarked
from toolkit.show import RankedInput, code_of
from toolkit.show.ranking.results import ranked_table


def with_pairs(results: RankedInput, exact: dict[str, float], identical: set[tuple[str, str]]) -> RankedInput:
    """The run with these exact p-values, by policy, and pairs that made the same calls."""
    rows = results.comparisons.select("policy", "baseline").rows()
    columns = [
        pl.Series("exact_p", [exact.get(policy) for policy, _ in rows], pl.Float64),
        pl.Series("identical", [pair in identical for pair in rows]),
    ]
    return replace(results, comparisons=results.comparisons.with_columns(columns))


def column(results: RankedInput, key: str) -> dict[str, object]:
    table = ranked_table(results)
    keys = [one.key for one in table.columns]
    names = [row[1] for row in table.rows]
    return dict(zip(names, (row[keys.index(key)] for row in table.rows), strict=True))


def test_the_same_calls_are_said_to_be_identical(results: RankedInput) -> None:
    leader = "stop[margin=0.2]"
    made = with_pairs(results, {}, {("vote", leader), ("first", "best of 4")})
    assert column(made, "leader")["vote"] == "identical"
    assert column(made, "not_worse")["first"] == "identical"
    assert column(made, "not_worse")["vote"] is False
    remarked(ranked_table(made).below, "identical")
    assert "identical" not in map(code_of, ranked_table(results).below)


def test_a_claim_on_few_examples_needs_the_exact_p(results: RankedInput) -> None:
    """`vote` differs from the leader by its interval; where a fair coin would do so too, it is not told apart."""
    assert column(results, "leader")["vote"] == ""
    assert column(with_pairs(results, {"vote": 0.125}, set()), "leader")["vote"] == "open"
    assert column(with_pairs(results, {"vote": 0.03}, set()), "leader")["vote"] == ""
