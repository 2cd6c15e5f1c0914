"""Saved results as one page for a browser, drawn from the results alone, with files of their texts beside it.

It shows what each policy answered on the examples, and the traces in order where the result holds them. Of many
examples some are drawn by stratum: the group of `by`, and whether all, some or none of the policies are right. Texts
are apart, so that the page can load those of one example at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from replay.runs.page.dashboard_data import Json, json_number, json_numbers, ranked_names, result_data
from replay.runs.page.first_table import split_for_first_table
from replay.runs.page.outcome_codes import has_outcome_codes, outcome_codes, quality_for_correctness
from replay.runs.page.result_pair import changed_examples, pair_data
from replay.runs.page.row_pictures import row_pictures
from replay.runs.saved.display import ON_PAGE
from replay.runs.saved.findings import OUTCOMES, Findings
from replay.runs.saved.paid_traces import ORDERS, SCORES, STOPS, TRACES
from replay.runs.saved.saved_folder import SavedFolder
from replay.runs.saved.saved_rows import row_files
from toolkit.columns import OutcomeColumn
from toolkit.errors import ConflictError, InvalidError, LimitError, UnsuitableError, argument
from toolkit.files import check_replaceable, replacing, replacing_file
from toolkit.log import collect
from toolkit.printable import printable
from toolkit.show.dashboard.page import (
    PageData,
    compressed_json,
    dashboard_page,
    import_altair,
    markup_size,
    script_json,
    texts_file,
    vega_script,
)

LARGEST = 1_950_000
"""The most bytes of a page without its texts."""
CODED = 600_000
"""The most bytes that packed outcomes of all results of a page may add up to."""
MOST_ANSWERS = 3
"""The most answers that the page names of a mean over several orders."""


@dataclass(frozen=True, eq=False)
class _PageResult:
    """A result on the page: the policies as they are ranked, its packed outcomes, empty where the page has not all of
    them, what the page reads first, and the packed rest.
    """

    findings: Findings
    folder: SavedFolder
    names: list[str]
    outcomes: str
    first: Json
    rest: str

    @classmethod
    def of_results(
        cls, results: Sequence[Findings], folders: Sequence[SavedFolder], names: Sequence[str]
    ) -> list[_PageResult]:
        """Some results by their names on the page, without outcomes where those of all have no room together."""
        policies = [ranked_names(result) for result in results]
        outcomes = [
            compressed_json(outcome_codes(*of)) if has_outcome_codes(*of[:2]) else ""
            for of in zip(results, folders, policies, strict=True)
        ]
        if sum(map(len, outcomes)) > CODED:
            room, outcomes = [not one for one in outcomes], [""] * len(outcomes)
        else:
            room = [True] * len(outcomes)
        page_results = []
        for result, folder, name, mine, coded, there in zip(
            results, folders, names, policies, outcomes, room, strict=True
        ):
            first, rest = split_for_first_table(result_data(result, folder, name, bool(coded), there))
            page_results.append(cls(result, folder, mine, coded, first, compressed_json(rest)))
        return page_results

    @property
    def size(self) -> int:
        return len(script_json(self.first)) + len(self.rest) + len(self.outcomes)


def write_dashboard(
    results: Sequence[Findings], out: str | Path, *, against: Findings | None = None, texts: bool = True,
    examples: int = ON_PAGE, force: bool = False,
) -> list[Path]:  # fmt: skip
    """Write the page of some loaded results, with a folder of their texts beside it where they hold any.

    `against`: a result with which the only one of `results` is compared, example by example. Of each at most so many
    `examples` are shown, fewer where the page would grow beyond two megabytes. The paths are given back. Raises
    ThinkbackError where something is in the way, what draws charts is not installed, or results that are compared have
    no example in common.
    """
    if against is not None and len(results) != 1:
        raise ConflictError(f"{argument('against')} compares two results: name one beside it, not {len(results)}")
    results = [*results, *([] if against is None else [against])]
    import_altair()
    page = Path(out)
    if page.suffix.lower() not in (".html", ".htm"):
        raise InvalidError(f"a dashboard is a page: name a file that ends in `.html`, not `{page.name}`")
    if examples < 1:
        raise InvalidError(f"{argument('examples')} is {examples}; it takes an integer, at least 1")
    folders = [_saved_folder(result) for result in results]
    beside = page.with_name(f"{page.stem}_texts")
    for path in (page, beside) if texts else (page,):
        check_replaceable(path, force, inputs=[folder.path for folder in folders])
    names = _result_names([folder.path for folder in folders])
    page_results = _PageResult.of_results(results, folders, names)
    pair = "" if against is None else compressed_json(_pair_data(*page_results))
    room = LARGEST - len(vega_script()) - markup_size() - sum(one.size for one in page_results) - len(pair)
    groups = [[one] for one in page_results] if against is None else [page_results]
    packed = [one for group in groups for one in _fitting_examples(group, examples, room // len(groups), texts)]
    several = any(page_examples.files for page_examples, _ in packed)
    html = dashboard_page(
        PageData(
            title=printable(" and ".join(dict.fromkeys(result.log_name for result in results))),
            results=[page_result.first for page_result in page_results],
            rest=[page_result.rest for page_result in page_results],
            outcomes=[page_result.outcomes for page_result in page_results],
            examples=[text for _, text in packed],
            pairs=[pair] if pair else [],
            texts=beside.name if several else None,
        )
    )
    with ExitStack() as held:
        held.enter_context(replacing_file(page, force)).write_text(html, encoding="utf-8")
        if several:
            written = held.enter_context(replacing(beside, force))
            for number, (page_examples, _) in enumerate(packed):
                for file, held_texts in page_examples.texts_by_file():
                    text = texts_file(number, file, held_texts)
                    (written / f"{number}-{file}.js").write_text(text, encoding="ascii")
    return [page, beside] if several else [page]


def _saved_folder(result: Findings) -> SavedFolder:
    if result.folder is None:
        raise UnsuitableError("a dashboard is drawn from a saved result: save it, and load what was saved")
    return result.folder


def _result_names(paths: Sequence[Path]) -> list[str]:
    """Names of results on the page: their folders, with as many parent folders as make them distinct."""
    for depth in range(1, 6):
        names = ["/".join(path.parts[-depth:]) for path in paths]
        if len(set(names)) == len(names):
            return names
    return [f"{path.name} ({number})" for number, path in enumerate(paths, 1)]


def _pair_data(one: _PageResult, other: _PageResult) -> Json:
    coded = bool(one.outcomes and other.outcomes)
    return pair_data((one.findings, other.findings), (one.folder, other.folder), (one.names, other.names), coded)


def _fitting_examples(
    results: Sequence[_PageResult], most: int, room: int, texts: bool
) -> list[tuple[_PageExamples, str]]:
    """The examples of each result that fit, all together, into so many bytes, and the same as packed JSON."""
    while True:
        examples = _examples_of_results(results, most, texts)
        packed = [compressed_json(one.data) for one in examples]
        count, size = max(len(one.ids) for one in examples), sum(map(len, packed))
        if size <= room:
            return list(zip(examples, packed, strict=True))
        if count <= FEWEST:
            raise LimitError(
                f"the page would grow {size - room:,} bytes beyond two megabytes: name fewer results, or replay "
                "fewer policies"
            )
        most = max(FEWEST, min(count * 9 // 10, count * room * 9 // 10 // size))


def _examples_of_results(results: Sequence[_PageResult], most: int, texts: bool) -> list[_PageExamples]:
    """The examples that the page shows of a result; of two that are compared the same of both."""
    most = min(_most_examples(one.findings, one.folder, len(one.names), most) for one in results)
    first, *others = results
    findings, folders = [one.findings for one in results], [one.folder for one in results]
    quality = quality_for_correctness(findings, folders)
    if not others:
        samples = [_drawn_examples(first.findings, first.folder, most)]
    else:
        ids, changed = changed_examples(findings, folders, "correct" if quality is None else quality.name)
        frame, strata = _drawn_examples(first.findings, first.folder, most, ids, changed)
        frames = [frame, *(_example_rows(one.findings, frame["example_id"]) for one in others)]
        alone = [len(one.findings.examples) - len(ids) for one in results]
        samples = [
            (rows, [*strata, *([("in this result alone", left, 0)] if left else [])])
            for rows, left in zip(frames, alone, strict=True)
        ]
    return [
        _page_examples(one.findings, one.folder, one.names, *rows, texts, quality)
        for one, rows in zip(results, samples, strict=True)
    ]


CELLS = 120_000
"""The most outcomes, and the most traces, that a page has room for."""
TEXTS = 150_000
"""The most bytes of texts in a file, unless one example alone has more."""
HELD = 30_000_000
"""The most bytes of texts read at once, unless one file alone has more."""
FEWEST = 20
"""How many examples are shown at least, however many policies there are."""
EXCERPT = 120
"""How many characters of a question, and of an answer, lists show."""
COSTS = ("total_tokens", "completion_tokens", "operations")
UNITS = ("traces", "rounds", "position")
"""What policies draw, read, or hear, of which the page has those that some policy has."""
ENDINGS = ("rule", "cap", "exhausted", "empty")


@dataclass(frozen=True, eq=False)
class _PageExamples:
    """The examples on a page. `data`: what it shows of them; `files`: of each example the file with its texts, if any.

    `sizes`: the bytes of each file's texts.
    """

    data: Json
    ids: pl.Series
    folder: SavedFolder
    files: tuple[int, ...]
    sizes: tuple[int, ...]

    def texts_by_file(self) -> Iterator[tuple[int, dict[int, Json]]]:
        """Each file's number with, by the examples' numbers, `{question, traces: {slice: {sample: text}}}`."""
        if not self.files:
            return
        scan = pl.scan_parquet(self.folder.verified_path(f"{TRACES}.parquet")).select(
            "example_id", "slice", "sample", "text"
        )
        example_rows = pl.read_parquet(self.folder.verified_path("examples.parquet"))
        questions = (
            dict(example_rows.select("example_id", "question").iter_rows())
            if "question" in example_rows.columns
            else {}
        )
        known = pl.DataFrame({"example_id": self.ids, "place": range(len(self.ids)), "file": self.files})
        for begin, end in _file_ranges(self.sizes):  # all texts may be too many for memory, and a scan takes a while
            some = known.filter(pl.col("file").is_between(begin, end, closed="left"))
            mine = pl.col("example_id").is_in(some["example_id"].implode())
            rows = collect(scan.filter(mine).drop_nulls("text")).join(some, on="example_id", maintain_order="left")
            by_file = rows.partition_by("file", as_dict=True, maintain_order=True)
            for file in range(begin, end):
                examples = some.filter(file=file).select("place", "example_id").iter_rows()
                entries: dict[int, Json] = {
                    number: {"question": questions.get(one), "traces": {}} for number, one in examples
                }
                trace_texts = by_file.get((file,), rows.clear()).select("place", "slice", "sample", "text")
                for number, name, sample, text in trace_texts.iter_rows():
                    entries[number]["traces"].setdefault(printable(name), {})[sample] = text
                yield file, entries


def _file_ranges(sizes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Ranges of files, each with as many as memory may hold."""
    begin, held = 0, 0
    for file, size in enumerate(sizes):
        if file > begin and held + size > HELD:
            yield begin, file
            begin, held = file, 0
        held += size
    yield begin, len(sizes)


