"""Every sentence of the findings on the twenty files, held to the truth that the files were made of.

A sentence that no pattern below knows fails the test, so what is said later is checked, too.
"""

from __future__ import annotations

import itertools
import random
import re
from collections import Counter
from collections.abc import Callable
from math import comb
from pathlib import Path

import polars as pl
import pytest

from tests.imports.somebody import JOBS, TRUTH, Made, N, j15, j18

QUICK = {"j12"}
ABOUT = 0.0006
"""A printed number of one decimal in per cent may be off by so much."""
DRAWN = 0.02
"""A mean over twenty orders, against that over many."""
NUMBER = r"([+−]?[\d,.]+)"
RANGE = rf"(?: \[{NUMBER}, {NUMBER}\]†?)?†?"
PERCENT = rf"{NUMBER} %{RANGE}"
CORRECTED = rf"(?: \({NUMBER} %(?: \[[^]]*\])? corrected for having been chosen\))?"


def number(text: str) -> float:
    return float(text.replace("−", "-").replace(",", ""))


def inside(value: str, low: str | None, high: str | None) -> float:
    """An estimate, which lies in its interval."""
    if low is not None and high is not None:
        assert number(low) <= number(value) <= number(high)
    return number(value)


class Known:
    """What is known of a job: the samples of each pool, what they say, and the table of all policies."""

    def __init__(
        self, job: Callable[[Path], Made], pools: dict[str, list[int]], table: pl.DataFrame, figures: set[str]
    ) -> None:
        says = {j15: TRUTH.label, j18: TRUTH.letter}.get(job)
        self.says: Callable[[int, int], object] = says or (lambda i, k: TRUTH.said[i][k])
        self.pools, self.figures = pools, figures
        self.table = {row["policy"]: row for row in table.iter_rows(named=True)}

    def accuracy(self, name: str) -> tuple[float | None, float]:
        """Accuracy by the truth, and how far a replay may be off; None for rules that are checked by the table."""
        pool, _, rule = name.rpartition(": ")
        if name in self.pools:
            pool, rule = name, "one sample (mean)"
        if pool not in self.pools:
            return None, 0.0
        ks = self.pools[pool]
        if rule == "one sample (mean)":
            return sum(TRUTH.right[i][k] for i in range(N) for k in ks) / N / len(ks), ABOUT
        if found := re.fullmatch(r"majority@(\d+)", rule):
            return self._mean(lambda i, some: self._vote(i, some), int(found[1]), ks), ABOUT
        if found := re.fullmatch(r"any of (\d+)|best of (\d+) by (?!.*(?:least|min)).*", rule):
            size, of = int(found[1] or found[2]), len(ks)
            wrong = [sum(not TRUTH.right[i][k] for k in ks) for i in range(N)]
            holes = ABOUT if found[1] else DRAWN  # missing scores, and scores of some texts alone
            return sum(1 - comb(one, size) / comb(of, size) for one in wrong) / N, holes
        if found := re.fullmatch(r"adaptive consistency ([\d.]+)|window of (\d+)", rule):
            return self._stopped(ks, float(found[1] or 0), int(found[2] or 0)), DRAWN
        return None, 0.0

    def _vote(self, i: int, ks: tuple[int, ...]) -> float:
        counts = Counter(self.says(i, k) for k in ks)
        tied = {one for one, count in counts.items() if count == max(counts.values())}
        return len(tied & {self.says(i, k) for k in ks if TRUTH.right[i][k]}) / len(tied)

    def _mean(self, right: Callable[[int, tuple[int, ...]], float], size: int, ks: list[int]) -> float:
        sets = list(itertools.combinations(ks, size))
        return sum(right(i, some) for i in range(N) for some in sets) / N / len(sets)

    def _stopped(self, ks: list[int], sure: float, block: int) -> float:
        """Votes that stop, over 40 orders of each question."""
        rng, right = random.Random(1), 0.0
        for i in range(N):
            for _ in range(40):
                order = rng.sample(ks, len(ks))
                for end in range(1, len(order) + 1):
                    said = [self.says(i, k) for k in order[:end]]
                    first, second = [*sorted(Counter(said).values(), reverse=True), 0][:2]
                    heads = sum(comb(first + second + 1, x) for x in range(first + 1)) / 2 ** (first + second + 1)
                    alike = block and end % block == 0 and len(set(said[-block:])) == 1
                    if alike or (sure and heads >= sure - 1e-9):
                        break
                top = max(Counter(said).values())
                best = next(one for one in said if said.count(one) == top)
                right += best in {self.says(i, k) for k in ks if TRUTH.right[i][k]}
        return right / N / 40

    def is_accuracy(self, name: str, value: float) -> None:
        """A printed accuracy in per cent is the table's, and the truth's where that is known."""
        assert value == pytest.approx(100 * self.table[name]["accuracy"], abs=100 * ABOUT)
        known, off = self.accuracy(name)
        if known is not None:
            assert value == pytest.approx(100 * known, abs=100 * off), name

    def is_difference(self, name: str, other: str, value: float) -> None:
        difference = self.table[name]["accuracy"] - self.table[other]["accuracy"]
        assert value == pytest.approx(100 * difference, abs=0.11)


