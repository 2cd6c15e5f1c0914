"""Two policies of a run side by side: the rows and columns of paired tables, and what 1,000 requests gain."""

from __future__ import annotations

from dataclasses import dataclass, replace

from replay.studies.kit.outcomes import RunOutcomes, mean
from replay.studies.kit.published import PublishedRow
from replay.studies.kit.sheet import Row, Theirs, Value, beside, intervals, numbers, words
from toolkit.show import NumberWithInterval, ShownInterval, TableColumn

SAVED = "action tokens saved"
COMPARED = {
    "correct": ("accuracy, points", 100.0),
    "flip": ("flips, points", 100.0),
    "total_tokens": ("total tokens", 1.0),
    SAVED: ("action tokens saved %", 100.0),
}
"""What a paired table calls what it compares, and what that is multiplied with."""
HEADS = ("policy", TableColumn("minus", key="baseline"))
COLUMNS = (
    words("what", "metric"),
    replace(
        intervals("difference", "difference", signed=True),
        theirs=Theirs("difference", "published", "published", NumberWithInterval(2, signed=True), apart=True),
    ),
    beside(numbers("p", "p_value", 4), "p", "published p", "published_p", 3),
)
"""Of a paired table."""


@dataclass(frozen=True)
class Comparison:
    """A row of a paired table: two policies, what is compared, and the work's name of that."""

    first: str
    second: str
    metric: str
    name: str = ""

    def row(self, run: RunOutcomes, published: PublishedRow) -> Row:
        """The difference with its interval and its p-value, beside the published one."""
        what, scale = COMPARED[self.metric]
        if self.metric == SAVED:
            found, p_value = run.reduction(self.first, self.second, "action_tokens"), None
        else:
            found, p_value = run.paired(self.first, self.second, self.metric, scale)
        theirs = ShownInterval.of(tuple(published.get(key) for key in ("difference", "ci95_low", "ci95_high")))
        values = {"metric": what, "difference": found, "p_value": p_value}
        return Row((self.first, self.second), values=values, published={"difference": theirs, "p": published.get("p")})


GAINED = {
    "calls_avoided": "calls", "action_tokens_saved": "action_tokens", "total_tokens_saved": "total_tokens",
    "flips_avoided": "flip",
}  # fmt: skip
PER_1000 = (
    numbers("calls avoided", "calls_avoided", 0),
    numbers("action tokens saved", "action_tokens_saved", 0),
    numbers("total tokens saved", "total_tokens_saved", 0),
    numbers("flips avoided", "flips_avoided", 1),
    numbers("more right answers", "more_right", 1, signed=True),
)
"""Columns of what 1,000 requests gain by one policy in place of another."""


def per_1000(run: RunOutcomes, first: str, second: str) -> dict[str, Value]:
    """What 1,000 requests gain by the first policy in place of the second."""
    one, two = run.values(first), run.values(second)
    saved: dict[str, Value] = {key: mean(two[column] - one[column], 1000) for key, column in GAINED.items()}
    return saved | {"more_right": mean(one["correct"] - two["correct"], 1000)}