def _most_examples(result: Findings, folder: SavedFolder, policies: int, most: int) -> int:
    """How many examples a page has room for: at most `most`, fewer where there are many policies or traces."""
    width = policies
    if folder.has_file(f"{TRACES}.parquet") and len(result.examples):
        paid = collect(pl.scan_parquet(folder.verified_path(f"{TRACES}.parquet")).select(pl.len())).item()
        width = max(width, -(-paid // len(result.examples)))
    return min(most, max(FEWEST, CELLS // max(width, 1)))


def _page_examples(
    result: Findings, folder: SavedFolder, names: Sequence[str], frame: pl.DataFrame, strata: Strata, with_texts: bool,
    quality: OutcomeColumn | None,
) -> _PageExamples:  # fmt: skip
    """What a page shows of the drawn examples `frame`. `names`: the policies as they are ranked; `quality`: what stands
    in place of correctness.
    """
    traces = folder.has_file(f"{TRACES}.parquet")
    words = _AnswerNumbering()
    data: Json = {
        "total": len(result.examples),
        "strata": strata,
        "ids": [*map(printable, frame["example_id"])],
        "gold": [words.number_of_answer(gold) for gold in frame["gold"]],
        "asked": _question_texts(frame, folder),
        "seen": _word_counts_of_texts(frame, folder, "gold_position"),
        "by": {printable(name): [None if one is None else printable(str(one)) for one in frame[name]]
               for name in _grouping_columns(result)},
        "outcomes": _outcome_rows(folder, frame, names, words, quality),
        "paths": _paid_paths(folder, frame, names, words) if traces else None,
        "length": _word_counts_of_texts(frame, folder, "length"),
        "rows": row_pictures(result, folder, frame["example_id"].to_list(), names, words.number_of_answer)
                if traces else None,
    }  # fmt: skip
    data["words"] = words.words
    written = traces and "text" in pl.read_parquet_schema(folder.verified_path(f"{TRACES}.parquet"))
    files, sizes = _text_files(folder, frame["example_id"]) if written and with_texts else ((), ())
    data["texts"] = [*files] if files else None
    return _PageExamples(data, frame["example_id"], folder, files, sizes)


def _text_files(folder: SavedFolder, ids: pl.Series) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The file that holds each example's texts, filled one after the other, and the size of each file."""
    scans = [pl.scan_parquet(folder.verified_path(f"{TRACES}.parquet")).select("example_id", "text")]
    if any(
        folder.has_file(name) for name in row_files()
    ):  # rounds and checks have no traces; what unfolds is the question
        questions = pl.scan_parquet(folder.verified_path("examples.parquet")).select(
            "example_id", pl.col("question").alias("text")
        )
        scans.append(questions)
    texts = pl.concat(scans).group_by("example_id").agg(pl.col("text").str.len_bytes().sum())
    sizes = dict(collect(texts).iter_rows())
    if not any(sizes.values()):
        return (), ()
    file_numbers: list[int] = []
    held: list[int] = []
    for example in ids:
        size = sizes.get(example) or 0
        if not held or (held[-1] + size > TEXTS):
            held.append(0)
        held[-1] += size
        file_numbers.append(len(held) - 1)
    return tuple(file_numbers), tuple(held)


def _grouping_columns(result: Findings) -> list[str]:
    """Columns by which a reader can choose examples: those of groups, and the data set if there are several."""
    several = result.examples["dataset"].n_unique() > 1
    return list(dict.fromkeys([*result.by, *(["dataset"] if several else [])]))


class _AnswerNumbering:
    """A numbering of distinct answers."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self._numbers: dict[str, int] = {}

    def number_of_answer(self, word: str | None, most: int = EXCERPT) -> int:
        """The number_of_answer of an answer; −1 for none. Of a longer one the page has `most` characters."""
        if word is None:
            return -1
        if word not in self._numbers:
            self._numbers[word] = len(self.words)
            self.words.append(printable(word if len(word) <= most else f"{word[:most]}…"))
        return self._numbers[word]


Strata = list[tuple[str, int, int]]
"""The name, the size and the examples shown of each stratum."""
CHANGED = 0.75
"""The share of the room that examples may take whose outcome changed between two results."""


def _example_rows(result: Findings, ids: pl.Series | None) -> pl.DataFrame:
    frame = result.examples.select("example_id", "gold", *_grouping_columns(result)).with_row_index("place")
    return frame if ids is None else frame.filter(pl.col("example_id").is_in(ids.implode()))


def _drawn_examples(
    result: Findings, folder: SavedFolder, most: int, ids: pl.Series | None = None, changed: pl.Series | None = None
) -> tuple[pl.DataFrame, Strata]:
    """The examples to show, at most `most` of `ids` or of all, in their order, and their strata. Where they are more,
    those that changed come first.
    """
    frame = _example_rows(result, ids)
    if len(frame) <= most:
        return frame, []
    scan = pl.scan_parquet(folder.verified_path(OUTCOMES))
    real = [policy.name for policy in result.policies if not policy.diagnostic]
    right = collect(
        scan.filter(pl.col("policy").is_in(real)).group_by("example_id").agg(low=pl.col("correct").min(),
                                                                             high=pl.col("correct").max())
    )  # fmt: skip
    kind = (
        pl.when(pl.col("high").is_null()).then(pl.lit("unjudged")).when(pl.col("low") == 1).then(pl.lit("all right"))
        .when(pl.col("high") == 0).then(pl.lit("all wrong")).otherwise(pl.lit("some right"))
    )  # fmt: skip
    frame = frame.join(right, on="example_id", how="left", maintain_order="left")
    groups = [pl.col(one).cast(pl.String).fill_null("–") for one in result.by]
    turned = pl.lit(False) if changed is None else pl.col("example_id").is_in(changed.implode())
    words = [*groups, kind, *([] if changed is None else [pl.when("turned").then(pl.lit("changed"))])]
    frame = frame.with_columns(turned=turned).with_columns(
        stratum=pl.concat_str(words, separator=", ", ignore_nulls=True)
    )
    first, rest = (frame.filter(pl.col("turned") == one) for one in (True, False))
    room = min(len(first), max(int(CHANGED * most), most - len(rest)))
    seeds = np.random.default_rng(result.summariser.settings.seed)
    chosen_places: list[int] = []
    strata: Strata = []
    for part, share_of_part in ((first, room), (rest, most - room)):
        sizes = dict(part.group_by("stratum").len().sort("stratum").iter_rows())
        shares = _shares_of_strata([*sizes.values()], share_of_part)
        for (stratum, size), share in zip(sizes.items(), shares, strict=True):
            places = part.filter(stratum=stratum)["place"].to_numpy()
            chosen_places += seeds.choice(places, share, replace=False).tolist() if share < size else places.tolist()
            strata.append((printable(stratum), size, share))
    return frame.filter(pl.col("place").is_in(chosen_places)), strata


def _shares_of_strata(sizes: Sequence[int], most: int) -> list[int]:
    """How many examples of each stratum are shown: in proportion to its size, at least one while there is room."""
    whole = sum(sizes)
    shares = [min(size, max(1, most * size // whole)) for size in sizes]
    remainder = most - sum(shares)
    for place in sorted(range(len(sizes)), key=lambda i: -(most * sizes[i] % whole)):
        if remainder > 0 and shares[place] < sizes[place]:
            shares[place], remainder = shares[place] + 1, remainder - 1
    for _ in range(sum(shares) - most):
        shares[int(np.argmax(shares))] -= 1
    return shares


def _question_texts(frame: pl.DataFrame, folder: SavedFolder) -> list[str | None] | None:
    """The beginning of each example's question; None where the log has no questions."""
    file = folder.verified_path("examples.parquet")
    if "question" not in pl.read_parquet_schema(file):
        return None
    questions = pl.read_parquet(file, columns=["example_id", "question"])
    rows = frame.select("example_id").join(questions, on="example_id", how="left", maintain_order="left")
    return [None if text is None else printable(text[:EXCERPT]) for text in rows["question"]]


def _word_counts_of_texts(frame: pl.DataFrame, folder: SavedFolder, column: str) -> list[int | None] | None:
    """A column of the examples of unfolding texts: the word from which on the error can be seen, or how many words a
    text has; None where the result has no such column.
    """
    verified_path = folder.verified_path("examples.parquet")
    if column not in pl.read_parquet_schema(verified_path):
        return None
    words = pl.read_parquet(verified_path, columns=["example_id", column])
    return frame.select("example_id").join(words, on="example_id", how="left", maintain_order="left")[column].to_list()


def _outcome_rows(
    folder: SavedFolder, frame: pl.DataFrame, names: Sequence[str], words: _AnswerNumbering,
    quality: OutcomeColumn | None,
) -> Json:  # fmt: skip
    """The outcomes of the examples, policy by policy: answer, correctness or what stands in its place, ending, what was
    drawn or read, and costs.
    """
    file = folder.verified_path(OUTCOMES)
    schema = pl.read_parquet_schema(file)
    scan = pl.scan_parquet(file).filter(pl.col("example_id").is_in(frame["example_id"].implode()))
    cost = next((name for name in COSTS if name in schema), "operations")
    judged = "correct" if quality is None else quality.name
    columns = ["answer", "answers", judged, "ending", *UNITS, cost]
    columns = [name for name in dict.fromkeys(columns) if name in schema]
    order = pl.DataFrame({"example_id": frame["example_id"], "row": range(len(frame))})
    place = {name: number for number, name in enumerate(names)}
    rows = collect(scan.select("policy", "example_id", *columns)).join(order, on="example_id", how="inner")
    rows = rows.sort(pl.col("policy").replace_strict(place, return_dtype=pl.Int64, default=len(place)), "row")
    absent = pl.Series([None] * len(rows))
    if "answers" in rows:
        rows = rows.with_columns(answer=pl.coalesce("answer", _shares_of_answers()))
    ending = {name: number for number, name in enumerate(ENDINGS)}
    units = {name: rows[name].cast(pl.Float64) for name in UNITS if name in rows.columns}
    return {
        "answer": [words.number_of_answer(word) for word in rows["answer"]],
        "correct": json_numbers(rows[judged].cast(pl.Float64)),
        "quality": None if quality is None else quality.heading,
        "ending": [ending.get(name, -1) for name in rows.get_column("ending", default=absent)],
        "units": [(name, json_numbers(values)) for name, values in units.items() if values.fill_null(0).abs().sum()],
        "cost": json_numbers(rows.get_column(cost, default=absent).cast(pl.Float64)),
        "costs": cost.replace("_", " "),
    }


def _shares_of_answers() -> pl.Expr:
    """The answers of a mean over several orders: "5 in 93 %, 7 in 7 %", at most three; null for a single answer."""
    share = (100 * pl.element().struct.field("share")).round(0, mode="half_away_from_zero").cast(pl.Int64)
    answer = pl.element().struct.field("answer").fill_null("no answer")
    of_each = pl.col("answers").list.eval(pl.format("{} in {} %", answer, share))
    more = pl.when(of_each.list.len() > MOST_ANSWERS).then(pl.lit(", …")).otherwise(pl.lit(""))
    return of_each.list.head(MOST_ANSWERS).list.join(", ") + more


def _paid_paths(folder: SavedFolder, frame: pl.DataFrame, names: Sequence[str], words: _AnswerNumbering) -> Json:
    """The paid traces, their orders and where each policy stopped, as columns of numbers."""
    traces, scores, orders, stops = (
        _rows_of_examples(folder, name, frame["example_id"]) for name in (TRACES, SCORES, ORDERS, STOPS)
    )
    stops = stops.drop_nulls("order")  # a gate that verifies goes along none
    slices = sorted({*traces["slice"], *orders["slice"], *stops["chosen_slice"].drop_nulls()})
    verifiers = sorted({*scores["verifier"], *stops["verifier"].drop_nulls()})
    rules, walked = sorted({*orders["rule"]}), {*stops.select("row", "order").iter_rows()}
    return {
        "slices": [*map(printable, slices)],
        "verifiers": [*map(printable, verifiers)],
        "rules": [*map(printable, rules)],
        "traces": _trace_columns(traces, slices, words),
        "scores": _score_columns(scores, slices, verifiers),
        "orders": _order_columns(orders, slices, rules, walked),
        "stops": _stop_columns(stops, slices, verifiers, names),
    }


def _rows_of_examples(folder: SavedFolder, name: str, ids: pl.Series) -> pl.DataFrame:
    """The rows of a part by trace on some examples, in the order of these, with the number of each row's as `row`."""
    scan = pl.scan_parquet(folder.verified_path(f"{name}.parquet"))
    scan = scan.select(pl.all().exclude("text", "trace_id")) if name == TRACES else scan
    rows = collect(scan.filter(pl.col("example_id").is_in(ids.implode())))
    order = pl.DataFrame({"example_id": ids, "row": range(len(ids))})
    return rows.join(order, on="example_id", how="inner").sort("row", maintain_order=True)


def _numbers_of_names(values: Iterable[str | None], names: Sequence[str]) -> list[int]:
    """The place of each value among some names, -1 for another or none."""
    place = {name: number for number, name in enumerate(names)}
    return [-1 if value is None else place.get(value, -1) for value in values]


def _significant(values: pl.Series, digits: int) -> list[float | int | None]:
    return [None if value is None else json_number(float(f"{value:.{digits}g}")) for value in values]


def _trace_columns(traces: pl.DataFrame, slices: Sequence[str], words: _AnswerNumbering) -> Json:
    tokens = pl.sum_horizontal(pl.col("prompt_tokens", "completion_tokens"), ignore_nulls=False)
    return {
        "row": traces["row"].to_list(),
        "slice": _numbers_of_names(traces["slice"], slices),
        "sample": traces["sample"].to_list(),
        "answer": [words.number_of_answer(word) for word in traces["answer"]],
        "correct": json_numbers(traces["correct"].cast(pl.Float64)),
        "tokens": json_numbers(traces.select(tokens.cast(pl.Float64)).to_series()),
        "seconds": _significant(traces["latency_s"], 3) if "latency_s" in traces.columns else None,
        "reply": traces["reply"].to_list() if "reply" in traces.columns else None,
    }


def _score_columns(scores: pl.DataFrame, slices: Sequence[str], verifiers: Sequence[str]) -> Json:
    return {
        "row": scores["row"].to_list(),
        "slice": _numbers_of_names(scores["slice"], slices),
        "sample": scores["sample"].to_list(),
        "verifier": _numbers_of_names(scores["verifier"], verifiers),
        "score": _significant(scores["score"], 4),
        "tokens": json_numbers(scores["verification_tokens"].cast(pl.Float64)),
    }


def _order_columns(
    orders: pl.DataFrame, slices: Sequence[str], rules: Sequence[str], walked: set[tuple[int, int]]
) -> Json:
    """The orders of traces; tokens so far only of those that a policy `walked` along, as (row, order)."""
    return {
        "row": orders["row"].to_list(),
        "order": orders["order"].to_list(),
        "slice": _numbers_of_names(orders["slice"], slices),
        "rule": _numbers_of_names(orders["rule"], rules),
        "samples": orders["samples"].to_list(),
        "slices": [None if of is None else _numbers_of_names(of, slices) for of in orders["slices"].to_list()],
        "spent": [
            None if tokens is None or key not in walked else [*map(json_number, tokens[1:])]
            for key, tokens in zip(orders.select("row", "order").rows(), orders["tokens"].to_list(), strict=True)
        ],
    }


def _stop_columns(
    stops: pl.DataFrame, slices: Sequence[str], verifiers: Sequence[str], names: Sequence[str]
) -> Json:  # fmt: skip
    return {
        "row": stops["row"].to_list(),
        "policy": _numbers_of_names(stops["policy"], names),
        **{name: stops[name].to_list() for name in ("part", "order", "steps", "generated", "verified")},
        "verifier": _numbers_of_names(stops["verifier"], verifiers),
        "slice": _numbers_of_names(stops["chosen_slice"], slices),
        **{
            key: stops[name].fill_null(-1).to_list()
            for key, name in (
                ("generation", "generation_order"),
                ("checks", "verification_order"),
                ("sample", "chosen_sample"),
            )
        },
    }
