"""What an import read, so that a wrong reading is seen: the share that is right, wrong answers beside their gold, and,
where nearly nothing is right or readable, another way to read that would make it so.

Each data set in each pool is looked at apart, for one that is misread is hidden by the others. Another way to read, a
cure, is tried on a sample, and proposed only where it makes many of the tried answers right. The last number of a text
is an answer only where the gold is a number, and no gold is its last number: a program or a sentence has one by chance.
"""

from __future__ import annotations

import itertools
import json
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

import polars as pl

from toolkit.answers import judge, normalise, number_form, read_answers
from toolkit.answers.values import same_values
from toolkit.errors import counted
from toolkit.imports.map.mapping import AnswerRules, ImportMapping
from toolkit.log import Log, collect, open_log
from toolkit.notes import Note, note, warning

_GAIN = 1 / 3
"""The least share of the tried traces that a cure must make right, or readable."""
_SEVERAL = 3
"""The fewest wrong answers of a log not doubted that another kind of answer must make right."""
_NUMBERS = 0.9
"""The least share of golds that are numbers for which the last number of a text counts as an answer."""
_KINDS = ("number", "choice", "exact", "text")
_GOLD_WAYS = ("####", "boxed", "answer is", "last line")
_MARKS = ("####", "boxed", "answer is")
_WAYS = (*_MARKS, "last number", "last line")
"""The ways to read answers. A way without a mark reads something from any text, so its success proves nothing."""
_TOGETHER = ((*_MARKS, "last line"), (*_MARKS, "last number"))
"""Ways for texts of several shapes."""
Reading = tuple[str, tuple[str, ...]]
"""The column that is read, and the ways to, of which the first that reads anything counts; none where it is read."""


@dataclass(frozen=True)
class _SettingsCure:
    """A change of settings that would help: with the options `settings`, `helped` of the `tried` traces are right, or
    readable.

    `harms`: whether they would make others wrong. `elsewhere`: whether other traces need other options. `reach`: how
    many it would make right, and of how many tried, of all that is doubted.
    """

    settings: str
    helped: int
    tried: int
    reads: bool = False
    harms: bool = False
    elsewhere: bool = False
    change: _AnswerReading | None = None
    reach: tuple[int, int] | None = None

    def __str__(self) -> str:
        share = f"{self.helped:,} of {self.tried:,} tried"
        text = f"`{self.settings}` would {f'read {share}' if self.reads else f'make {share} right'}"
        if self.reach is not None:
            text += f" ({self.reach[0]:,} of {self.reach[1]:,} tried of all doubtful ones)"
        if self.harms:
            return f"{text}; it would make others wrong, so import these apart"
        return f"{text}; others need another setting, so import these apart" if self.elsewhere else text


@dataclass(frozen=True)
class _AnswerReading:
    """A way of reading answers that is tried: the kind of answer, and the ways to read answers and gold."""

    kind: str
    reading: Reading
    gold_way: str | None
    pattern: str | None = None


