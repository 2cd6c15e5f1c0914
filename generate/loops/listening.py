"""Checking a text while it is revealed word by word: claims are extracted, and each is searched for and checked.

DIVER (its sections 2.1 to 2.3, prompts in its appendix A.7). Other than there, nothing stops what is logged: every
claim is followed to a verdict or the limit, the stream to its end, and revisions are made on every text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count
from typing import Any, ClassVar, Self

import polars as pl

from generate.loops.loop import Loop, PromptFields
from generate.loops.meanings import ENTAILS
from generate.loops.requests import Ask, Example, Hear, Paid, RefusedError, Results, Row, Score, Search, Steps, Together
from generate.loops.unfolding import (
    END,
    MOST_POSITIONS,
    SENTENCES,
    UnfoldingText,
    count_names,
    most_positions,
    read_every,
    words_ahead,
)
from generate.loops.verdicts import CONFIDENCES, NOT_ENOUGH, TOKEN, claims_of, confidence_of, verdict_of, write_query
from toolkit.answers.forms import text_forms
from toolkit.errors import ConflictError, LimitError, RequiredError
from toolkit.log.contract.manifest import SEES
from toolkit.settings import setting

STREAM, REVISION = "stream", "revision"
NO_CLAIM = "none"
EQUAL, ENTAILMENT, PROMPT, SENTENCE = "equal", "entailment", "prompt", "sentence"
MORE_CLAIMS = 20
"""How many more claims than words a text may have."""
_COSTS = ("calls", "prompt_tokens", "completion_tokens", "latency_s", "device_s")
_YES = re.compile(r"\W*yes\b", re.IGNORECASE)
_NEXT_QUERY = re.compile(r"^\W*(?:recommended )?next query\W*:\s*(.+)$", re.IGNORECASE | re.MULTILINE)


@dataclass(frozen=True)
class _Claim:
    """A claim that is being checked. number: in the order of extraction; unit: of the sentence, None in a revision;
    opening: what extracting it cost; repeated: what the extractor named again, in place of a claim.
    """

    number: int
    text: str
    stage: str
    position: int
    unit: Mapping[str, int | None]
    opening: tuple[Paid, ...] = ()
    repeated: str = ""

    def log_row(self, number: int, verdict: str, paid: Sequence[Paid], **columns: Any) -> Row:
        """The claim's row of `checks`; its costs include the searches."""
        queries = sum(type(one) is Results for one in paid)
        text = self.text or self.repeated or None
        values = {"claim": self.number, "claim_text": text, "round": number, "stage": self.stage,
                  "position": self.position, "verdict": verdict, "queries": queries, **self.unit}  # fmt: skip
        unpaid = {} if paid else dict.fromkeys(_COSTS, 0)
        return Row("checks", values | unpaid | columns, tuple(paid))


@dataclass
class _HeardText:
    """What was heard of a text so far: its claims with their last verdicts. known: the whole text, empty where nobody
    knows it before it is revealed.
    """

    example: Example
    known: UnfoldingText
    text: UnfoldingText
    claims: list[str] = field(default_factory=list)
    verdicts: dict[str, str] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=count)

    @property
    def whole(self) -> UnfoldingText:
        """The whole text, where it is known before it is revealed, else what was heard."""
        return self.known if self.known.text else self.text

    @cached_property
    def labels(self) -> Mapping[str, str]:
        """The labels of claims that are annotated, by the claim in its normal form."""
        labels = self.example.claim_labels
        return dict(zip(_forms(list(labels)), labels.values(), strict=True))

    def add_claims(self, claims: Sequence[str]) -> list[str]:
        """Adds the claims that are new, and returns these."""
        new = [claim for claim in dict.fromkeys(claims) if claim not in self.claims]
        self.claims += new
        return new


