"""Texts about a world that unfold sentence by sentence, of which half hold one wrong fact.

    Jorwin Ashberg was born in Arndale. He had the occupation crime writer and married Marana Holgate. The mother of
    Jorwin Ashberg was born in Eskfell.

A sentence tells one claim or two. A later claim of somebody may name them `He`; one of several hops is told of somebody
whom other claims would name. A wrong claim has another value of its kind. It is told as soon as a word stands that the
right one would not have.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from itertools import zip_longest

from generate.worlds.passages import clause_of, name_of, subject_of
from generate.worlds.questions import Hop, walk, words_of_chain
from generate.worlds.world import MAN, PEOPLE, WOMAN, WORKS, Entity, Fact, Value, World

_PRONOUNS = {WOMAN: "She", MAN: "He"}
_SHORT, _LONG = 4, 8
_SEVERAL = 0.5
"""How often a claim of several hops follows those of one person or work."""
_JOINED = 0.4
"""How often a claim stands in the sentence of the claim before."""
_MENTIONED = 0.6
"""How often the next person or work is one that stands in the text."""


@dataclass(frozen=True)
class TextClaim:
    """A claim of a text: the hops by which it is checked, and the value that it gives, the right one or another.
    opening: what its sentence begins with; empty where it goes on the sentence of the claim before.
    """

    hops: tuple[Hop, ...]
    values: tuple[Value, ...]
    opening: str

    @property
    def clause(self) -> str:
        """The claim as a clause, without its subject."""
        entity, relation = self.hops[-1].fact
        return clause_of(entity.kind, relation, self.values)

    @property
    def statement(self) -> str:
        """The claim, understood without its text."""
        return f"{_subject_of_chain(self.hops)} {self.clause}."

    @property
    def holds(self) -> bool:
        """Whether the claim is true in its world."""
        return self.values == self.hops[-1].values


@dataclass(frozen=True)
class ClaimText:
    """A text, by its claims in order. gold_position: words up to the first that tells the error, if there is one."""

    claims: tuple[TextClaim, ...]
    gold_position: int | None = None

    @property
    def text(self) -> str:
        """The words of the text."""
        return text_of(self.claims)

    @property
    def error(self) -> TextClaim | None:
        """The claim that does not hold."""
        return next((claim for claim in self.claims if not claim.holds), None)


def text_of(claims: Sequence[TextClaim]) -> str:
    """The sentences that tell some claims; empty without any."""
    words = ""
    for claim in claims:
        start = f"{'. ' if words else ''}{claim.opening}" if claim.opening else " and"
        words += f"{start} {claim.clause}"
    return f"{words}." if words else ""


def draw_text(world: World, flawed: bool, rng: random.Random) -> ClaimText | None:
    """Draws a text, with one wrong claim where it is `flawed`; None where this try came to nothing."""
    claims = draw_claims(world, rng)
    if not flawed:
        return ClaimText(tuple(claims))
    right = text_of(claims).split()
    hops = rng.choice(sorted({len(claim.hops) for claim in claims}))
    place = rng.choice([place for place, claim in enumerate(claims) if len(claim.hops) == hops])
    wrong = with_wrong_value(world, claims[place], rng)
    if wrong is None:
        return None
    claims[place] = wrong
    pairs = enumerate(zip_longest(text_of(claims).split(), right), start=1)
    return ClaimText(tuple(claims), next(number for number, (one, other) in pairs if one != other))


def with_wrong_value(world: World, claim: TextClaim, rng: random.Random) -> TextClaim | None:
    """The claim with another value of its kind; None where it has two values, or nobody else has another."""
    entity, relation = claim.hops[-1].fact
    others = {value for one in world.of_kind(entity.kind) for value in world.values(one, relation)}
    others -= set(claim.hops[-1].values)
    if len(claim.values) > 1 or not others:
        return None
    return replace(claim, values=(rng.choice(sorted(others, key=name_of)),))


def draw_claims(world: World, rng: random.Random) -> list[TextClaim]:
    """The claims of a text of four to eight sentences, all right."""
    claims, size = list[TextClaim](), rng.randint(_SHORT, _LONG)
    while sum(claim.opening != "" for claim in claims) < size:
        values = [value for claim in claims for hop in claim.hops for value in (hop.fact[0], *hop.values)]
        mentioned = [one for one in values if isinstance(one, Entity) and one.kind in (*PEOPLE, *WORKS)]
        fresh = not mentioned or rng.random() >= _MENTIONED
        entity = rng.choice(world.of_kind(*PEOPLE, *WORKS) if fresh else mentioned)
        for claim in _claims_about(world, entity, {claim.hops[-1].fact for claim in claims}, rng):
            if sum(one.opening != "" for one in (*claims, claim)) > size:
                break
            claims.append(claim)
    return claims


def _claims_about(world: World, entity: Entity, facts: Set[Fact], rng: random.Random) -> Iterator[TextClaim]:
    """Up to three claims of one hop about somebody or something, then perhaps one of several; none ends in `facts`."""
    steps = {hops[0].fact: hops for _ in range(rng.randint(1, 3)) if (hops := walk(world, entity, 1, rng))}
    opening = subject_of(entity)
    for fact, hops in steps.items():
        if fact not in facts:
            yield TextClaim(hops, hops[-1].values, opening)
            opening = "" if rng.random() < _JOINED else _PRONOUNS.get(entity.kind, "It")
    hops = walk(world, entity, rng.choice((2, 3)), rng) or ()
    if hops and rng.random() < _SEVERAL and hops[-1].fact not in facts | set(steps):
        yield TextClaim(hops, hops[-1].values, _subject_of_chain(hops))


def _subject_of_chain(hops: Sequence[Hop]) -> str:
    """Whom or what the last of some hops is about, as a sentence begins: `The mother of Liina Pemford`."""
    if len(hops) == 1:
        return subject_of(hops[0].fact[0])
    words = words_of_chain(hops)
    return words[0].upper() + words[1:]