@dataclass(frozen=True)
class _TrialSample:
    """A sample of traces with `answer`, `text` and `gold`, on which changes of the rules are tried."""

    sample: pl.DataFrame
    rules: AnswerRules
    forms: dict[object, pl.Series] = field(default_factory=dict)

    def count_right(self, change: _AnswerReading) -> int:
        """The number of traces whose answer equals gold under a change of the rules."""
        answers = self._forms_read(*change.reading, change.kind, change.pattern)
        return int(judge(answers, self._read_gold(change), self.rules.judge).fill_null(False).sum())

    def reads_by_chance(self, change: _AnswerReading) -> bool:
        """Whether a change reads the last numbers of texts where gold is none."""
        gold = self._read_gold(change).drop_nulls().to_list()
        few = sum(_is_number(text) for text in gold) < _NUMBERS * max(len(gold), 1)
        return few and change.reading[1][-1:] == ("last number",)

    def equals_gold(self, kind: str) -> pl.Series:
        """Whether each answer, as it stands, equals its gold in the normal form of a kind."""
        answers, gold = self.sample["answer"], self.sample["gold"]
        same = (self._normal_forms(answers, kind) == self._normal_forms(gold, kind)).fill_null(False)
        if kind != "text":
            return same
        pairs = zip(answers, gold, strict=True)
        numbers = [_is_number(one or "") or _is_number(other or "") for one, other in pairs]
        return same & ~pl.Series(numbers, dtype=pl.Boolean)

    def _read_gold(self, change: _AnswerReading) -> pl.Series:
        return self._forms_read("gold", (change.gold_way,) if change.gold_way else (), change.kind)

    def _forms_read(self, column: str, ways: tuple[str, ...], kind: str, pattern: str | None = None) -> pl.Series:
        if (key := (column, ways, kind, pattern)) not in self.forms:
            self.forms[key] = self._normal_forms(self.read(column, ways, pattern), kind)
        return self.forms[key]

    def _normal_forms(self, texts: pl.Series, kind: str) -> pl.Series:
        return normalise(texts, kind, self.rules.labels, self.rules.aliases)

    def read(self, column: str, ways: tuple[str, ...], pattern: str | None = None) -> pl.Series:
        """A column of texts read in these ways; unchanged without any."""
        return read_answers(self.sample[column], ways, pattern) if ways else self.sample[column]

    def mark_before_gold(self, column: str) -> str | None:
        """The text most often found just before gold, where most texts of a column contain their gold; else None."""
        before = []
        for text, gold in zip(self.sample[column], self.sample["gold"], strict=True):
            inside = list(re.finditer(rf"(?<!\w){re.escape(gold)}(?!\w)", text)) if text and gold else []
            before += [lines[-1] for one in inside[-1:] if (lines := text[: one.start()].rstrip().splitlines())]
        least = max(_SEVERAL, len(before) / 2)
        for length in range(_LONGEST_MARK, _SHORTEST_MARK - 1, -1):
            whole = (line for line in before if re.search(rf"(?:^|\W|(?=\W)).{{{length}}}$", line))  # no half word
            mark, count = next(iter(Counter(line[-length:] for line in whole).most_common(1)), ("", 0))
            if count >= least and re.search(r"[A-Za-z]", mark):
                return mark.strip()
        return None


def _likely_cure(
    sample: pl.DataFrame, others: pl.DataFrame, mapping: ImportMapping, rejudges: bool
) -> _SettingsCure | None:
    """The smallest change of the rules that makes most answers of a sample right, else readable; None without one.

    `others` are traces that are read well: a cure that makes these wrong is for the sample's files alone. `rejudges`:
    whether it may replace the source's verdicts.
    """
    rules = mapping.answers
    if not sample.height or rules.kind == "label" or rules.judge == "source":
        return None
    tried, rest, height = _TrialSample(sample, rules), _TrialSample(others, rules), sample.height
    changes = (
        [
            candidate_change
            for candidate_change in _candidate_changes(mapping, tried)
            if not tried.reads_by_chance(candidate_change)
        ]
        if rejudges
        else []
    )
    right = {place: tried.count_right(change) for place, change in enumerate(changes)}
    best = max(right, key=lambda place: right[place], default=None)
    if best is not None and right[best] > _GAIN * height:
        change, harm = changes[best], rest.count_right(changes[best]) < rest.count_right(changes[0])
        return _SettingsCure(_command_options(mapping, change), right[best], height, harms=harm, change=change)
    column = _answer_columns(mapping)[-1]
    ways = _WAYS if sample["gold"].null_count() == height else _MARKS
    readable = {way: tried.read(column, (way,)).count() for way in ways}
    way = max(readable, key=lambda one: readable[one])
    if sample["answer"].null_count() == height and readable[way] > _GAIN * height:
        settings = _command_options(mapping, _AnswerReading(rules.kind, (column, (way,)), None), rejudges)
        return _SettingsCure(settings, readable[way], height, reads=True)
    return None


