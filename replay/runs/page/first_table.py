"""What a page reads first of a large result: its head and one row of each sweep. The rest is packed, and read after."""

from __future__ import annotations

from replay.runs.page.dashboard_data import FEW, Json

LATER = ("policies", "metrics", "pairs", "headroom", "curves", "leftOut")
"""What waits, beside the rows of the table."""


def split_for_first_table(data: Json) -> tuple[Json, Json | None]:
    """What is read first and what follows, which is None where policies are few.

    What is read first has nulls in place of the policies, and of the rows, that a sweep's best setting stands for.
    """
    if len(data["policies"]) <= FEW:
        return data, None
    hidden = {number for sweep in data["sweeps"] for number in sorted({*sweep["policy"]} - {None})[1:]}
    rest = {name: data[name] for name in LATER} | {"rows": data["table"]["rows"]}
    policies, rows = (
        [None if number in hidden else one for number, one in enumerate(of)]
        for of in (data["policies"], data["table"]["rows"])
    )
    empty: Json = {"metrics": [], "pairs": {"baselines": []}, "headroom": None, "curves": None, "leftOut": []}
    return data | empty | {"policies": policies, "table": data["table"] | {"rows": rows}}, rest
