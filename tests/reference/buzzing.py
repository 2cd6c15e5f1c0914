"""`buzz` as a plain loop over the rounds of one text, in the words of docs/policies.md."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Walk:
    """What a policy runs of a text: `taken` claims, the cap of revisions `last`, the rows `run` of claims, those that
    are `refuted`, and the one that it acts on; `begin` and `end` order rows by when they happen.
    """

    taken: set[int]
    last: float
    run: list[Row]
    refuted: list[Row]
    act: Row | None
    begin: Callable[[Row], tuple[Any, ...]]
    end: Callable[[Row], tuple[Any, ...]]

    def is_begun(self, row: Row) -> bool:
        """Whether a row begins before the act is over."""
        return self.act is None or self.begin(row) <= self.end(self.act)


def until(rows: Sequence[Row], row: Row) -> list[Row]:
    """The rounds of a row's claim, up to it."""
    mine = sorted((one for one in rows if one["claim"] == row["claim"]), key=lambda one: one["round"])
    return mine[: row["round"] + 1]


def moments(rows: Sequence[Row], speed: float | None) -> tuple[Callable[[Row], Any], Callable[[Row], Any]]:
    """When rows begin and end. Where the text goes on: at the word of the claim's first round and the words spoken in
    the seconds of its rounds; null seconds count as none. Revisions stay as they are logged.
    """

    def at(row: Row, is_end: bool) -> tuple[Any, ...]:
        place = (row["position"], row["claim"], row["round"])
        if speed is None:
            return (row["stage"] != "stream", 0.0, place)
        mine = until(rows, row)
        seconds = [one["latency_s"] or 0.0 for one in (mine if is_end else mine[:-1])]
        words = mine[0]["position"] + speed * added(seconds) if row["stage"] == "stream" else 0.0
        return (row["stage"] != "stream", words, place, is_end)

    return (lambda row: at(row, is_end=False)), (lambda row: at(row, is_end=True))


def walk(rows: Sequence[Row], text: Row, policy: Mapping[str, Any]) -> Walk:
    """Runs each claim up to its verdict or cap, and acts at the refutation of the `patience`-th."""
    taken, last = followed(rows, text, policy)
    begin, end = moments(rows, policy.get("words_per_second"))
    run, refuted, ended = list[Row](), list[Row](), set[int]()
    for row in in_time(rows):
        number = row["claim"]
        if row["stage"] == "revision" and last == 0:
            break
        if row["verdict"] == "none":
            run.append(row)
        elif number in taken and number not in ended:
            run.append(row)
            confidence = 1.0 if row["confidence"] is None else row["confidence"]
            if row["verdict"] == "refuted" and confidence >= policy.get("confidence", 0.0):
                refuted.append(row)
            if row["verdict"] in DONE or row["round"] + 1 == policy.get("max_rounds"):
                ended.add(number)
    refuted.sort(key=end)
    patience = policy.get("patience", 1)
    return Walk(taken, last, run, refuted, refuted[patience - 1] if len(refuted) >= patience else None, begin, end)


def buzz(rows: Sequence[Row], text: Row, policy: Mapping[str, Any], sees: str | None) -> dict[str, Any]:
    """The outcome on one text; `partial` says whether the log cannot serve it."""
    if not rows:
        return {"partial": True}
    way = walk(rows, text, policy)
    act, last, speed = way.act, way.last, policy.get("words_per_second")
    any_revision = any(row["stage"] == "revision" for row in rows)
    in_stream = act is not None and act["stage"] == "stream"
    paid = [row for row in way.run if way.is_begun(row) or (policy.get("to_end") and row["stage"] == "stream")]
    reached = not in_stream and last != 0 and (any_revision or (math.isfinite(last) and last > 0))
    short = _short(rows, way, policy, sees, reached)
    position = None if act is None else act["position"]
    partial = (math.isnan(last) and not in_stream) or (any(short) and policy.get("on_missing") != "use_available")
    if act is not None and speed is not None:
        seconds = [row["latency_s"] for row in until(rows, act)]
        if None in seconds or text["length"] is None or _is_order_unknown(rows, way, paid):
            return {"partial": True}
        position = min(math.ceil(until(rows, act)[0]["position"] + speed * added(seconds)), text["length"])
    if partial:
        return {"partial": True}
    return {"partial": False, "act": act is not None, "position": position, "rounds": len(paid)} | measured(
        rows, text, paid, act, position, short
    )


def _is_order_unknown(rows: Sequence[Row], way: Walk, paid: Sequence[Row]) -> bool:
    """Whether null seconds of the stream may change what is refuted, or begun, before the act."""
    assert way.act is not None
    counted = [row for row in way.refuted if way.end(row) <= way.end(way.act)]
    begun = [row for row in paid if way.is_begun(row)]
    before = [until(rows, row) for row in counted] + [until(rows, row)[:-1] for row in begun]
    return any(one["latency_s"] is None and one["stage"] == "stream" for some in before for one in some)


def _short(
    rows: Sequence[Row], way: Walk, policy: Mapping[str, Any], sees: str | None, reached: bool
) -> tuple[bool, bool, bool]:
    """The three ways in which the log ends before the policy does."""
    act, last = way.act, way.last
    of = {
        n: sorted((row for row in rows if row["claim"] == n), key=lambda row: row["round"])
        for n in {r["claim"] for r in rows}
    }
    most, claim = policy.get("max_rounds"), False
    for number in way.taken:
        mine = of[number]
        runs = mine[0]["stage"] == "stream" or reached
        open_ = all(row["verdict"] not in DONE for row in mine)
        by_then = act is None or way.end(mine[-1]) <= way.end(act)
        if most is not None and runs and open_ and len(mine) < most and by_then:
            claim = True
    few, cap = False, policy.get("max_claims")
    stream = [row for row in rows if row["stage"] == "stream"]
    if isinstance(cap, Mapping):
        for unit in {row["unit"] for row in stream}:
            mine = [row for row in stream if row["unit"] == unit]
            names = {row["claim"] for row in mine if row["verdict"] != "none"}
            before = act is None or max(map(way.end, mine)) < way.end(act)
            if len(names) < cap_of_unit(cap, mine[0]) and not ends_with_none(mine) and before:
                few = True
    elif cap is not None and not (act is not None and act["stage"] == "stream"):
        names = {row["claim"] for row in stream if row["verdict"] != "none"}
        few = len(names) < cap and not ends_with_none(stream)
    if policy.get("revisions") is not None and reached and act is None:
        revision = [row for row in rows if row["stage"] == "revision"]
        names = {row["claim"] for row in revision if row["verdict"] != "none"}
        few = few or (len(names) < last and all(row["verdict"] != "none" for row in revision))
    other = False
    verdicts = {row["claim"]: row["verdict"] for row in way.run if row["verdict"] != "none"}
    counted = {row["claim"] for row in way.refuted}
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