def _likely_answer_kind(sample: pl.DataFrame, others: pl.DataFrame, mapping: ImportMapping) -> _SettingsCure | None:
    """The kind of answer in whose normal form several wrong answers of a sample equal their gold; None without one.

    `others` are traces that are right: a kind by which these are wrong is for the sample's files alone.
    """
    rules = mapping.answers
    if not sample.height or rules.kind == "label" or rules.judge == "source":
        return None
    tried, rest = _TrialSample(sample, rules), _TrialSample(others, rules)
    known = tried.equals_gold(rules.kind)
    helped = {kind: int((tried.equals_gold(kind) & ~known).sum()) for kind in _KINDS if kind != rules.kind}
    best = max(helped, key=lambda kind: helped[kind])
    if helped[best] < _SEVERAL:
        return None
    now, change = (_AnswerReading(kind, ("answer", ()), None) for kind in (rules.kind, best))
    # The log has the forms alone: what numbers looked like, and whether another kind takes them for equal, is unknown.
    numbers = rules.kind == "number" and any(map(_is_number, others["gold"].drop_nulls()))
    harm = numbers or rest.count_right(change) < rest.count_right(now)
    return _SettingsCure(_command_options(mapping, change), helped[best], sample.height, harms=harm)


def _text_setting(mapping: ImportMapping) -> str | None:
    """The setting that reads answers from the text instead of the mapped column; None without such a text."""
    alone = mapping.traces[0].columns if len(mapping.traces) == 1 else {}
    return f"traces.answer={alone['text']}" if "answer" in alone and "text" in alone else None


def _candidate_changes(mapping: ImportMapping, tried: _TrialSample) -> Iterator[_AnswerReading]:
    """Yields the unchanged rules, then changes to try, the smallest first; the last read behind a mark in the texts."""
    columns, kinds = _answer_columns(mapping), dict.fromkeys((mapping.answers.kind, *_KINDS))
    readings: list[Reading] = [("answer", ()), *itertools.product(columns, [(way,) for way in _WAYS])]
    for kind, reading, gold_way in itertools.product(kinds, readings, (None, *_GOLD_WAYS)):
        yield _AnswerReading(kind, reading, gold_way)
    for kind, reading in itertools.product(kinds, itertools.product(columns, _TOGETHER)):
        yield _AnswerReading(kind, reading, None)
    if mark := tried.mark_before_gold(columns[-1]):
        pattern = re.escape(mark).replace("\\ ", " ") + r"\s*([^\n]+)"
        for ways in (("pattern",), ("boxed", "pattern")):
            yield _AnswerReading(mapping.answers.kind, (columns[-1], ways), None, pattern)


def _answer_columns(mapping: ImportMapping) -> list[str]:
    """The columns that answers may be read from: the mapped answers and, if a setting can name it, the text."""
    if not any("answer" in table.columns for table in mapping.traces):
        return ["text"]
    return ["answer", "text"] if _text_setting(mapping) else ["answer"]


@cache
def _is_number(text: str) -> bool:
    return number_form(text) is not None


def _command_options(mapping: ImportMapping, change: _AnswerReading, rejudges: bool = True) -> str:
    """The options that a user adds to the command to make a change."""
    column, ways = change.reading
    text = _text_setting(mapping)
    changed = [
        *([f"answers.kind={change.kind}"] if change.kind != mapping.answers.kind else []),
        *([text] if text and column == "text" else []),
        *([f"answers.read={json.dumps(ways, ensure_ascii=False)}"] if ways else []),
        *([f"answers.pattern={change.pattern}"] if change.pattern else []),
        *([f'answers.read_gold=["{change.gold_way}"]'] if change.gold_way else []),
    ]
    options = [f"--set {shlex.quote(one)}" if "'" in one else f"--set '{one}'" for one in changed]
    options += ["--rejudge"] if rejudges and _has_verdicts(mapping) else []
    return " ".join(options)


def _has_verdicts(mapping: ImportMapping) -> bool:
    return any("correct" in table.columns for table in mapping.traces)


def _may_rejudge(mapping: ImportMapping, counts: _ReadCounts) -> bool:
    """Whether computed verdicts may replace the source's: not where these tell right answers from wrong ones."""
    return not _has_verdicts(mapping) or not 0 < counts.right < counts.judged