@dataclass(frozen=True, kw_only=True)
class Listening(Loop):
    """Claims of a text that is revealed word by word, and their checks. At every n words, at the ends of `sentences` or
    at the `end`, `prompt` extracts the next claim, until it names none or one that it has named; from `claims` of a
    text on nothing more is extracted. Without a model, `extract = "sentences"` takes each sentence as a claim.
    `one_shot`: one reply has all claims, one a line. Then `revise_prompt` names further claims of the whole text, until
    it names none, at most `revisions`.

    Each round of a claim searches `top` passages with the query of `query_prompt`, later with the one that
    `filter_prompt` recommends, else for the next passages of the last query; the checker reads what the filter kept,
    without one the passages, of this round and of those before. Rounds end with a verdict or after `max_rounds`. Claims
    of one position are checked side by side.

    sees: whether extractor and revisor are shown claims alone or with their verdicts. confidence: the probability of
    the first `token` of the checker's reply, or what the reply has `stated`. match: how a claim is compared with the
    column `error` of examples: `equal` words, `entailment` of the error by the model `meaning`, or what `match_prompt`
    answers (`match_engine`); nobody pays for it. A `sentence` that is a claim is compared with that of the word
    `gold_position`.
    """

    search: str = setting()
    check_prompt: str = setting()
    query_prompt: str | None = setting(None)
    filter_prompt: str | None = setting(None)
    revise_prompt: str | None = setting(None)
    match_prompt: str | None = setting(None)
    extract: str = setting("model", choices=("model", SENTENCES))
    every: str | int = setting(SENTENCES, read=read_every)
    one_shot: bool = setting(False)
    claims: int | None = setting(None, low=1)
    max_rounds: int = setting(4, low=1)
    revisions: int = setting(4, low=0)
    top: int = setting(5, low=1)
    sees: str = setting("claims", choices=SEES)
    confidence: str = setting(TOKEN, choices=CONFIDENCES)
    match: str = setting(EQUAL, choices=(EQUAL, ENTAILMENT, PROMPT, SENTENCE))
    meaning: str | None = setting(None)
    extract_engine: str | None = setting(None)
    query_engine: str | None = setting(None)
    filter_engine: str | None = setting(None)
    check_engine: str | None = setting(None)
    match_engine: str | None = setting(None, identity=False)  # a request to another one is refused by its digest
    positions: int = setting(MOST_POSITIONS, key=False, identity=False)  # of a text, at most
    words: int = setting(MOST_POSITIONS, key=False, identity=False)  # of a text, at most

    kind = "listen"
    table = "checks"
    unfolds = True
    prompt_fields: ClassVar[PromptFields] = {
        "prompt": ("revealed", "sentence", "claims"), "revise_prompt": ("claims",), "query_prompt": ("claim",),
        "filter_prompt": ("claim", "passages", "query", "evidence"), "check_prompt": ("claim", "evidence"),
        "match_prompt": ("claim",),
    }  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.extract == SENTENCES and self.every != SENTENCES:
            raise ConflictError(
                "where sentences are claims (`extract`), the extractor runs after each: leave out `every`"
            )
        for key, need in ((ENTAILMENT, "meaning"), (PROMPT, "match_prompt")):
            if self.match == key and getattr(self, need) is None:
                raise RequiredError(f"`match` is `{key}`: name `{need}`")
        if self.match == SENTENCE and self.extract != SENTENCES:
            raise ConflictError(f"`match` is `{SENTENCE}`, which needs claims that are sentences: `extract`")

    def run(self, example: Example) -> Steps:
        heard = _HeardText(example, UnfoldingText(example.fields["question"]), UnfoldingText(""))
        while (yield from self._hear_until_extraction(heard)):
            yield from self._check_all(heard, (yield from self._claims_at_position(heard)))
        length = len(heard.text.words)
        for _ in range(self.revisions if self.revise_prompt is not None and length else 0):
            number = next(heard.numbers)
            whole = {"question": heard.text.text}
            paid = yield from self._ask(heard, str(self.revise_prompt), self.extract_engine, **whole)
            listed = claims_of(paid.text)[:1]
            new = heard.add_claims(listed)
            claim = _Claim(number, "".join(new), REVISION, length, {}, (paid,), "".join(listed))
            yield from self._check_all(heard, [claim])
            if not new:
                return

    def _hear_until_extraction(self, heard: _HeardText) -> Steps:
        """Listens up to the next word at which the extractor runs, the last one of the text always among them. Returns
        whether there is one.
        """
        before = len(heard.text.words)
        heard.text = UnfoldingText((yield Hear(before, words_ahead(self.every))))
        return len(heard.text.words) > before

    def _claims_at_position(self, heard: _HeardText) -> Steps:
        """The claims of a position, and one without text where the extractor named no further one."""
        position, whole = len(heard.text.words), heard.whole
        place, sentence = whole.sentence_of(position), whole.begun_sentence(position)
        unit: dict[str, int] = {}
        if self.every == SENTENCES or (self.every != END and whole is not heard.text):
            words = whole.sentence(place).split()
            unit = {"unit": place, "unit_words": len(words), "unit_entities": count_names(words)}
        claims = list[_Claim]()
        for text, paid, repeated in (yield from self._extract_claims(heard, sentence)):
            claims.append(_Claim(next(heard.numbers), text, STREAM, position, unit, paid, repeated))
        return claims

    def _extract_claims(self, heard: _HeardText, sentence: str) -> Steps:
        """(claim, what naming it cost, what was named again) in order; a last one of no words where the extractor named
        none but, perhaps, one that it had named.
        """
        if self.extract == SENTENCES:
            return [*((claim, (), "") for claim in heard.add_claims([sentence])), ("", (), "")]
        claims: list[tuple[str, tuple[Paid, ...], str]] = []
        while self.claims is None or len(heard.claims) < self.claims:
            if self.claims is None and len(heard.claims) >= len(heard.text.words) + MORE_CLAIMS:
                raise LimitError(
                    f"the extractor named {len(heard.claims)} claims of {len(heard.text.words)} words, and does not"
                    " end: give a number of `claims`, or let its prompt say what to write where there is no further one"
                )
            revealed = {"revealed": heard.text.text, "sentence": sentence}
            reply = yield from self._ask(heard, self.prompt, self.extract_engine, **revealed)
            listed = list(dict.fromkeys(claims_of(reply.text)))
            further = [one for one in listed if one not in heard.claims] if self.one_shot else listed[:1]
            room = None if self.claims is None else self.claims - len(heard.claims)
            new = heard.add_claims(further[:room])
            claims += [(one, () if place else (reply,), "") for place, one in enumerate(new)]
            if self.one_shot or not new:
                cut = self.one_shot and (len(new) < len(further) or reply.finish_reason == "length")
                end = ("", (), "") if new else ("", (reply,), "".join(listed[:1]))
                return claims if cut and new else [*claims, end]
        return claims

    def _ask(self, heard: _HeardText, file: str, engine: str | None, **fields: str) -> Steps:
        """One reply to a prompt that has the claims so far."""
        lines = heard.claims
        if self.sees == "verdicts":
            lines = [f"{claim} ({heard.verdicts.get(claim, NOT_ENOUGH)})" for claim in heard.claims]
        prompt = heard.example.prompt(file, claims="\n".join(lines), **fields)
        (reply,) = yield Ask(prompt, self.max_tokens, temperature=self.temperature, engine=engine)
        return reply

    def _check_all(self, heard: _HeardText, claims: Sequence[_Claim]) -> Steps:
        """Checks claims side by side and yields their rows in order. RefusedError where a claim was refused."""
        checked = (yield Together([self._check_claim(heard, one) for one in claims])) if claims else []
        for claim, rows in zip(claims, checked, strict=True):
            if rows is None:
                raise RefusedError("a check was refused")
            yield from rows
            heard.verdicts[claim.text] = rows[-1].columns["verdict"]

    def _check_claim(self, heard: _HeardText, claim: _Claim) -> Steps:
        """The rows of a claim: its rounds, or that there is none."""
        if not claim.text:
            return [claim.log_row(0, NO_CLAIM, claim.opening)]
        matches = yield from self._matches_error(heard, claim.text)
        gold = {"matches_error": matches, "gold_verdict": heard.labels.get(_forms([claim.text])[0])}
        rows, evidence, paid = list[Row](), list[str](), list(claim.opening)
        query, seen = "", 0
        for number in range(self.max_rounds):
            if not query:
                query, written = yield from write_query(
                    heard.example, self.query_prompt, claim.text, self.max_tokens, self.query_engine
                )
                paid += written
            results = yield Search(query, self.search, seen + self.top)
            passages, documents, seen = results.texts[seen:], list(results.ids[seen:]), seen + self.top
            paid.append(results)
            following = ""
            if self.filter_prompt is not None:
                read = {"passages": "\n\n".join(passages), "query": query, "evidence": "\n\n".join(evidence)}
                prompt = heard.example.prompt(self.filter_prompt, claim=claim.text, **read)
                (reply,) = yield Ask(prompt, self.max_tokens, engine=self.filter_engine)
                paid.append(reply)
                match = _NEXT_QUERY.search(reply.text)
                following = "" if match is None else match[1].strip()
                following = following if claims_of(following) and following.lower() != query.lower() else ""
                passages = tuple(part for part in (_NEXT_QUERY.sub("", reply.text).strip(),) if part)
            evidence += [passage for passage in passages if passage not in evidence]
            prompt = heard.example.prompt(self.check_prompt, claim=claim.text, evidence="\n\n".join(evidence))
            logprobs = self.max_tokens if self.confidence == TOKEN else 0
            (reply,) = yield Ask(prompt, self.max_tokens, logprobs=logprobs, engine=self.check_engine)
            paid.append(reply)
            verdict = verdict_of(reply.text)
            columns: dict[str, Any] = {
                "confidence": confidence_of(reply, self.confidence),
                "evidence": "\n\n".join(evidence) or None,
            }
            columns |= {"documents": documents} if results.ids else {}
            rows.append(claim.log_row(number, verdict, paid, **gold, **columns))
            if verdict != NOT_ENOUGH:
                break
            paid, query, seen = [], following or query, 0 if following else seen
        return rows

    def _matches_error(self, heard: _HeardText, claim: str) -> Steps:
        """Whether a claim names the error of its text; None where that is not known."""
        example = heard.example
        error = self._sentence_of_error(heard) if self.match == SENTENCE else example.fields.get("error", "")
        if not error:
            return False if example.fields.get("gold_error", "").lower() == "false" else None
        if self.match in (EQUAL, SENTENCE):
            mine, real = _forms([claim, error])
            return mine == real
        if self.match == PROMPT:
            prompt = example.prompt(str(self.match_prompt), claim=claim)
            (reply,) = yield Ask(prompt, self.max_tokens, engine=self.match_engine)
            return bool(_YES.match(reply.text))
        scores = yield Score(((claim, error),), str(self.meaning))
        return ENTAILS in scores.values

    @staticmethod
    def _sentence_of_error(heard: _HeardText) -> str:
        """The sentence in which the word stands that first shows the error; empty where that is not known."""
        place = heard.example.fields.get("gold_position", "")
        return heard.whole.sentence(heard.whole.sentence_of(int(place))) if place else ""

    def on_texts(self, texts: Sequence[str]) -> Self:
        words = max((len(text.split()) for text in texts), default=0)
        return replace(self, positions=most_positions(texts, self.every), words=words)

    @property
    def most_repeated_tokens(self) -> int:
        """The tokens that a prompt repeats at most: of all claims, or of what the filter kept for one."""
        return self.max_tokens * max(self._most_claims + self.revisions, self.max_rounds)

    @property
    def _most_claims(self) -> int:
        """The most claims that are extracted from a text."""
        limit = self.positions if self.extract == SENTENCES else self.words + MORE_CLAIMS
        return limit if self.claims is None else min(self.claims, limit)

    @property
    def most_requests(self) -> int:
        rounds = self.max_rounds * (2 + (self.filter_prompt is not None)) + 2
        checked = self._most_claims + (self.revisions if self.revise_prompt is not None else 0)
        return self.positions + checked * (rounds + (self.match != EQUAL))

    @property
    def most_traces(self) -> int:
        return 0


def _forms(texts: Sequence[str]) -> list[str]:
    """The normal form of some texts, in which those of the same words are equal."""
    return text_forms(pl.Series([one.strip() for one in texts], dtype=pl.String)).to_list()
