"""The passages of a world: an entry of one or two sentences, each a fact, headed by its entity's name.

A passage of a work may say what its maker did, and one of a family in what year a parent was born, in coarse words:
`painter` where the answer is `court painter`, `1921` where it is `14 March 1921`.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import polars as pl

from generate.worlds.names import OCCUPATIONS
from generate.worlds.world import PEOPLE, REGION, TOWN, WORKS, Date, Entity, Fact, Value, World, make_world

COARSE = {fine: coarse for coarse, all_fine in OCCUPATIONS.items() for fine in all_fine}
"""The coarse class of each fine one."""


@dataclass(frozen=True)
class Passage:
    """A passage: its heading, its text, the facts that it tells in full, and those that it tells in coarse words."""

    title: str
    text: str
    facts: tuple[Fact, ...]
    coarse: tuple[Fact, ...] = ()

    @cached_property
    def id(self) -> str:
        """Sixteen hexadecimal digits of SHA-256 of heading and text."""
        return hashlib.sha256(f"{self.title}\n{self.text}".encode()).hexdigest()[:16]

    def __str__(self) -> str:
        return f"{self.title}: {self.text}"


def name_of(value: Value) -> str:
    """A value as passages and answers have it."""
    return value.name if isinstance(value, Entity) else str(value)


def passages_of(world: World, seed: int) -> tuple[Passage, ...]:
    """The passages of a world, in an order and with wordings that the seed draws."""
    rng = random.Random(f"passages {seed}")
    rows = [passage for entity in world.entities for passage in _entries(world, entity, rng)]
    rng.shuffle(rows)
    return tuple(rows)


def passage_frame(passages: tuple[Passage, ...]) -> pl.DataFrame:
    """The table of a corpus: `id`, `title`, `text`."""
    columns = ("id", "title", "text")
    return pl.DataFrame({name: [getattr(passage, name) for passage in passages] for name in columns})


def _entries(world: World, entity: Entity, rng: random.Random) -> Iterator[Passage]:
    groups = _GROUPS[entity.kind]
    if entity.kind in PEOPLE and rng.random() < 0.5:
        groups = _OTHER_GROUPS
    for group in groups:
        relations = [one for one in group if world.values(entity, one)]
        rng.shuffle(relations)
        if relations:
            coarse = {relation: _coarse_facts(world, entity, relation, rng) for relation in relations}
            text = " ".join(_sentence(world, entity, one, coarse[one]) for one in relations)
            full = tuple((entity, one) for one in relations)
            yield Passage(entity.name, text, full, tuple(fact for facts in coarse.values() for fact in facts))


_GROUPS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    **dict.fromkeys(PEOPLE, (("born", "birthplace"), ("occupation", "died"), ("father", "mother"),
                             ("spouse", "child"))),
    **dict.fromkeys(WORKS, (("maker", "released"),)), TOWN: (("region", "founded"),),
    REGION: (("capital", "governor"),),
}  # fmt: skip
"""The relations that a passage tells together, by the kind of its entity."""
_OTHER_GROUPS = (("born", "died"), ("occupation", "birthplace"), ("father", "mother"), ("spouse", "child"))
"""Those of every other person."""
_SENTENCES: Mapping[str, str] = {
    "born": "was born on {}", "birthplace": "was born in {}", "died": "died on {}",
    "occupation": "had the occupation {}", "father": "had the father {}", "mother": "had the mother {}",
    "spouse": "married {}", "child": "had the child {}",
    "released": "came out in {}", "region": "lies in {}", "founded": "was founded in {}",
    "capital": "has the capital {}", "governor": "was governed by {}",
}  # fmt: skip
"""What a sentence says of an entity by each relation but `maker`."""


def subject_of(entity: Entity) -> str:
    """Who or what a sentence begins with: a name, of a work with its kind."""
    return f"{f'The {entity.kind} ' if entity.kind in WORKS else ''}{entity.name}"


def clause_of(kind: str, relation: str, values: Sequence[Value]) -> str:
    """What a sentence says of an entity of a kind, by the values of a relation: `had the father Kelric Pemford`."""
    names = (" and later " if relation == "spouse" else " and ").join(map(name_of, values))
    if relation == "maker":
        return f"was {WORKS[kind].participle} by {names}"
    clause = _SENTENCES[relation].format(names)
    return clause.replace("child", "children") if relation == "child" and len(values) > 1 else clause


def statement_of(world: World, entity: Entity, relation: str) -> str:
    """A fact as a clause: `Liina Pemford had the father Kelric Pemford`."""
    return f"{subject_of(entity)} {clause_of(entity.kind, relation, world.values(entity, relation))}"


def coarse_value(world: World, entity: Entity, relation: str) -> str:
    """The year of somebody's birth, or the class of an occupation: true, but less than is asked for."""
    (value,) = world.values(entity, relation)
    return str(value.year) if isinstance(value, Date) else COARSE[str(value)]