NEARLY_NOTHING = 0.02
"""The largest share of right, or of readable, answers at which a reading is doubted."""
_LEAST = 5
"""The least number of judged traces at which one data set in one pool is doubted by itself."""
_NAMED, _LOOKED_AT = 3, 12
"""The most doubted data sets that a note names, and the most for which cures are tried."""
_NEARLY_ALL = 0.9
"""The share of tried traces from which on one cure is proposed for all of them."""
_MOST, _LONGEST = 3, 60
_SHORTEST_MARK, _LONGEST_MARK = 4, 40
_TRIED, _EACH = 200, 4
"""Traces on which a cure is tried, and how many of them may be of one example."""
_COLUMNS = ("example_id", "pool", "trace_id", "answer", "text", "correct", "opaque")
_COUNTS = ("traces", "judged", "right", "unread")
_PLAIN = ~pl.col("opaque").fill_null(False)


@dataclass(frozen=True)
class _WrongAnswer:
    """A wrong answer beside its gold. `answer` is null where none was read; `text` is then where none was found."""

    example_id: str
    answer: str | None
    gold: str | None
    text: str | None


@dataclass(frozen=True)
class _ReadCounts:
    """The numbers of traces, of judged traces, of right ones, and of those without a readable answer."""

    traces: int
    judged: int
    right: int
    unread: int

    @property
    def unreadable(self) -> bool:
        """Whether nearly no answer is readable."""
        return self.traces > 0 and self.traces - self.unread <= NEARLY_NOTHING * self.traces

    @property
    def doubtful(self) -> bool:
        """Whether almost no answer is right, or almost none could be read."""
        return self.unreadable or (self.judged > 0 and self.right <= NEARLY_NOTHING * self.judged)


@dataclass(frozen=True)
class _DoubtfulGroup:
    """A group of traces of which almost none is right or readable, with a likely cure. `places`: the group's data sets
    and pools; empty for all traces.
    """

    counts: _ReadCounts
    places: tuple[tuple[str, str], ...]
    cure: _SettingsCure | None

    @property
    def group_text(self) -> str:
        names = [f"`{_shorten(dataset)}` in pool `{_shorten(pool)}`" for dataset, pool in self.places]
        if len(names) < 2:
            return f" of {names[0]}" if names else ""
        more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
        return f" of {len(names):,} data sets in pools ({', '.join(names[:_NAMED])}{more})"

    @property
    def group_condition(self) -> pl.Expr:
        each = [(pl.col("dataset") == dataset) & (pl.col("pool") == pool) for dataset, pool in self.places]
        return pl.any_horizontal(each) if each else pl.lit(True)


@dataclass(frozen=True)
class ValuePairs:
    """Wrong answers that equal their gold but for a unit, a base or per cent: how many, and the first of them."""

    count: int = 0
    answer: str = ""
    gold: str = ""


@dataclass(frozen=True)
class Readings(_ReadCounts):
    """What an import read from all traces: some wrong answers, and doubts; `unnamed` counts further doubtful groups.

    `only_source`: no answer is judged by comparing. `idle`: what to do, where `answers.read` changed no answer. `form`:
    what would make several wrong answers their gold, of those that are not doubted.
    """

    wrong: tuple[_WrongAnswer, ...]
    doubts: tuple[_DoubtfulGroup, ...]
    unnamed: int
    only_source: bool
    idle: str | None
    form: _SettingsCure | None = None
    values: ValuePairs = ValuePairs()

    @property
    def cure(self) -> _SettingsCure | None:
        """The cure of the first doubt."""
        return self.doubts[0].cure if self.doubts else None

    def notes(self) -> Iterator[Note]:
        """Yields notes for people: the share right, some wrong answers, and warnings about doubts."""
        if self.judged:
            share = f"{self.right / self.judged:.1%}".replace("%", " %")
            yield note("right", f"right: {self.right:,} of {counted(self.judged, 'judged trace')} ({share})")
        for one in self.wrong:
            read = f"`{_shorten(one.answer)}`" if one.answer is not None else f"none in `{_text_end(one.text)}`"
            whose = ", by the source's verdict" if one.answer is not None and one.answer == one.gold else ""
            yield note("wrong", f"wrong: {_shorten(one.example_id)}: answer {read}, gold `{_shorten(one.gold)}`{whose}")
        for doubt in self.doubts:
            yield warning("doubtful_reading", f"{_doubt_text(doubt)}: {doubt.cure or self._advice}")
        if self.unnamed:
            more = counted(self.unnamed, "further data set")
            yield warning("doubtful_reading", f"answers are as doubtful in {more} in a pool")
        if self.form:
            yield warning("other_form", f"some answers judged wrong are the gold in another form: {self.form}")
        if self.values.count:
            differ = "answer judged wrong differs" if self.values.count == 1 else "answers judged wrong differ"
            yield note(
                "form_alone",
                f"{self.values.count:,} {differ} from gold in form alone (a unit, a base or percent), as "
                f"`{_shorten(self.values.answer)}` from `{_shorten(self.values.gold)}`: judges such as math-verify "
                "take them, and so does `--set answers.judge=form`",
            )
        if self.idle:
            what = "`answers.read` changes no answer: it reads the mapped answer"
            yield warning("idle_reading", f"{what}; to read the text instead: {self.idle}")

    @property
    def _advice(self) -> str:
        if self.only_source:
            return "these are the source's own verdicts: see whether `traces.correct` is what it should be"
        return "see whether `answers.kind`, `answers.read` and the gold column are what they should be"