def best(known: Known, baseline: str, found: re.Match[str]) -> None:
    name, value, low, high, _, tail = found.groups()
    known.is_accuracy(name, inside(value, low, high))
    real = {row["policy"]: row["accuracy"] for row in known.table.values() if row["place"] is not None}
    assert real[name] == max(real.values())
    if "it is the baseline" in tail:
        assert name == baseline
    else:
        change, low, high, other = re.findall(rf"{NUMBER}{RANGE} points against `([^`]+)`", tail)[0]
        assert other == baseline
        known.is_difference(name, other, inside(change, low or None, high or None))
    assert re.search(r"not told apart from it on 80 questions|Every other policy is told apart", tail)


def other_samples(known: Known, baseline: str, found: re.Match[str]) -> None:
    for name, less, value, low, high in re.findall(
        rf"`([^`]+)`(?: less `([^`]+)`)? {NUMBER}(?: %)? \[{NUMBER}, {NUMBER}\]", found[1]
    ):
        estimate = inside(value, low, high)
        if less:
            known.is_difference(name, less, estimate)
        else:
            known.is_accuracy(name, estimate)


def gain(known: Known, baseline: str, found: re.Match[str]) -> None:
    one, at, low, high, other, to, low2, high2, change, low3, high3, cost, _, instead = found.groups()
    known.is_accuracy(one, inside(at, low, high))
    known.is_accuracy(other, inside(to, low2, high2))
    known.is_difference(other, one, inside(change, low3, high3))
    assert number(cost) / number(instead) == pytest.approx(len(known.pools[""]), rel=0.05)


def estimated(known: Known, baseline: str, found: re.Match[str]) -> None:
    name, change, low, high, cost, _, instead, share = found.groups()
    known.is_difference(name, baseline, inside(change, low, high))
    assert number(change) >= -1
    assert number(share) == pytest.approx(100 * (1 - number(cost) / number(instead)), abs=0.8)


def shown_cheapest(known: Known, baseline: str, found: re.Match[str]) -> None:
    other, name, change, least = found.groups()
    assert other == baseline
    known.is_difference(name, other, number(change))
    assert -1 <= number(least) <= number(change)


def power(known: Known, baseline: str, found: re.Match[str]) -> None:
    sizes = [number(one) for one in re.findall(rf"(?:from|\) of `[^`]+` to) {NUMBER} points?", found[0])]
    assert (sizes[0], max(sizes[:2])) == (min(sizes), max(sizes))
    assert all(0 < size < 100 for size in sizes)


def stops(known: Known, baseline: str, found: re.Match[str]) -> None:
    name, paid, of, value, low, high, change, low2, high2, other = found.groups()
    assert 1 <= number(paid) <= number(of) == len(known.pools[""])
    known.is_accuracy(name, inside(value, low, high))
    known.is_difference(name, other, inside(change, low2, high2))


def oracle(known: Known, baseline: str, found: re.Match[str]) -> None:
    known.is_accuracy(found[1], inside(found[2], found[3], found[4]))


def headroom(known: Known, baseline: str, found: re.Match[str]) -> None:
    start, end = (known.table[found[n]]["accuracy"] for n in (1, 2))
    for name, value, low, high in re.findall(rf"`([^`]+)` {NUMBER} \[{NUMBER}, {NUMBER}\]", found[3]):
        part = 100 * (known.table[name]["accuracy"] - start) / (end - start)
        assert inside(value, low, high) == pytest.approx(part, abs=0.51)