def coarse_statement(world: World, entity: Entity, relation: str) -> str:
    """A fact as a clause in coarse words: `Liina Pemford was born in 1921`."""
    return f"{entity.name} {_COARSE_CLAUSES[relation].format(coarse_value(world, entity, relation))}"


def _coarse_facts(world: World, entity: Entity, relation: str, rng: random.Random) -> tuple[Fact, ...]:
    """What a sentence on a fact tells in passing of the fact's value: one fact or none."""
    if relation not in _COARSE_RELATIONS or rng.random() >= _COARSE_RATE:
        return ()
    (other,) = world.values(entity, relation)
    assert isinstance(other, Entity)
    return ((other, _COARSE_RELATIONS[relation]),)


_COARSE_RATE = 0.5
"""How often a sentence on a maker or a parent tells a coarse fact in passing."""
_COARSE_RELATIONS: Mapping[str, str] = {"maker": "occupation", "father": "born", "mother": "born"}
"""What a sentence may tell in passing, by its own relation."""
_COARSE_CLAUSES: Mapping[str, str] = {"occupation": "had the occupation {}", "born": "was born in {}"}
_COARSE_ENDS: Mapping[str, str] = {"occupation": ", {}", "born": ", born in {}"}


def _sentence(world: World, entity: Entity, relation: str, coarse: Sequence[Fact]) -> str:
    """A fact as a passage tells it, with what it tells of the fact's value in passing."""
    end = "".join(_COARSE_ENDS[of].format(coarse_value(world, other, of)) for other, of in coarse)
    return f"{statement_of(world, entity, relation)}{end}."


@dataclass(frozen=True)
class WorldPassages:
    """A world with its passages."""

    world: World
    passages: tuple[Passage, ...]

    @cached_property
    def passage_of_fact(self) -> Mapping[Fact, Passage]:
        """The passage that tells each fact in full."""
        return {fact: passage for passage in self.passages for fact in passage.facts}

    @cached_property
    def coarse_passage_of_fact(self) -> Mapping[Fact, Passage]:
        """A passage that tells a fact in coarse words, of those facts that have one."""
        return {fact: passage for passage in self.passages for fact in passage.coarse}

    @cached_property
    def places_of_word(self) -> Mapping[str, Sequence[int]]:
        """The places of the passages that hold each word."""
        places: dict[str, list[int]] = defaultdict(list)
        for place, passage in enumerate(self.passages):
            for word in set(re.findall(r"\w+", str(passage))):
                places[word].append(place)
        return places

    def alike(self, passage: Passage, most: int, rng: random.Random) -> list[Passage]:
        """Passages, at most so many, that share a word of a passage's heading."""
        words = [word for word in passage.title.split() if word != "The"]
        places = {place for word in words for place in self.places_of_word[word]}
        return [self.passages[place] for place in rng.sample(sorted(places), min(most, len(places)))]


def draw_world(seed: int, people: int) -> WorldPassages:
    """The world of a seed, with its passages."""
    world = make_world(seed, people)
    return WorldPassages(world, passages_of(world, seed))
