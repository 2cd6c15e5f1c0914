"""The loops of open examples: each goes on when what it asked for is there, and its next requests are due.

Earlier answers, from the journal, take the place of requests, so that a run that goes on asks what a run from the start
would have asked next. What a loop asked for is noted by its digest: one that asks for something else, once it is sent
the same answers, draws numbers beside its seed. Requests are numbered in each loop, and loops side by side by their
place, so that no number depends on the order in which answers come.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache, partial
from typing import Any, NoReturn

from generate.engines.base import Call, Completion
from generate.journal.events import Answered, Event, Requested
from generate.journal.queue import BESIDE, JournalCall
from generate.loops.requests import (
    Ask,
    Example,
    Hear,
    Neighbours,
    Passages,
    Read,
    RefusedError,
    Results,
    Row,
    Score,
    Scores,
    Search,
    Steps,
    Together,
    Trace,
    Verify,
)
from generate.loops.unfolding import UnfoldingText
from generate.recipes.recipe import AnswerSettings, LoopStep, Recipe, seed_of
from generate.retrieval.http_search import SearchError
from generate.sampling.context import PreparedExample
from generate.sampling.samples import FINALIZER, call_key, is_readable_answer, read_normal_answers
from generate.sampling.services import Services, texts_to_score
from generate.sampling.steps import RecipeSteps
from generate.sampling.workers import Workers
from toolkit.errors import (
    InvalidError,
    LimitError,
    MismatchError,
    RuleError,
    ThinkbackError,
    UnknownError,
    ends_by_signal,
    error_prefix,
    listed,
    user_code,
)

Place = tuple[str, int]
"""A pool and a sample's index, or the number of a request."""
FAULT = "loop failed"
"""The cause under which loops are counted that are given up because they fail."""
ABANDONED = (RuleError, LimitError, InvalidError, UnknownError, SearchError)
"""The errors of a loop that are counted, and end it alone, where failures are given up."""
READ = ("traces", "rounds")
"""The tables of a log that a loop may read (`of`)."""
ROWS = ("rounds", "checks")
"""The tables that a loop's `Row` may be of."""
SERVICES: Mapping[type, tuple[str, str]] = {
    Score: ("score", "model"), Verify: ("score", "verifier"), Search: ("search", "index"),
}  # fmt: skip
"""The table of a recipe that answers a request, and the field that names one in it."""


