"""The passages of a world: an entry of about twelve words for each one or two facts, headed by its entity's name.

A passage of a work may say in what year its maker was born, and one of a family what the mother did, in coarse words:
`1921` where the answer is `14 March 1921`, `painter` where it is `court painter`.
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
from generate.worlds.world import MAN, PEOPLE, TOWN, WORKS, Date, Entity, Fact, Value, World, make_world

COARSE = {fine: coarse for coarse, all_fine in OCCUPATIONS.items() for fine in all_fine}
"""The coarse class of each fine one."""


@dataclass(frozen=True)
class Passage:
    """A passage: its heading, its text, and the facts that it tells in full."""

    title: str
    text: str
    facts: tuple[Fact, ...]

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
    return pl.DataFrame({name: [getattr(one, name) for one in passages] for name in columns})


def _entries(world: World, entity: Entity, rng: random.Random) -> Iterator[Passage]:
    if entity.kind in PEOPLE:
        texts = _person_texts(world, entity, rng)
    elif entity.kind in WORKS:
        texts = _work_texts(world, entity, rng)
    else:
        texts = _place_texts(world, entity, rng)
    for text, relations in texts:
        yield Passage(entity.name, text, tuple((entity, relation) for relation in relations))


Text = tuple[str, tuple[str, ...]]
"""A text, and the relations of its entity that it tells in full."""


def _person_texts(world: World, person: Entity, rng: random.Random) -> Iterator[Text]:
    who, whose = ("He", "His") if person.kind == MAN else ("She", "Her")
    born, birthplace, job = (name_of(world.values(person, one)[0]) for one in ("born", "birthplace", "occupation"))
    yield rng.choice((
        f"{who} was born on {born} in {birthplace}.", f"Born in {birthplace} on {born}.",
    )), ("born", "birthplace")  # fmt: skip
    if died := world.values(person, "died"):
        yield rng.choice((
            f"{who} was a {job} and died on {died[0]}.", f"The {job} died on {died[0]}.",
        )), ("occupation", "died")  # fmt: skip
    else:
        yield rng.choice((f"{who} worked as a {job}.", f"Known as a {job}.")), ("occupation",)
    if father := world.values(person, "father"):
        mother = world.values(person, "mother")[0]
        assert isinstance(mother, Entity)
        coarse = f"the {COARSE[str(world.values(mother, 'occupation')[0])]} " if rng.random() < 0.5 else ""
        yield rng.choice((
            f"{whose} father was {name_of(father[0])} and {whose.lower()} mother {coarse}{mother.name}.",
            f"Child of {name_of(father[0])} and {coarse}{mother.name}.",
        )), ("father", "mother")  # fmt: skip
    if spouses := world.values(person, "spouse"):
        married = " and later ".join(map(name_of, spouses))
        children = world.values(person, "child")
        names = " and ".join(map(name_of, children))
        end = f", with {'children' if len(children) > 1 else 'a child'} {names}" if children else ""
        yield (
            rng.choice((f"{who} married {married}{end}.", f"Married {married}{end}.")),
            ("spouse", "child")[: 1 + bool(children)],
        )


def _work_texts(world: World, work: Entity, rng: random.Random) -> Iterator[Text]:
    (maker,), (year,) = world.values(work, "maker"), world.values(work, "released")
    assert isinstance(maker, Entity)
    (born,) = world.values(maker, "born")
    assert isinstance(born, Date)
    end = f", born in {born.year}" if rng.random() < 0.4 else ""
    verb = WORKS[work.kind].participle
    yield rng.choice((
        f"The {work.kind} of {year} was {verb} by {maker.name}{end}.",
        f"A {work.kind} from {year}, {verb} by {maker.name}{end}.",
    )), ("maker", "released")  # fmt: skip


def _place_texts(world: World, place: Entity, rng: random.Random) -> Iterator[Text]:
    if place.kind == TOWN:
        region, founded = (name_of(world.values(place, one)[0]) for one in ("region", "founded"))
        yield rng.choice((
            f"The town in {region} was founded in {founded}.", f"A town of {region}, founded in {founded}.",
        )), ("region", "founded")  # fmt: skip
        return
    capital, governor = (name_of(world.values(place, one)[0]) for one in ("capital", "governor"))
    yield rng.choice((
        f"The region has the capital {capital} and was governed by {governor}.",
        f"A region governed by {governor}, with the capital {capital}.",
    )), ("capital", "governor")  # fmt: skip


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
