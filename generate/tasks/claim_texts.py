"""Training texts about the claims of texts that unfold, as the loop `listen` prompts for them.

extract   a text up to the end of a sentence, and claims of it -> the first claim that is not among them, or `None`
query     a claim -> the question for its first fact
filter    passages, a claim, the facts so far and a question -> the fact that answers it, and the next question if
          the claim needs one; nothing where the passages do not tell it
compare   a fact and a claim, which may differ in a value -> `supported` or `refuted`; what a small model must learn
          first to check, or to say what is relevant
check     facts or passages, and a claim -> `supported`, `refuted` or `not enough`
verdict   passages and a text, whole or up to the end of a sentence -> `supported` or `refuted`
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from generate.tasks.formats import fill_prompt
from generate.tasks.task import TaskText
from generate.tasks.world_texts import PASSAGES, DrawText, gather, passages_text
from generate.worlds.passages import Passage, WorldPassages, subject_of
from generate.worlds.questions import Hop, walk
from generate.worlds.texts import ClaimText, TextClaim, draw_text, text_of, with_wrong_value
from generate.worlds.world import PEOPLE, WORKS

CLAIM_PROMPTS: Mapping[str, str] = {
    "extract": "Text: {{revealed}}\nClaims:\n{{claims}}\nNext:\n",
    "claims": "Text: {{revealed}}\nClaims:\n",
    "query": "Claim: {{claim}}\nQuestion:\n",
    "filter": "{{passages}}\n\nClaim: {{claim}}\n{{evidence}}\nQuestion: {{query}}\nAnswer:\n",
    "check": "{{evidence}}\n\nClaim: {{claim}}\nVerdict:\n",
    "verdict": "{{passages}}\n\nText: {{revealed}}\nVerdict:\n",
}
"""The prompts of the formats, with the fields that loops fill in."""
NO_FURTHER = "None"
NEXT_QUERY = "Next query:"
SUPPORTED, REFUTED, NOT_ENOUGH = "supported", "refuted", "not enough"
_OMITTED = 0.1
"""How often a claim is not among those that were named, though a later one is."""
_ABSENT = 0.25
"""How often a passage that a question needs is not there, or a fact of a check."""
_SEVERAL = 6
"""Most questions or claims that are put to the same passages."""
_STRAY = 0.2
"""How often facts of another claim stand among those of a check."""
_COMPARED = 10
"""Claims of a text to compare."""
_FILTERED = 0.75
"""How often a check reads facts, as a filter keeps them; else passages."""


def _draw(place: WorldPassages, rng: random.Random) -> ClaimText | None:
    return draw_text(place.world, rng.random() < 0.5, rng)


def _draw_claim(place: WorldPassages, rng: random.Random) -> TextClaim | None:
    """A claim of a text, right or wrong."""
    text = _draw(place, rng)
    return None if text is None else _right_or_wrong(place, rng.choice(text.claims), rng)


def _right_or_wrong(place: WorldPassages, claim: TextClaim, rng: random.Random) -> TextClaim:
    """A claim, half of the time with another value."""
    return (with_wrong_value(place.world, claim, rng) or claim) if rng.random() < 0.5 else claim


def _extract_text(place: WorldPassages, rng: random.Random) -> TaskText | None:
    text = _draw(place, rng)
    if text is None:
        return None
    ends = [number for number, claim in enumerate(text.claims) if claim.opening][1:]
    end = rng.choice([*ends, len(text.claims)])
    named = rng.randint(max(0, end - 3), end)
    claims = [claim for claim in text.claims[:named] if rng.random() >= _OMITTED]
    further = [claim for claim in text.claims[:end] if claim not in claims]
    prompt = fill_prompt(
        "extract", CLAIM_PROMPTS, revealed=text_of(text.claims[:end]), claims="\n".join(one.statement for one in claims)
    )
    return TaskText("extract", prompt, further[0].statement if further else NO_FURTHER)


def _claims_text(place: WorldPassages, rng: random.Random) -> TaskText | None:
    text = _draw(place, rng)
    if text is None:
        return None
    lines = "\n".join(claim.statement for claim in text.claims)
    return TaskText("claims", fill_prompt("claims", CLAIM_PROMPTS, revealed=text.text), lines)


def _query_text(place: WorldPassages, rng: random.Random) -> TaskText | None:
    claim = _draw_claim(place, rng)
    if claim is None:
        return None
    return TaskText("query", fill_prompt("query", CLAIM_PROMPTS, claim=claim.statement), claim.hops[0].question)


def _filter_text(place: WorldPassages, rng: random.Random) -> TaskText | None:
    text = _draw(place, rng)
    if text is None:
        return None
    steps = [(claim, number) for claim in text.claims for number in range(len(claim.hops))]
    steps = rng.sample(steps, min(_SEVERAL, len(steps)))
    passages = _passages_for(place, [claim.hops[number] for claim, number in steps], rng)
    text_before, pairs = passages_text(passages), list[tuple[str, str]]()
    for claim, number in steps:
        hop, following = claim.hops[number], claim.hops[number + 1 : number + 2]
        lines = [hop.statement, *(f"{NEXT_QUERY} {one.question}" for one in following)]
        prompt = fill_prompt(
            "filter", CLAIM_PROMPTS, passages=text_before, claim=_right_or_wrong(place, claim, rng).statement,
            evidence=_joined(claim.hops[:number]), query=hop.question,
        )  # fmt: skip
        pairs.append((prompt, "\n".join(lines) if _contain_facts(passages, [hop]) else ""))
        text_before = ""
    return TaskText("filter", *pairs[0], tuple(pairs[1:]))


def _compare_text(place: WorldPassages, rng: random.Random) -> TaskText:
    entities, pairs = place.world.of_kind(*PEOPLE, *WORKS), list[tuple[str, str]]()
    while len(pairs) < _COMPARED:
        entity = rng.choice(entities)
        hops = walk(place.world, entity, 1, rng)
        if hops is not None:
            claim = _right_or_wrong(place, TextClaim(hops, hops[-1].values, subject_of(entity)), rng)
            prompt = fill_prompt("check", CLAIM_PROMPTS, evidence=hops[0].statement, claim=claim.statement)
            pairs.append((prompt, SUPPORTED if claim.holds else REFUTED))
    return TaskText("compare", *pairs[0], tuple(pairs[1:]))


def _check_text(place: WorldPassages, rng: random.Random) -> TaskText | None:
    text = _draw(place, rng)
    if text is None:
        return None
    claims = rng.sample(text.claims, min(_SEVERAL, len(text.claims)))
    filtered = rng.random() < _FILTERED
    passages = [] if filtered else _passages_for(place, [hop for claim in claims for hop in claim.hops], rng)
    pairs = list[tuple[str, str]]()
    for claim in claims:  # each once: of two variants, one verdict would tell the other
        variant = _right_or_wrong(place, claim, rng)
        hops = _facts_for(claim, rng.choice(claims), rng) if filtered else ()
        evidence = _joined(hops) if filtered else passages_text(passages) if not pairs else ""
        facts = {hop.fact for hop in hops} | {fact for passage in passages for fact in passage.facts}
        enough = all(hop.fact in facts for hop in variant.hops)
        verdict = NOT_ENOUGH if not enough else SUPPORTED if variant.holds else REFUTED
        pairs.append((fill_prompt("check", CLAIM_PROMPTS, evidence=evidence, claim=variant.statement), verdict))
    return TaskText("check", *pairs[0], tuple(pairs[1:]))


def _facts_for(claim: TextClaim, other: TextClaim, rng: random.Random) -> list[Hop]:
    """The facts that a filter keeps for a claim: one may lack, and facts of another claim may stand among them."""
    absent = rng.choice(claim.hops) if rng.random() < _ABSENT else None
    hops = dict.fromkeys(hop for hop in claim.hops if hop is not absent)
    if absent is not None or rng.random() < _STRAY:
        hops |= dict.fromkeys(hop for hop in other.hops if hop is not absent)
    return rng.sample(list(hops), len(hops))


def _verdict_text(place: WorldPassages, rng: random.Random) -> TaskText | None:
    text = _draw(place, rng)
    if text is None:
        return None
    ends = [number for number, claim in enumerate(text.claims) if claim.opening][1:]
    claims = text.claims[: rng.choice([*ends, len(text.claims)])]
    passages = _passages_for(place, [hop for claim in claims for hop in claim.hops], rng)
    prompt = fill_prompt("verdict", CLAIM_PROMPTS, passages=passages_text(passages), revealed=text_of(claims))
    return TaskText("verdict", prompt, SUPPORTED if all(claim.holds for claim in claims) else REFUTED)


def _passages_for(place: WorldPassages, hops: Sequence[Hop], rng: random.Random) -> list[Passage]:
    """Passages that tell most of the facts of some hops, among others: at most `PASSAGES`."""
    needed = list(dict.fromkeys(place.passage_of_fact[hop.fact] for hop in hops))
    absent = {one for one in needed if rng.random() < _ABSENT}
    return [one for one in gather(place, needed[:PASSAGES], rng) if one not in absent]


def _contain_facts(passages: Sequence[Passage], hops: Sequence[Hop]) -> bool:
    """Whether some passages tell the facts of all hops."""
    facts = {fact for passage in passages for fact in passage.facts}
    return all(hop.fact in facts for hop in hops)


def _joined(hops: Sequence[Hop]) -> str:
    return "\n\n".join(hop.statement for hop in hops)


CLAIM_TEXTS: Mapping[str, DrawText] = {
    "extract": _extract_text, "claims": _claims_text, "query": _query_text, "filter": _filter_text,
    "compare": _compare_text, "check": _check_text, "verdict": _verdict_text,
}  # fmt: skip
"""What draws the texts of each format."""
