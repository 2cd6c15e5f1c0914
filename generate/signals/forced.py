"""Teacher-forced reading of traces: after the prompt that each answered, with the end that it wrote."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from generate.engines.base import Message
from generate.engines.thoughts import with_thoughts
from generate.passes.batching import TokenIds
from generate.passes.reader import ReadBatch, Reader, ReadSettings, encode_trace, open_reader, sampled_ids
from generate.signals.signal import Additions, BlockRows, TraceSignal, Worker, WorkerInput, score_rows
from generate.traces.block import READ, TextsToRead, TraceBlock, original_prompt
from generate.traces.log_origins import chat_template_of, prompts_of_pools, stopped_pools
from toolkit.errors import counted
from toolkit.progress import Advance
from toolkit.settings import setting

SAMPLED = (*READ, "completion_ids", "completion_tokens", "tokens_estimated", "finalizer_used")
"""The columns of traces that tell which tokens were sampled, or how many."""


@dataclass(frozen=True, kw_only=True)
class TeacherForced(TraceSignal, ReadSettings):
    """A signal that puts a trace before a model as if the model had written it, after the trace's prompt and with its
    end.

    prompt: the file with what stood before the trace; by default the pool's own prompt, as the manifest keeps it;
    `prompts` gives one for each pool. end: whether a trace's end of sequence is read with it: where the model ended it
    by itself (`auto`, which stop texts of its pool leave unknown: not there), for all that no limit cut (`always`), or
    for none. chat_template: a file in the place of the model's own; template_options: its variables; by default those
    of the engine that wrote the traces, where it ran this model.
    """

    model: str | None = setting(None, identity=False)
    prompt: str | None = setting(None)
    prompts: Mapping[str, str] = setting({})
    end: str = setting("auto", choices=("auto", "always", "never"))
    chat_template: str | None = setting(None)
    template_options: Mapping[str, Any] = setting({})

    texts_to_read = TextsToRead.PROMPTED
    trace_columns = SAMPLED
    reads_once = True

    def identity(self, additions: Additions) -> dict[str, Any]:
        """The settings that determine the rows, without an `end` of `auto`, as logs made before that choice lack it."""
        flat = super().identity(additions)
        return {name: value for name, value in flat.items() if (name, value) != ("end", "auto")}


@dataclass(frozen=True)
class _FittingTexts:
    """The texts short enough for a model, and their traces. `skipped`: other traces, and why; `recounted`: traces whose
    text came to another number of tokens than logged, with that number.
    """

    texts: list[TokenIds]
    traces: list[dict[str, Any]]
    skipped: tuple[tuple[str, str], ...]
    recounted: tuple[tuple[str, str], ...]


class ReadingWorker(Worker):
    """Reads every trace once with a model. A trace that is too long is recorded as skipped and has no row."""

    step: Any
    reader: Reader

    @abstractmethod
    def token_ids(self, block: TraceBlock, row: Mapping[str, Any]) -> TokenIds:
        """The token ids that the model reads for a trace."""

    def unfit_reason(self, text: TokenIds) -> str | None:
        """The reason why a text cannot be used; None where it can."""
        return self.reader.unreadable_reason(text)

    def length_difference_text(self, row: Mapping[str, Any], text: TokenIds) -> str | None:
        """A sentence on a text whose number of tokens differs from the logged one; None where it does not."""
        return None

    def fitting_texts(self, block: TraceBlock) -> _FittingTexts:
        """The texts of a block that the model can read, with a record of those that it can't."""
        read = [(row, self.token_ids(block, row)) for row in block.wanted_rows]
        why = {row["trace_id"]: self.unfit_reason(text) for row, text in read}
        texts = [(text, row) for row, text in read if why[row["trace_id"]] is None]
        skipped = tuple((trace, reason) for trace, reason in why.items() if reason is not None)
        reasons = ((row["trace_id"], self.length_difference_text(row, text)) for text, row in texts)
        recounted = tuple((trace, reason) for trace, reason in reasons if reason is not None)
        return _FittingTexts([text for text, _ in texts], [row for _, row in texts], skipped, recounted)

    def verification_rows(
        self,
        block: TraceBlock,
        advance: Advance,
        scores: Callable[[ReadBatch, list[TokenIds]], Iterable[Mapping[str, Any]]],
    ) -> BlockRows:
        """Makes a verification for each trace that fits. `scores` returns its score, and further columns, from a pass
        and the texts in it.
        """
        fit = self.fitting_texts(block)
        texts, traces = fit.texts, fit.traces
        rows: list[dict[str, Any]] = [{} for _ in traces]
        for read in self.reader.read(texts):
            columns = scores(read, [texts[place] for place in read.places])
            for place, values, device_s in zip(read.places, columns, read.device_s, strict=True):
                costs = {"prompt_tokens": len(texts[place]), "completion_tokens": 0, "latency_s": read.seconds}
                rows[place] = self.step.verification_row(traces[place], **values, **costs, device_s=device_s)
            advance(len(read.places))
        return BlockRows(score_rows(rows, self.step.decimals), fit.skipped, recounted=fit.recounted)

    def close(self) -> None:
        self.reader.close()