def gap(known: Known, baseline: str, found: re.Match[str]) -> None:
    name, lacks, *rest = found.groups()
    texts = zip(("vote or verifier", "paying", "better or more traces"), rest[2::3][:3], strict=True)
    parts = {key: number(text) for key, text in texts}
    assert number(lacks) == pytest.approx(100 - 100 * known.table[name]["accuracy"], abs=0.06)
    assert sum(parts.values()) == pytest.approx(number(lacks), abs=0.16)
    assert max(parts, key=lambda key: parts[key]) in rest[-1]
    pool = name if name in known.pools else name.rpartition(": ")[0]
    never = sum(not any(TRUTH.right[i][k] for k in known.pools[pool]) for i in range(N))
    assert parts["better or more traces"] == pytest.approx(100 * never / N, abs=0.06)


def area(known: Known, baseline: str, found: re.Match[str]) -> None:
    for name, value in re.findall(rf"`([^`]+)` {NUMBER}", found[1]):
        if not re.search(r"least|min$", name):  # right answers have 0.4 more, and others at most 0.6 in all
            assert number(value) == 1


def acts(known: Known, baseline: str, found: re.Match[str]) -> None:
    name, _, fixes, low, high, flips, low2, high2, base, value, low3, high3, _ = found.groups()
    inside(fixes, low, high)
    inside(flips, low2, high2)
    known.is_accuracy(name, inside(value, low3, high3))
    known.is_difference(name, base, number(fixes) - number(flips))


def cheapest(known: Known, baseline: str, found: re.Match[str]) -> None:
    key = found[2].replace(" ", "_") if found[2] != "tokens" else "total_tokens"
    costs = [row[key] for row in known.table.values() if row["place"] is not None]
    assert known.table[found[1]][key] == min(costs)


def of_baseline(known: Known, baseline: str, found: re.Match[str]) -> None:
    assert found[1] == baseline


def not_drawn(known: Known, baseline: str, found: re.Match[str]) -> None:
    names = re.findall(r"[Ff]igure `(\w+)`: ", found[0])
    assert names
    assert not known.figures & {*names}


def unlike(known: Known, baseline: str, found: re.Match[str]) -> None:
    assert {*re.findall(r"`([^`]+)`", found[1])} == {*known.pools}
    assert len(known.pools) > 1


def always(known: Known, baseline: str, found: re.Match[str]) -> None:
    """Sentences without a number of the data."""


def holes(known: Known, baseline: str, found: re.Match[str]) -> None:
    missing = sum(n % 91 == 3 for n in range(640))
    assert (int(found[1]), int(found[2])) == (missing, 640)


POINTS = rf"{NUMBER}{RANGE} points"
SENTENCES: tuple[tuple[str, Callable[[Known, str, re.Match[str]], None]], ...] = (
    (rf"`([^`]+)` (?:has the best accuracy|shares the best accuracy with [^%]*?), {PERCENT}{CORRECTED}(.*)", best),
    (r"These questions, other samples, accuracy: (.*)", other_samples),
    (rf"From `([^`]+)`, accuracy {PERCENT}, to `([^`]+)`, accuracy {PERCENT}: {POINTS}, for {NUMBER} (.*)instead of "
     rf"{NUMBER}\.", gain),
    (r"No cheaper policy is shown to be within 1 point of `([^`]+)`\.", of_baseline),
    (r"By estimates alone no cheaper policy is within .* either: .*", always),
    (rf"By estimates alone the cheapest is `([^`]+)`, {POINTS}, for {NUMBER} (.*)instead of {NUMBER} "
     rf"\({NUMBER} % less\), which is not shown; .*", estimated),
    (rf"The cheapest that is shown to be within 1 point of `([^`]+)` is `([^`]+)`: {NUMBER} points, at least "
     rf"{NUMBER}.*", shown_cheapest),
    (r"`([^`]+)` has the fewest ([\w ]+): no policy is cheaper\.", cheapest),
    (r"Shown: lower limits of differences, .*", always),
    (rf"With 80 % power these 80 examples show differences .*?from {NUMBER} points? .*", power),
    (rf"`([^`]+)` pays for {NUMBER} of {NUMBER} traces: accuracy {PERCENT}, {POINTS} against `([^`]+)`\.", stops),
    (r"\d+ more polic(?:y that stops|ies that stop): see the table\.", always),
    (rf"`([^`]+)`, which sees gold, has accuracy {PERCENT}.*: .*", oracle),
    (r"Of the way in accuracy from `([^`]+)` to `([^`]+)` \([^)]*\): (.*)", headroom),
    (rf"`([^`]+)` lacks {NUMBER}{RANGE} points of accuracy to 100: {NUMBER}{RANGE} in selection \([^)]*\), {NUMBER}"
     rf"{RANGE} in stopping \([^)]*\), {NUMBER}{RANGE} in generation \([^)]*\)\. (.*)", gap),
    (r"A right trace of the examples compared scores above a wrong one with probability: (.*)", area),
    (rf"`([^`]+)`, the best of \d+ thresholds, acts on {NUMBER} %, fixes {PERCENT} and flips {PERCENT} of what "
     rf"`([^`]+)` answers: accuracy {PERCENT}{CORRECTED}\.", acts),
    (r"(\d+) of (\d+) answers of pool `[^`]+`, which `[^`]+` did not score: skipped .*", holes),
    (r"The log contradicts none of the assumptions .*", always),
    (r"Figure `.*", not_drawn),
    (r"The cost counts (.*), and tokens of unlike models .*", unlike),
    (r"The cost counts operations, and those of (.*) need not .*", unlike),
)  # fmt: skip