def _doubt_text(doubt: _DoubtfulGroup) -> str:
    counts = doubt.counts
    if counts.unreadable:
        readable = counts.traces - counts.unread
        has = "has" if 1 in (readable, counts.traces) else "have"
        return f"only {readable:,} of {counted(counts.traces, 'trace')}{doubt.group_text} {has} a readable answer"
    are = "is" if 1 in (counts.right, counts.judged) else "are"
    return f"only {counts.right:,} of {counted(counts.judged, 'judged trace')}{doubt.group_text} {are} right"


def check_readings(log: Path, mapping: ImportMapping, reread: int = 0) -> Readings:
    """Checks what an import read, in the log it wrote. `reread`: the number of answers that `answers.read` changed."""
    opened = open_log(log)
    datasets = collect(opened.scan("examples", ["example_id", "dataset", "gold"]), opened)
    traces = opened.scan("traces", _COLUMNS)
    if datasets["dataset"].n_unique() > 1:
        named = datasets.lazy().select("example_id", "dataset")
        traces = traces.join(named, on="example_id", how="left")
    else:
        traces = traces.with_columns(dataset=pl.lit(datasets["dataset"].first(), pl.String))
    sampled = _TraceSample(opened, traces, datasets.select("example_id", "gold"))
    groups = sampled.counts()
    every = _ReadCounts(*(int(groups[name].sum()) for name in _COUNTS))
    doubts, looked_at = list(_doubtful_groups(groups)), list[_DoubtfulGroup]()
    if every.doubtful or doubts:
        together = not doubts or (every.doubtful and _may_rejudge(mapping, every))
        whole = _with_cure(sampled, _DoubtfulGroup(every, (), None) if together else _joined_doubt(doubts), mapping)
        looked_at = _separate_doubts(sampled, doubts, mapping, whole) if len(doubts) > 1 else []
        doubts, looked_at = (doubts, looked_at) if looked_at else ([whole], [whole])
    cures = [_with_reach_of_cure(sampled, doubt, doubts, mapping) for doubt in _join_equal_cures(looked_at)[:_NAMED]]
    meant = pl.any_horizontal([doubt.group_condition for doubt in doubts]) if doubts else pl.lit(True)
    compares = mapping.answers.judge == "equal" and not _has_verdicts(mapping)
    text = _text_setting(mapping) if mapping.answers.read and not reread else None
    return Readings(
        **vars(every),
        wrong=sampled.wrong_answers(meant),
        doubts=tuple(cures),
        unnamed=sum(sign * max(len(one.places), 1) for sign, many in ((1, doubts), (-1, cures)) for one in many),
        only_source=mapping.answers.judge == "source",
        idle=f"`--set '{text}'`" if text else None,
        form=_form_cure(sampled, meant if doubts else pl.lit(False), mapping) if _may_rejudge(mapping, every) else None,
        values=sampled.value_pairs() if compares else ValuePairs(),
    )