class ForcedWorker(ReadingWorker):
    """Reads traces after their prompts. Chats are written as the settings say; else, where the model wrote the traces,
    as its engine wrote them; else by the model's own template.

    `stopped`: pools whose samples may have ended at a stop text, which no end of sequence follows; `ends`: the id that
    ends an answer to a chat, and one to a text.
    """

    step: TeacherForced
    head: ClassVar[str]

    def __init__(self, step: TeacherForced, work: WorkerInput):
        super().__init__(step, work)
        additions, log = work.additions, work.log
        self.prompts = prompts_of_pools(log, work.pools, step.prompt, step.prompts, additions.prompts)
        self.reader = open_reader(additions.resolve_model(str(step.model)), self.head, step, step.place_in_recipe)
        template, options = chat_template_of(log, work.pools, self.reader.files)
        if step.chat_template is not None:
            template = additions.prompts[step.chat_template].text
        if template is not None:
            self.reader.tokens.tokenizer.chat_template = template
        self.reader.tokens = replace(self.reader.tokens, template_options={**options, **step.template_options})
        chats = sorted({bool(prompt.parts) for prompt in self.prompts.values()})
        self.ends = {chat: _end_token(self.reader, chat) for chat in chats}
        self.stopped = stopped_pools(log)
        ends = (self.reader.tokens.end_token, *self.ends.values(), *self.reader.files.end_tokens())
        self.all_ends = frozenset(end for end in ends if end is not None)

    def token_ids(self, block: TraceBlock, row: Mapping[str, Any]) -> TokenIds:
        """The tokens of the prompt, as an engine sends it, and the sampled ones; else those of the text and its end."""
        prompt = original_prompt(self.prompts, block, row)
        end = self.ends[not isinstance(prompt, str)]
        tokens, text, stopped = self.reader.tokens, row["text"] or "", row["pool"] in self.stopped
        ids = sampled_ids(tokens, row.get("completion_ids"), text, self.all_ends, stopped)
        if ids is None:
            whole = with_thoughts(row.get("reasoning"), text)
            return encode_trace(tokens, prompt, whole, end if self._model_ended_text(row) else None)
        ended = bool(ids) and ids[-1] in self.all_ends
        if self.step.end == "never" and ended:
            ids = ids[:-1]
        elif self.step.end == "always" and self._model_ended_text(row) and not ended and end is not None:
            ids = (*ids, end)
        return TokenIds(tuple(tokens.encode(prompt)) if prompt else (), ids)

    def length_difference_text(self, row: Mapping[str, Any], text: TokenIds) -> str | None:
        """A sentence on a text with unlogged tokens that has another number of tokens than logged; else None."""
        logged = row["completion_tokens"]
        if text.counted is None or logged is None or row["finalizer_used"] or row["tokens_estimated"]:
            return None
        length = text.counted + self._ended_itself(row)
        return None if length == logged else f"the text has {counted(length, 'token')}, the log counts {logged}"

    def describe(self) -> Mapping[str, Any]:
        """The manifest's record: the model, the prompts before the traces, and what is read as their end."""
        tokens = self.reader.tokens
        chat = {
            "chat_template": getattr(tokens.tokenizer, "chat_template", None),
            "template_options": dict(tokens.template_options),
        }
        return {
            **self.reader.describe(),
            "prompts": {pool: prompt.text for pool, prompt in self.prompts.items()},
            "end": {"rule": self.step.end, "stop_texts": sorted(self.stopped), "tokens": list(self.ends.values())},
            **(chat if True in self.ends else {}),
        }

    def _model_ended_text(self, row: Mapping[str, Any]) -> bool:
        """Whether the model that wrote the text ended it, as far as the log tells."""
        if self.step.end != "auto":
            return self.step.end == "always" and row["finish_reason"] != "length"
        return self._ended_itself(row)

    def _ended_itself(self, row: Mapping[str, Any]) -> bool:
        return row["finish_reason"] == "stop" and row["pool"] not in self.stopped


def _end_token(reader: Reader, chat: bool) -> int | None:
    """The id of the token that ends an answer. After a chat it is what the template writes there, if the model's
    settings know it as an end; else the tokenizer's; else the lowest in the settings.
    """
    end = reader.tokens.end_token
    known = {i for i in reader.files.end_tokens() if i < len(reader.tokens.tokenizer)}  # a config may be another's
    if chat:
        chat_messages = (Message("user", "question"), Message("assistant", "answer"))
        behind = reader.tokens.chat_text(chat_messages, whole=True).rpartition("answer")[2]
        ids = reader.tokens.tokenizer(behind, add_special_tokens=False)["input_ids"]
        written = next((i for i in ids if i in known or i == end), None)
        if written is not None:
            return int(written)
    return end if end is not None and (end in known or not known) else min(known, default=None)
