"""`buzz` as a plain loop over the rounds of one text, in the words of docs/policies.md."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]
DONE = ("supported", "refuted")


def in_time(rows: Sequence[Row]) -> list[Row]:
    """Rounds as they happen: the stream before the revisions, by position, claim, round."""
    return sorted(rows, key=lambda row: (row["stage"] != "stream", row["position"], row["claim"], row["round"]))


def cap_of_unit(cap: Mapping[str, int], row: Row) -> float:
    if "per_unit" in cap:
        return cap["per_unit"]
    return (
        math.ceil(row["unit_words"] / cap["words_per"])
        if "words_per" in cap
        else row["unit_entities"] * cap["per_entity"]
    )


def followed(rows: Sequence[Row], text: Row, policy: Mapping[str, Any]) -> tuple[set[int], float]:
    """Numbers of the claims that are followed, and the cap of the revisions."""
    claims = {row["claim"]: row for row in rows if row["round"] == 0 and row["verdict"] != "none"}
    taken, seen = set(), dict[Any, int]()
    most = policy.get("max_claims")
    for number in sorted(n for n, row in claims.items() if row["stage"] == "stream"):
        row = claims[number]
        group = row["unit"] if isinstance(most, Mapping) else None
        cap = math.inf if most is None else cap_of_unit(most, row) if isinstance(most, Mapping) else most
        if seen.get(group, 0) < cap:
            taken.add(number)
        seen[group] = seen.get(group, 0) + 1
    count, revisions = len(taken), policy.get("revisions")
    last: float = math.inf
    if isinstance(revisions, Mapping):
        if "slack" in revisions:
            last = max(revisions["slack"] - count, 0)
        elif text["length"] is None:
            last = math.nan
        else:
            rest = math.ceil(text["length"] / revisions["words_per"]) - revisions.get("discount", 0) * count
            last = max(math.floor(rest + 1e-9), 0)
    elif revisions is not None:
        last = revisions
    of_revision = sorted(n for n, row in claims.items() if row["stage"] == "revision")
    taken |= {n for place, n in enumerate(of_revision) if math.isnan(last) or place < last}
    return taken, last


def buzz(rows: Sequence[Row], text: Row, policy: Mapping[str, Any], sees: str | None) -> dict[str, Any]:
    """The outcome on one text; `partial` says whether the log cannot serve it."""
    if not rows:
        return {"partial": True}
    ordered = in_time(rows)
    taken, last = followed(rows, text, policy)
    verdicts: dict[int, str] = {}
    refuted, paid, act = [], [], None
    any_revision = any(row["stage"] == "revision" for row in rows)
    ended: set[int] = set()
    for row in ordered:
        if act is not None and not (policy.get("to_end") and row["stage"] == "stream" and act["stage"] == "stream"):
            break
        if row["stage"] == "revision" and last == 0:
            break
        number = row["claim"]
        if row["verdict"] == "none":
            paid.append(row)
            continue
        if number not in taken or number in ended:
            continue
        paid.append(row)
        verdicts[number] = row["verdict"]
        confidence = 1.0 if row["confidence"] is None else row["confidence"]
        if row["verdict"] == "refuted" and confidence >= policy.get("confidence", 0.0):
            refuted.append(row)
            if act is None and len(refuted) == policy.get("patience", 1):
                act = row
        if row["verdict"] in DONE or row["round"] + 1 == policy.get("max_rounds"):
            ended.add(number)
    in_stream = act is not None and act["stage"] == "stream"
    reached = not in_stream and last != 0 and (any_revision or (math.isfinite(last) and last > 0))
    short = _short(rows, ordered, text, policy, sees, taken, last, verdicts, refuted, act, reached)
    position = None if act is None else act["position"]
    partial = (math.isnan(last) and not in_stream) or (any(short) and policy.get("on_missing") != "use_available")
    if act is not None and policy.get("words_per_second") is not None:
        seconds = [row["latency_s"] for row in ordered[: ordered.index(act) + 1] if row["claim"] == act["claim"]]
        if None in seconds or text["length"] is None:
            return {"partial": True}
        position = min(math.ceil(position + policy["words_per_second"] * added(seconds)), text["length"])
    if partial:
        return {"partial": True}
    return {"partial": False, "act": act is not None, "position": position, "rounds": len(paid)} | measured(
        rows, text, paid, act, position, short
    )


def _short(
    rows: Sequence[Row], ordered: list[Row], text: Row, policy: Mapping[str, Any], sees: str | None, taken: set[int],
    last: float, verdicts: Mapping[int, str], refuted: list[Row], act: Row | None, reached: bool,
) -> tuple[bool, bool, bool]:  # fmt: skip
    """The three ways in which the log ends before the policy does."""
    at = len(ordered) if act is None else ordered.index(act)
    of = {
        n: sorted((row for row in rows if row["claim"] == n), key=lambda row: row["round"])
        for n in {r["claim"] for r in rows}
    }
    most, claim = policy.get("max_rounds"), False
    for number in taken:
        mine = of[number]
        runs = mine[0]["stage"] == "stream" or reached
        open_ = all(row["verdict"] not in DONE for row in mine)
        if most is not None and runs and open_ and len(mine) < most and ordered.index(mine[-1]) <= at:
            claim = True
    few, cap = False, policy.get("max_claims")
    stream = [row for row in rows if row["stage"] == "stream"]
    if isinstance(cap, Mapping):
        for unit in {row["unit"] for row in stream}:
            mine = [row for row in stream if row["unit"] == unit]
            names = {row["claim"] for row in mine if row["verdict"] != "none"}
            ends = max(ordered.index(row) for row in mine)
            if len(names) < cap_of_unit(cap, mine[0]) and not ends_with_none(mine) and ends < at:
                few = True
    elif cap is not None and not (act is not None and act["stage"] == "stream"):
        names = {row["claim"] for row in stream if row["verdict"] != "none"}
        few = len(names) < cap and not ends_with_none(stream)
    if policy.get("revisions") is not None and reached and act is None:
        revision = [row for row in rows if row["stage"] == "revision"]
        names = {row["claim"] for row in revision if row["verdict"] != "none"}
        few = few or (len(names) < last and all(row["verdict"] != "none" for row in revision))
    other = False
    counted = {row["claim"] for row in refuted}
    for number, mine in of.items():
        if mine[0]["stage"] == "stream" and mine[0]["verdict"] != "none":
            final = verdicts.get(number)
            other = other or final != mine[-1]["verdict"] or (final == "refuted" and number not in counted)
    return claim, few, other and reached and sees != "claims"


def ends_with_none(rows: Sequence[Row]) -> bool:
    """Whether the last claim of some rows says that there is no further one."""
    return bool(rows) and max(rows, key=lambda row: row["claim"])["verdict"] == "none"


def measured(
    rows: Sequence[Row], text: Row, paid: Sequence[Row], act: Row | None, position: int | None, short: Sequence[bool]
) -> dict[str, Any]:
    """What the outcome measures."""
    error = text["gold_error"]
    ending = "rule" if act is not None else "exhausted" if short[0] or short[1] else "cap"
    right = act is not None and error is True and act["matches_error"] is not False
    delta = None
    if right and text["gold_position"] is not None and text["length"]:
        delta = (position - text["gold_position"]) / text["length"]
    looked = any(row["matches_error"] is not None for row in rows)
    last = {row["claim"]: row for row in sorted(paid, key=lambda row: row["round"])}
    judged = [row for row in last.values() if row["gold_verdict"] is not None]
    annotated = any(row["gold_verdict"] is not None for row in rows)
    counts = {
        "claims_right": sum(row["verdict"] == row["gold_verdict"] for row in judged),
        "claims_judged": len(judged),
    }
    for label in ("supported", "refuted", "not_enough"):
        given = [row for row in judged if row["verdict"] == label]
        counts[f"claims_right_{label}"] = sum(row["gold_verdict"] == label for row in given)
        counts[f"claims_given_{label}"] = len(given)
        counts[f"claims_gold_{label}"] = sum(row["gold_verdict"] == label for row in judged)
    within = {
        f"within_{percent}": None if delta is None else float(abs(delta) <= percent / 100 + 1e-9)
        for percent in (20, 40)
    }
    by = {f"by_{percent}": None if delta is None else float(delta <= percent / 100 + 1e-9) for percent in (20, 40)}
    return {
        "ending": ending,
        "correct": None if error is None else float((act is not None) == error),
        "found": float(right) if error else None,
        "false_alarm": float(act is not None) if error is False else None,
        "error_extracted": float(any(row["matches_error"] for row in paid)) if error and looked else None,
        "deviation": delta,
        "premature": None if delta is None else float(delta < 0),
        **within,
        **by,
        **{name: float(count) if annotated else None for name, count in counts.items()},
        "latency_s": along(paid, "latency_s"),
        "serial_calls": along(paid, "calls"),
        "busy_s": total(paid, "latency_s"),
        **{name: total(paid, name) for name in ("calls", "queries", "prompt_tokens", "completion_tokens")},
    }


def added(values: Sequence[float]) -> float:
    """One after the other, in float64, which `sum` no longer does."""
    all_ = 0.0
    for value in values:
        all_ += value
    return all_


def total(paid: Sequence[Row], column: str) -> float | None:
    """What a column of the rows that are paid adds up to, null where one is."""
    values = [row[column] for row in paid]
    return None if None in values else added(values)


def along(paid: Sequence[Row], column: str) -> float | None:
    """What a column adds up to along the path: claims of a stream that begin at one word run side by side."""
    if any(row[column] is None for row in paid):
        return None
    groups: dict[Any, dict[int, float]] = {}
    for row in in_time(paid):
        first = min((one for one in paid if one["claim"] == row["claim"]), key=lambda one: one["round"])
        group = ("stream", first["position"]) if row["stage"] == "stream" else ("revision", row["claim"])
        of_claim = groups.setdefault(group, {})
        of_claim[row["claim"]] = of_claim.get(row["claim"], 0.0) + row[column]
    return added([max(claims.values()) for claims in groups.values()])