def _doubtful_groups(groups: pl.DataFrame) -> Iterator[_DoubtfulGroup]:
    """Yields a doubt for each pool of a data set that is doubtful, the largest first."""
    for row in groups.sort("traces", "dataset", "pool", descending=[True, False, False]).iter_rows(named=True):
        counts = _ReadCounts(*(row[name] for name in _COUNTS))
        if counts.doubtful and (counts.judged >= _LEAST or (counts.unreadable and counts.traces >= _LEAST)):
            yield _DoubtfulGroup(counts, ((row["dataset"], row["pool"]),), None)


def _separate_doubts(
    sampled: _TraceSample, doubts: Sequence[_DoubtfulGroup], mapping: ImportMapping, whole: _DoubtfulGroup
) -> list[_DoubtfulGroup]:
    """The doubts, each with a cure: that of the `whole` where it helps nearly as many. Empty where it always does, or
    where all traces are doubted and none helps any.
    """
    cured, shared, common, all_doubted = list[_DoubtfulGroup](), 0, whole.cure, not whole.places
    for doubt in (_with_cure(sampled, one, mapping) for one in doubts[:_LOOKED_AT]):
        cure = doubt.cure
        if cure is not None and common is not None and common.change is not None:
            helped = _TrialSample(sampled.doubted_sample(doubt), mapping.answers).count_right(common.change)
            if helped >= _NEARLY_ALL * cure.helped:
                cure, shared = replace(common, helped=helped, tried=cure.tried), shared + 1
        cured.append(replace(doubt, cure=cure and replace(cure, elsewhere=all_doubted)))
    if shared == len(cured) or (all_doubted and not any(doubt.cure for doubt in cured)):
        return []
    return sorted(cured, key=lambda doubt: doubt.cure is None) if all_doubted else cured


def _join_equal_cures(doubts: Sequence[_DoubtfulGroup]) -> list[_DoubtfulGroup]:
    by_cure: dict[object, list[_DoubtfulGroup]] = {}
    for number, doubt in enumerate(doubts):
        by_cure.setdefault(doubt.cure.settings if doubt.cure is not None else number, []).append(doubt)
    return [_joined_doubt(same) for same in by_cure.values()]


def _joined_doubt(doubts: Sequence[_DoubtfulGroup]) -> _DoubtfulGroup:
    """Doubts with one cure, or none, as one."""
    counts = _ReadCounts(*(sum(getattr(one.counts, name) for one in doubts) for name in _COUNTS))
    cures = [doubt.cure for doubt in doubts if doubt.cure is not None]
    sums = {name: sum(getattr(one, name) for one in cures) for name in ("helped", "tried")}
    cure = replace(cures[0], harms=any(one.harms for one in cures), **sums) if cures else None
    return _DoubtfulGroup(counts, tuple(place for one in doubts for place in one.places), cure)


def _with_reach_of_cure(
    sampled: _TraceSample, doubt: _DoubtfulGroup, every: Sequence[_DoubtfulGroup], mapping: ImportMapping
) -> _DoubtfulGroup:
    """The doubt with the `reach` of its cure filled in, which is needed where there are several doubts."""
    if doubt.cure is None or doubt.cure.change is None or len(every) <= max(len(doubt.places), 1):
        return doubt
    sample = sampled.doubted_sample(*every)
    reach = _TrialSample(sample, mapping.answers).count_right(doubt.cure.change), sample.height
    return replace(doubt, cure=replace(doubt.cure, reach=reach))


def _with_cure(sampled: _TraceSample, doubt: _DoubtfulGroup, mapping: ImportMapping) -> _DoubtfulGroup:
    """The doubt with the cure that is most likely to help."""
    sample = sampled.doubted_sample(doubt)
    others = sampled.spread_sample(~doubt.group_condition & _PLAIN & pl.col("correct"), _TRIED, 1)
    return replace(doubt, cure=_likely_cure(sample, others, mapping, _may_rejudge(mapping, doubt.counts)))