@dataclass
class OpenExample:
    """An example whose loops are running. known: earlier answers that no loop has come to yet; requested: earlier
    requests of loops; missing: samples asked for and not answered; stuck: calls among them that failed for now; counts:
    requests by pool; rows: those of each loop that has ended, by pool.
    """

    prepared: PreparedExample
    known: dict[Place, Answered] = field(default_factory=dict)
    requested: dict[Place, Requested] = field(default_factory=dict)
    waiting: dict[Place, _WaitingCall] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    rows: dict[str, list[Trace | Row]] = field(default_factory=dict)
    logged: Mapping[str, tuple[Mapping[str, Any], ...]] = field(default_factory=dict)
    missing: int = 0
    stuck: dict[str, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The example's id."""
        return self.prepared.example_id

    @property
    def waits_for_nothing(self) -> bool:
        """Whether no call of the example waits, and no thread works for it."""
        return self.missing == sum(self.stuck.values())


Arrival = tuple[OpenExample, Answered]


@dataclass(eq=False, slots=True)
class _RunningLoop:
    """A loop that is running. above: the one that runs it beside others, as number `place` of them; alone: it is given
    what the one below it returns. step: of which the loop is, None for steps of one call; pool: where its requests are
    recorded; number: that of the next; inner: it answers a request of the one above, which is counted there.
    """

    example: OpenExample
    loop: Steps
    above: _RunningLoop | None = None
    place: int = 0
    step: LoopStep | None = None
    pool: str = ""
    number: int = 0
    results: list[Any] = field(default_factory=list)
    left: int = 0
    alone: bool = False
    inner: bool = False
    rows: list[Trace | Row] = field(default_factory=list)
    below: list[list[Trace | Row]] = field(default_factory=list)

    @property
    def error_subject(self) -> str:
        """The words for the loop in errors."""
        named = self.step.pool if self.step is not None else ""
        return f"loop `{named}`, example `{self.example.name}`, request {self.number}"


@dataclass(eq=False, slots=True)
class _WaitingCall:
    """A call of a strand with the samples that are there."""

    strand: _RunningLoop
    samples: tuple[int, ...]
    answered: dict[int, Answered] = field(default_factory=dict)

    def samples_in_order(self) -> Any:
        """The samples in their order. For one that failed for good a step of one call gets None, a loop an error."""
        events = [self.answered[sample] for sample in self.samples]
        refused = next((event for event in events if event.completion is None), None)
        if refused is not None and self.strand.step is not None:
            return RefusedError(refused.failure)
        return tuple(event.completion for event in events)


_Service = tuple[_RunningLoop, int, str, Any]


@dataclass(frozen=True)
class _NextWork:
    """What follows from some answers: calls, events, strands that go on with a value, texts to read for strands, and
    requests for scores and searches with their strand, number and digest.
    """

    calls: list[JournalCall] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    ready: list[tuple[_RunningLoop, Any]] = field(default_factory=list)
    reading: list[tuple[_RunningLoop, Read]] = field(default_factory=list)
    services: dict[tuple[str, str], list[_Service]] = field(default_factory=lambda: defaultdict(list))


def revealed_text(example: PreparedExample, request: Hear) -> str:
    """The text of an example that is known, up to where a request asks for it."""
    text = _unfolding(example.fields["question"])
    return text.revealed(text.next_position(request.after, request.more))


_unfolding = lru_cache(maxsize=256)(UnfoldingText)


class ExampleLoops:
    """The loops of a recipe, example by example. record: stores events; forgiving: whether a loop that fails is ended
    and counted; final: whether nothing is asked any more, and rows are held; reveal: gives a text as far as a request
    asks for it, by default the example's; note_row: is given each row when a loop yields it.
    """

    def __init__(
        self,
        recipe: Recipe,
        services: Services,
        record: Callable[[Sequence[Event]], None],
        *,
        forgiving: bool = False,
        final: bool = False,
        reveal: Callable[[PreparedExample, Hear], str] | None = None,
        note_row: Callable[[Trace | Row], None] | None = None,
    ):
        self.recipe, self.services, self.record, self._steps = recipe, services, record, RecipeSteps(recipe)
        self.forgiving, self.final = forgiving, final
        self.reveal, self.note_row = reveal or revealed_text, note_row
        self.workers = Workers()
        self._kinds: Mapping[type, Callable[[_RunningLoop, Any, _NextWork], None]] = {
            JournalCall: self._ask_missing_samples,
            Read: lambda strand, request, due: due.reading.append((strand, request)),
            Passages: self._answer_by_corpus,
            Neighbours: self._answer_by_corpus,
            Hear: lambda strand, request, due: due.ready.append(
                (strand, self.reveal(strand.example.prepared, request))
            ),
            Together: self._run_together,
            Ask: self._ask_engine,
            Trace: self._take_row,
            Row: self._take_row,
            **dict.fromkeys(SERVICES, self._answer_by_service),
        }

    def first_calls(self, examples: Sequence[OpenExample]) -> list[JournalCall]:
        """Opens examples; returns their first calls."""
        due = _NextWork()
        for example in examples:
            for loop in () if self.final else self._steps.first_loops(example.prepared, example.logged):
                due.ready.append((_RunningLoop(example, loop), None))
            for step in self.recipe.loop:
                self._begin_loop(example, step, due)
        return self._continue_loops(due)

    def calls_after_answers(self, arrivals: Sequence[Arrival]) -> list[JournalCall]:
        """The calls that follow from some answers."""
        due = _NextWork()
        for example, event in arrivals:
            self._take_sample(example.waiting.pop((event.pool, event.sample)), event, due)
        return self._continue_loops(due)

    def calls_after_threads(self, wait_s: float | None = None) -> tuple[list[JournalCall], list[OpenExample]]:
        """The calls that are due with what threads have done, and the examples concerned; waits so long for the first
        of it, or without a limit.
        """
        due, concerned = _NextWork(), []
        with self._store_events_on_error(due):
            finished = self.workers.finished_work(wait_s)
            for one, answer in sorted(finished, key=lambda pair: isinstance(pair[1], BaseException)):
                strand = one[0]
                strand.example.missing -= 1
                concerned.append(strand.example)
                if isinstance(answer, ThinkbackError):
                    self._end_by_error(strand, answer.with_subject(f"{strand.error_subject}: "), due)
                elif isinstance(answer, BaseException):
                    raise answer
                else:
                    self._take_service_answer(one, answer[0], answer[0].latency_s, due)
        return self._continue_loops(due), concerned

    @contextmanager
    def _store_events_on_error(self, *works: _NextWork) -> Iterator[None]:
        """Stores the events of some work where what follows fails: what was answered is not asked again."""
        try:
            yield
        except BaseException:
            if events := [event for work in works for event in work.events]:
                self.record(events)
            raise

    def _begin_loop(self, example: OpenExample, step: LoopStep, due: _NextWork) -> None:
        recipe, prepared = self.recipe, example.prepared
        seen = Example(
            prepared.example_id,
            prepared.fields,
            seed_of(recipe.seed, prepared.example_id, step.pool, 0),
            lambda file, fields: recipe.template(file).render(fields),
            gold_documents=prepared.gold_documents,
            claim_labels=prepared.claim_labels,
            **{table: tuple(row for row in example.logged.get(table, ()) if row["pool"] in step.of) for table in READ},
        )
        strand = _RunningLoop(example, iter(()), step=step, pool=step.pool)  # type: ignore[arg-type]
        try:
            strand.loop = step.loop.run(seen)
            self._check_loop(strand, strand.loop)
        except (Exception, SystemExit) as error:
            if ends_by_signal(error):
                raise
            self._end_by_error(strand, error, due)
        else:
            due.ready.append((strand, None))

    def _continue_loops(self, due: _NextWork) -> list[JournalCall]:
        """Let strands go on until each waits for an engine. Texts are read, searched and scored all at one time."""
        calls = due.calls
        while due.ready or due.reading or due.services:
            after = _NextWork(calls)
            with self._store_events_on_error(due, after):
                for strand, value in due.ready:
                    self._send_answer(strand, value, after)
                if due.reading:
                    answers = read_answers([one for _, one in due.reading], self.recipe.answers)
                    after.ready.extend(zip((strand for strand, _ in due.reading), answers, strict=True))
                for (table, name), requests in due.services.items():
                    self._answer_requests(table, name, requests, after)
            if due.events or after.events:
                self.record([*due.events, *after.events])
                due.events.clear()
                after.events.clear()
            due = after
        if due.events:
            self.record(due.events)
        return calls

    def _send_answer(self, strand: _RunningLoop, value: Any, due: _NextWork) -> None:
        """Send a loop its answer, and look what it asks for next."""
        try:
            if type(value) is RefusedError:
                request = strand.loop.throw(value)
            else:
                request = strand.loop.send(value)
        except StopIteration as end:
            self._return_value(strand, end.value, due)
        except RefusedError:
            self._end_early(strand, due)
        except (Exception, SystemExit) as error:
            if strand.step is None or ends_by_signal(error):
                raise
            self._end_by_error(strand, error, due)
        else:
            act = self._kinds.get(type(request))
            try:
                if act is None:
                    _raise_rule_error(strand, f"it yields {type(request).__name__}, not one of {listed(REQUESTS)}")
                act(strand, request, due)
            except ThinkbackError as error:
                if strand.step is None:
                    raise
                self._end_by_error(strand, error, due)

    def _end_by_error(self, strand: _RunningLoop, error: BaseException, due: _NextWork) -> None:
        """Ends the run by a loop's error, or the loop alone where failures are given up."""
        place = (strand.pool, strand.number)
        known = strand.example.known.pop(place, None)
        strand.loop = (None for _ in ())  # what it still waits for comes to nothing
        if (known is not None and known.cause == FAULT) or self.final:
            self._end_early(strand, due)
            return
        line = _one_line_error(strand, error)
        if not self.forgiving or type(line) not in ABANDONED:
            raise line from None
        due.events.append(Answered(strand.example.name, *place, str(line), 0.0, None, FAULT))
        self._end_early(strand, due)

    def _end_early(self, strand: _RunningLoop, due: _NextWork) -> None:
        """Ends a loop that lacks an answer. It leaves no checks: half of them would tell that the rest holds."""
        if strand.above is None and strand.step is not None and getattr(strand.step.loop, "table", None) == "checks":
            strand.rows.clear()
        self._return_value(strand, None, due)

    def _return_value(self, strand: _RunningLoop, value: Any, due: _NextWork) -> None:
        """Give what a loop returned to the one above it, once all beside it have ended."""
        above = strand.above
        if above is None:
            if strand.step is not None:
                self._take_rows(strand, value, due)
            return
        above.results[strand.place] = value
        if strand.rows:
            above.below[strand.place] = strand.rows
        above.left -= 1
        if not above.left:
            above.rows.extend(row for rows in above.below for row in rows)
            refused = above.alone and value is None
            given = RefusedError("its judge was refused") if refused else value if above.alone else above.results
            above.alone = False
            due.ready.append((above, given))

    def _take_rows(self, strand: _RunningLoop, value: Any, due: _NextWork) -> None:
        step = strand.step
        assert step is not None  # of a loop
        rows = list(value) if isinstance(value, list | tuple) else [] if value is None else [value]
        try:
            for row in rows:
                self._check_row(strand, row)
        except ThinkbackError as error:
            if not self.forgiving and not self.final:
                raise
            rows, place = [], (strand.pool, strand.number)
            if not self.final and place not in strand.example.known:
                due.events.append(Answered(strand.example.name, *place, str(error), 0.0, None, FAULT))
        strand.example.rows[step.pool] = [*strand.rows, *rows] if self.final else []

    def _take_row(self, strand: _RunningLoop, row: Any, due: _NextWork) -> None:
        self._check_row(strand, row)
        if self.final:
            strand.rows.append(row)
        if self.note_row is not None:
            self.note_row(row)
        due.ready.append((strand, None))

    def _check_row(self, strand: _RunningLoop, row: Any) -> None:
        """RuleError where what a loop yields as a row is not one."""
        if type(row) not in (Trace, Row):
            _raise_rule_error(strand, f"it gives {type(row).__name__} as a row, not `Trace` or `Row`")
        if type(row) is Row and row.table not in ROWS:
            _raise_rule_error(strand, f"it gives a row of `{row.table}`, not of {listed(ROWS)}")
        if type(row) is Trace and not isinstance(row.text, str):
            _raise_rule_error(strand, f"the text of its trace is {type(row.text).__name__}, not a string")
        for one in row.paid:
            if type(one) not in (Completion, Scores, Results):
                _raise_rule_error(strand, f"`paid` of its row holds {type(one).__name__}, not an answer to a request")

    def _check_loop(self, strand: _RunningLoop, loop: Any) -> None:
        if not hasattr(loop, "send"):
            _raise_rule_error(strand, f"`run` gives {type(loop).__name__}, not a generator: let it `yield`")

    def _count_request(self, strand: _RunningLoop) -> None:
        """Count a request of a loop. LimitError where the loop has used up its requests."""
        step, counts = strand.step, strand.example.counts
        assert step is not None  # steps of one call ask without it
        if strand.inner:
            return
        counts[step.pool] = counts.get(step.pool, 0) + 1
        if counts[step.pool] > step.most_requests:
            raise LimitError(
                f"{strand.error_subject}: it asks more than {step.most_requests} times; it does not end, or needs more"
                f" `requests` in `[[loop]]`"
            )

    def _ask_engine(self, strand: _RunningLoop, request: Ask, due: _NextWork) -> None:
        step, name = strand.step, strand.example.name
        assert step is not None  # steps of one call make their calls themselves
        self._count_request(strand)
        engine = step.engine if request.engine is None else request.engine
        self.recipe.require_engine(engine, strand.error_subject)
        samples = tuple(range(strand.number, strand.number + max(1, request.n)))
        with user_code(strand.error_subject):
            call = Call(
                key=call_key(name, strand.pool, samples),
                prompt=request.prompt,
                seeds=tuple(seed_of(self.recipe.seed, name, strand.pool, i) for i in samples),
                temperatures=(float(request.temperature),) * len(samples),
                max_tokens=request.max_tokens,
                top_p=request.top_p,
                stop=tuple(request.stop),
                logprobs=request.logprobs,
                extra=request.extra,
                engine=engine,
            )
        self._journal_entry(strand, strand.number, request, due)
        strand.number += len(samples)
        self._ask_missing_samples(strand, JournalCall(call, name, strand.pool, samples), due)

    def _answer_by_service(self, strand: _RunningLoop, request: Any, due: _NextWork) -> None:
        """Have a search or a score answered, by the journal where it has been, or by a language model."""
        self._count_request(strand)
        table, field_name = SERVICES[type(request)]
        name, number = getattr(request, field_name), strand.number
        texts = texts_to_score(request) if table == "score" else ()
        pairs = (one if isinstance(one, tuple) and len(one) == 2 else (one,) for one in texts)
        if not all(isinstance(text, str) for pair in pairs for text in pair):
            _raise_rule_error(strand, "it asks for a score of what is neither a text nor a pair of texts")
        with error_prefix(f"{strand.error_subject}: "):
            settings = self.services.settings_of(table, name)
        digest, known = self._journal_entry(strand, number, request, due)
        strand.number += 1
        if hasattr(settings, "loop"):
            loop = settings.loop(self.recipe, request, strand.example.prepared.fields)
            strand.alone = True
            self._run_side_by_side(strand, [loop], number, due)
        elif known is not None and known.reply is not None:
            kind: type[Any] = Results if table == "search" else Scores
            reply = json.loads(known.reply).items()
            due.ready.append((strand, kind(**{key: tuple(v) if isinstance(v, list) else v for key, v in reply})))
        elif self.final:
            self._end_by_error(strand, RefusedError(), due)
        else:
            due.services[table, name].append((strand, number, digest, request))

    def _answer_requests(self, table: str, name: str, requests: Sequence[_Service], due: _NextWork) -> None:
        threads = self.services.thread_count(table, name)
        for one in requests if threads else ():
            strand, _, _, request = one
            work = partial(self.services.answer, table, name, [(request, strand.example.prepared.fields)])
            self.workers.begin_work((table, name), one, work, threads)
            strand.example.missing += 1
        if threads:
            return
        listed_requests = [(request, strand.example.prepared.fields) for strand, _, _, request in requests]
        try:
            answers = self.services.answer(table, name, listed_requests)
        except ThinkbackError as error:
            strand = requests[0][0]
            if len(requests) == 1:
                self._end_by_error(strand, error.with_subject(f"{strand.error_subject}: "), due)
                return
            for one in requests:  # which of them it was
                self._answer_requests(table, name, [one], due)
            return
        for one, answer in zip(requests, answers, strict=True):
            self._take_service_answer(one, answer, answer.latency_s / len(requests), due)

    def _take_service_answer(self, one: _Service, answer: Scores | Results, spent: float, due: _NextWork) -> None:
        """Give a strand the answer of a score or a search, and note it for the journal."""
        strand, number, digest, _ = one
        reply = json.dumps(asdict(answer))
        due.events.append(Requested(strand.example.name, strand.pool, number, digest, reply, spent))
        due.ready.append((strand, answer))

    def _journal_entry(
        self, strand: _RunningLoop, number: int, request: Any, due: _NextWork
    ) -> tuple[str, Requested | None]:
        """The digest of a request, and what the journal has of it. MismatchError where that is another one."""
        kind = type(request)
        digest = f"{kind.__name__.lower()} {hashlib.sha256(repr(request).encode()).hexdigest()[:16]}"
        known = strand.example.requested.pop((strand.pool, number), None)
        if known is not None and known.digest != digest:
            raise MismatchError(
                f"{strand.error_subject}: it differs from the recorded request ({known.digest.partition(' ')[0]}): a"
                " loop may draw numbers from its seed alone; mend the loop, or name another `out`"
            )
        if known is None and kind is Ask:
            due.events.append(Requested(strand.example.name, strand.pool, number, digest, None, 0.0))
        return digest, known

    def _ask_missing_samples(self, strand: _RunningLoop, call: JournalCall, due: _NextWork) -> None:
        example, waiting = strand.example, _WaitingCall(strand, call.samples)
        known = {i: example.known.pop((call.pool, i)) for i in call.samples if (call.pool, i) in example.known}
        missing = [i for i in call.samples if i not in known]
        if missing and self.final:
            self._end_by_error(strand, RefusedError(), due)
            return
        for sample in missing:
            example.waiting[call.pool, sample] = waiting
        for event in known.values():
            self._take_sample(waiting, event, due)
        if missing:
            due.calls.append(call if not known else _call_for_samples(call, missing))
            example.missing += len(missing)

    def _take_sample(self, waiting: _WaitingCall, event: Answered, due: _NextWork) -> None:
        waiting.answered[event.sample] = event
        if len(waiting.answered) == len(waiting.samples):
            due.ready.append((waiting.strand, waiting.samples_in_order()))

    def _answer_by_corpus(self, strand: _RunningLoop, request: Passages | Neighbours, due: _NextWork) -> None:
        """Give a loop what a corpus has, which is the same at any time and so not in the journal."""
        with error_prefix(f"{strand.error_subject}: "):
            due.ready.append((strand, self.services.corpus_answer(request)))

    def _run_together(self, strand: _RunningLoop, request: Together, due: _NextWork) -> None:
        loops = list(request.loops)
        for loop in loops:
            self._check_loop(strand, loop)
        number = strand.number
        strand.number += strand.step is not None
        if loops:
            self._run_side_by_side(strand, loops, number, due)
        else:
            due.ready.append((strand, []))

    def _run_side_by_side(self, strand: _RunningLoop, loops: Sequence[Steps], number: int, due: _NextWork) -> None:
        step, example = strand.step, strand.example
        strand.left, strand.results = len(loops), [None] * len(loops)
        strand.below = [] if step is None else [[] for _ in loops]
        for place, loop in enumerate(loops):
            pool = "" if step is None else f"{strand.pool}{BESIDE}{number}.{place}"
            due.ready.append(
                (_RunningLoop(example, loop, strand, place, step, pool, inner=strand.alone or strand.inner), None)
            )


REQUESTS = (
    "Ask", "Search", "Score", "Verify", "Read", "Passages", "Neighbours", "Hear", "Together", "Trace", "Row",
)  # fmt: skip


def _raise_rule_error(strand: _RunningLoop, line: str) -> NoReturn:
    raise RuleError(f"{strand.error_subject}: {line}")


def _one_line_error(strand: _RunningLoop, error: BaseException) -> ThinkbackError:
    """An error of a loop as one line that names the example and the request."""
    try:
        with user_code(strand.error_subject):
            raise error
    except ThinkbackError as line:
        return line if strand.error_subject in str(line) else line.with_subject(f"{strand.error_subject}: ")


def _call_for_samples(call: JournalCall, samples: Sequence[int]) -> JournalCall:
    places, whole = [call.samples.index(sample) for sample in samples], call.call
    name, end = (call.pool.removesuffix(FINALIZER), FINALIZER) if call.pool.endswith(FINALIZER) else (call.pool, "")
    some = replace(
        whole,
        key=call_key(call.about, name, samples) + end,
        seeds=tuple(whole.seeds[place] for place in places),
        temperatures=tuple(whole.temperatures[place] for place in places),
    )
    return replace(call, call=some, samples=tuple(samples))


def read_answers(texts: Sequence[Read], rules: AnswerSettings) -> list[str | None]:
    """The answers of texts, None where a text has none."""
    answers = read_normal_answers([(text.text, text.cut) for text in texts], rules)
    return [answer if is_readable_answer(answer, rules) else None for answer in answers]