def checked(sentence: str, known: Known, baseline: str) -> None:
    for pattern, check in SENTENCES:
        if found := re.fullmatch(pattern, sentence):
            check(known, baseline, found)
            return
    pytest.fail(f"no pattern knows this sentence: {sentence}")


def pools_of(name: str) -> dict[str, list[int]]:
    """The samples of each pool of a job; that without a name is the only one."""
    if name == "j10":
        return {"large": [0], "small": [1]}
    if name in ("j12", "j16"):
        return {"small": [0], "big": [1]}
    if name == "j20":
        return {f"budget={budget}": [2 * n, 2 * n + 1] for n, budget in enumerate((512, 2048, 8192))}
    return {"": list(range(5 if name == "j14" else 8))}


def sentences(printed: str) -> list[str]:
    return [line[2:] for line in printed[printed.index("Replayed: ") :].splitlines() if line.startswith("- ")]


def hold(job: Callable[[Path], Made], printed: str, table: pl.DataFrame, figures: set[str]) -> int:
    """Check all sentences of a printed report; how many there are."""
    policies, of, baseline = re.findall(
        r"Replayed: (\d+) policies .* on (\d+) examples .*baseline is `([^`]+)`", printed
    )[0]
    assert (int(policies), int(of)) == (table.height, N)
    known = Known(job, pools_of(job.__name__), table, figures)
    found = sentences(printed)
    for one in found:
        checked(one, known, baseline)
    return len(found)


@pytest.mark.parametrize(
    "job", [pytest.param(job, marks=[] if job.__name__ in QUICK else pytest.mark.slow, id=job.__name__) for job in JOBS]
)
def test_every_finding_is_true(thinkback: Callable, tmp_path: Path, job: Callable[[Path], Made]) -> None:
    sources, expected = job(tmp_path)
    settings = [word for one in expected.settings for word in ("--set", one)]
    done = thinkback("report", *sources, *settings, "--out", "page", "--width", "3.3in")
    assert done.exit_code == 0, done.stderr
    figures = {path.stem for path in (tmp_path / "page" / "figures").iterdir()}
    assert hold(job, done.stdout, pl.read_csv(tmp_path / "page" / "tables" / "policies.csv"), figures) >= 5


def test_a_sentence_that_is_wrong_fails() -> None:
    """The patterns can fail: a wrong accuracy, a wrong difference, and a sentence that none knows."""
    rows = {"policy": ["one sample (mean)", "majority@8"], "accuracy": [0.541, TRUTH.voted(8)], "place": [2, 1]}
    known = Known(JOBS[1], {"": list(range(8))}, pl.DataFrame(rows), {"frontier"})
    value = f"{100 * TRUTH.voted(8):.1f} %"
    right = f"`majority@8` pays for 8.0 of 8 traces: accuracy {value}, 0.0 points against `majority@8`."
    checked(right, known, "majority@8")
    for sentence in (
        right.replace("0.0 points", "+2.0 points"),
        right.replace("accuracy ", "accuracy 1"),
        "All is well.",
        "Figure `frontier`: none here.",
        "All are within 1 point of `one sample (mean)`.",
    ):
        with pytest.raises((AssertionError, pytest.fail.Exception)):
            checked(sentence, known, "majority@8")