def _form_cure(sampled: _TraceSample, doubted: pl.Expr, mapping: ImportMapping) -> _SettingsCure | None:
    """The cure that would make wrong answers equal to gold among the traces that are not doubted; None without one."""
    answered = ~doubted & _PLAIN & pl.col("answer").is_not_null()
    sample = sampled.spread_sample(answered & ~pl.col("correct").fill_null(True), _TRIED, _EACH)
    others = sampled.spread_sample(answered & pl.col("correct"), _TRIED, 1)
    return _likely_answer_kind(sample, others, mapping)


@dataclass(frozen=True)
class _TraceSample:
    """A sample of a log's traces, each with its `dataset`. Memory does not grow with the log."""

    log: Log
    traces: pl.LazyFrame
    gold: pl.DataFrame

    def counts(self) -> pl.DataFrame:
        correct, unread = pl.col("correct"), pl.col("answer").is_null()
        grouped = self.traces.group_by("dataset", "pool").agg(
            traces=pl.len(), judged=correct.count(), right=correct.sum(), unread=(unread & _PLAIN).sum()
        )
        return collect(grouped, self.log)

    def value_pairs(self) -> ValuePairs:
        """The wrong answers that equal their gold as another form of the number."""
        wrong = _PLAIN & ~pl.col("correct").fill_null(True) & pl.col("answer").is_not_null()
        rows = self.traces.filter(wrong).select("example_id", "answer").join(self.gold.lazy(), on="example_id")
        pairs = collect(rows.group_by("answer", "gold").len(), self.log).sort("answer", "gold")
        alike = pairs.filter(same_values(pairs["answer"], pairs["gold"]))
        first = alike.row(0, named=True) if alike.height else {"answer": "", "gold": ""}
        return ValuePairs(int(alike["len"].sum()), first["answer"], first["gold"])

    def wrong_answers(self, meant: pl.Expr) -> tuple[_WrongAnswer, ...]:
        """Some wrong answers among the traces `meant`, and then some traces without a readable answer."""
        missed, unread = meant & _PLAIN & ~pl.col("correct").fill_null(True), pl.col("answer").is_null()
        rows = [*self.spread_sample(missed & ~unread, _MOST, 1).iter_rows(named=True)]
        if len(rows) < _MOST:
            rows += self.spread_sample(missed & unread, _MOST, 1).iter_rows(named=True)
        names = ("example_id", "answer", "gold", "text")
        return tuple(_WrongAnswer(*(row[name] for name in names)) for row in rows[:_MOST])

    def doubted_sample(self, *doubts: _DoubtfulGroup) -> pl.DataFrame:
        """Traces of doubtful groups that are not right, from examples all over the log."""
        meant = pl.any_horizontal([doubt.group_condition for doubt in doubts])
        return self.spread_sample(meant & _PLAIN & ~pl.col("correct").fill_null(False), _TRIED, _EACH)

    def spread_sample(self, condition: pl.Expr, most: int, per_example: int) -> pl.DataFrame:
        """Up to `most` traces that meet a condition, from examples all over the log, at most `per_example` of each."""
        ids = collect(self.traces.filter(condition).select("example_id").unique(), self.log).to_series().sort()
        count = min(len(ids), most)
        chosen = ids.gather([place * len(ids) // count for place in range(count)])
        of_these = condition & pl.col("example_id").is_in(chosen.implode())
        slots = collect(self.traces.filter(of_these).select("example_id", "trace_id"), self.log)
        few = max(1, min(per_example, most // max(count, 1)))
        trace_ids = slots.sort("trace_id").group_by("example_id").head(few)["trace_id"]
        rows = collect(self.traces.filter(pl.col("trace_id").is_in(trace_ids.implode())), self.log)
        return rows.join(self.gold, on="example_id", how="left").sort("example_id", "trace_id")


def _shorten(text: str | None) -> str:
    if text is None:
        return "(none)"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2]}…{text[-_LONGEST // 2 :]}"


def _text_end(text: str | None) -> str:
    return "(no text)" if not text else text if len(text) <= _LONGEST else f"…{text[-_LONGEST:]}"
