"""A world of invented people, works, towns and regions, by a seed: entities, and facts that agree with each other.

Families go over several generations: parents are 20 to 40 years old when a child is born, and live at least until then;
a film, novel or song was made by somebody of 22 to 70 years. Some people married twice. Names are shared: children have
their father's surname, first names repeat, a film and a novel may have one title.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from generate.worlds.names import FEMALE, MALE, MONTHS, OCCUPATIONS, REGIONS, SURNAMES, TITLE_ENDS, TITLE_STARTS, TOWNS

WOMAN, MAN, TOWN, REGION = "woman", "man", "town", "region"
PEOPLE = (WOMAN, MAN)


@dataclass(frozen=True)
class WorkKind:
    """What a kind of work has: the noun for its maker, the verb, its participle, and the year of the first work."""

    maker: str
    verb: str
    participle: str
    first: int


WORKS: Mapping[str, WorkKind] = {
    "film": WorkKind("director", "directed", "directed", 1920), "novel": WorkKind("writer", "wrote", "written", 1800),
    "song": WorkKind("composer", "composed", "composed", 1800),
}  # fmt: skip


@dataclass(frozen=True)
class Entity:
    """Somebody or something with a name. Two of one kind never share it."""

    kind: str
    name: str


@dataclass(frozen=True, order=True)
class Date:
    """A day. As text `14 March 1921`."""

    year: int
    month: int
    day: int

    def __str__(self) -> str:
        return f"{self.day} {MONTHS[self.month - 1]} {self.year}"


Value = Entity | Date | int | str
Fact = tuple[Entity, str]
"""An entity and a relation; a world has its values."""


@dataclass(frozen=True)
class World:
    """Entities in the order in which they were drawn, and the values of each fact, one or two.

    Relations: `born`, `died` (a Date), `birthplace` (a town), `father`, `mother`, `spouse`, `child` (people),
    `occupation` (a fine class) of people; `maker`, `released` (a year) of works; `region`, `founded` (a year) of towns;
    `capital`, `governor` of regions.
    """

    entities: tuple[Entity, ...]
    facts: Mapping[Fact, tuple[Value, ...]]

    def values(self, entity: Entity, relation: str) -> tuple[Value, ...]:
        """The values of a fact; none where the world has no such fact."""
        return self.facts.get((entity, relation), ())

    def of_kind(self, *kinds: str) -> tuple[Entity, ...]:
        """The entities of some kinds."""
        if kinds not in self._of_kinds:
            self._of_kinds[kinds] = tuple(entity for entity in self.entities if entity.kind in kinds)
        return self._of_kinds[kinds]

    @cached_property
    def _of_kinds(self) -> dict[tuple[str, ...], tuple[Entity, ...]]:
        return {}


def make_world(seed: int, people: int = 900) -> World:
    """The world of a seed with about so many people, as many works, and towns and regions for them."""
    return _WorldMaker(random.Random(f"world {seed} {people}"), people).world()


@dataclass
class _WorldMaker:
    """A world that is being drawn."""

    rng: random.Random
    people: int
    facts: dict[Fact, tuple[Value, ...]] = field(default_factory=dict)
    persons: list[Entity] = field(default_factory=list)
    names: set[str] = field(default_factory=set)

    def world(self) -> World:
        towns, regions = self._places()
        while len(self.persons) < self.people:
            self._family(towns)
        for person in self.persons:
            self._life(person)
        for region in regions:
            self.facts[region, "governor"] = (self.rng.choice(self.persons),)
        works = list(self._works())
        return World((*self.persons, *works, *towns, *regions), self.facts)

    def _places(self) -> tuple[list[Entity], list[Entity]]:
        size = min(len(TOWNS), max(6, self.people // 7))
        towns = [Entity(TOWN, name) for name in self.rng.sample(TOWNS, size)]
        regions = [Entity(REGION, name) for name in self.rng.sample(REGIONS, min(len(REGIONS), max(3, size // 5)))]
        for place, town in enumerate(towns):
            region = regions[place % len(regions)]
            self.facts[town, "region"] = (region,)
            self.facts[town, "founded"] = (self.rng.randint(1650, 1790),)
            if place < len(regions):
                self.facts[region, "capital"] = (town,)
        return towns, regions

    def _person(self, kind: str, surname: str, born: int, towns: Sequence[Entity]) -> Entity:
        first_names = FEMALE if kind == WOMAN else MALE
        name = f"{self.rng.choice(first_names)} {surname}"
        while name in self.names:
            name = f"{self.rng.choice(first_names)} {surname}"
        self.names.add(name)
        person = Entity(kind, name)
        self.persons.append(person)
        self.facts[person, "born"] = (Date(born, self.rng.randint(1, 12), self.rng.randint(1, 28)),)
        self.facts[person, "birthplace"] = (self.rng.choice(towns),)
        return person

    def _family(self, towns: Sequence[Entity]) -> None:
        """A couple, their children, and the children's families, as long as years and numbers last."""
        year = self.rng.randint(1790, 1900)
        husband = self._person(MAN, self.rng.choice(SURNAMES), year, towns)
        waiting = [(husband, year)]
        while waiting and len(self.persons) < self.people:
            person, born = waiting.pop(0)
            partners = 2 if self.rng.random() < 0.25 else 1
            spouses, children = list[Value](), list[Value]()
            for _ in range(partners):
                kind = WOMAN if person.kind == MAN else MAN
                near = born + self.rng.randint(-4, 4)
                spouse = self._person(kind, self.rng.choice(SURNAMES), near, towns)
                father, mother = (person, spouse) if person.kind == MAN else (spouse, person)
                siblings = list[Value]()
                for _ in range(self.rng.choice((0, 1, 1, 2)) if partners == 2 else self.rng.choice((1, 2, 2))):
                    later = max(born, near) + self.rng.randint(22, 34)
                    if later > 1975 or len(children) == 2:
                        break
                    child = self._person(self.rng.choice(PEOPLE), father.name.split()[-1], later, towns)
                    self.facts[child, "father"], self.facts[child, "mother"] = (father,), (mother,)
                    siblings.append(child)
                    children.append(child)
                    if self.rng.random() < 0.6:
                        waiting.append((child, later))
                spouses.append(spouse)
                self.facts[spouse, "spouse"] = (person,)
                if siblings:
                    self.facts[spouse, "child"] = tuple(siblings)
            self.facts[person, "spouse"] = tuple(spouses)
            if children:
                self.facts[person, "child"] = tuple(children)

    def _life(self, person: Entity) -> None:
        """The occupation of a person, and the death of most."""
        self.facts[person, "occupation"] = (self.rng.choice([one for fine in OCCUPATIONS.values() for one in fine]),)
        born = self._year(person, "born")
        last = max((self._year(child, "born") for child in self._people(person, "child")), default=born)
        died = max(last + 1, born + self.rng.randint(45, 92))
        if died <= 2000 and self.rng.random() < 0.8:
            self.facts[person, "died"] = (Date(died, self.rng.randint(1, 12), self.rng.randint(1, 28)),)

    def _works(self) -> Iterator[Entity]:
        titles = [f"The {start} {end}" for start in TITLE_STARTS for end in TITLE_ENDS]
        self.rng.shuffle(titles)
        for title in titles[: self.people // 2]:
            kinds = self.rng.sample(list(WORKS), 2 if self.rng.random() < 0.5 else 1)
            for kind in kinds:
                first = WORKS[kind].first
                makers = [one for one in self.rng.sample(self.persons, min(40, len(self.persons)))
                          if self._last_year(one) >= max(first, self._year(one, "born") + 22)]  # fmt: skip
                if makers:
                    maker = makers[0]
                    start = max(first, self._year(maker, "born") + 22)
                    work = Entity(kind, title)
                    self.facts[work, "maker"] = (maker,)
                    self.facts[work, "released"] = (self.rng.randint(start, self._last_year(maker)),)
                    yield work

    def _last_year(self, person: Entity) -> int:
        """The last year in which somebody can have made a work."""
        born = self._year(person, "born")
        return min(2000, born + 70, self._year(person, "died") if (person, "died") in self.facts else 2000)

    def _year(self, person: Entity, relation: str) -> int:
        (value,) = self.facts[person, relation]
        assert isinstance(value, Date)
        return value.year

    def _people(self, person: Entity, relation: str) -> list[Entity]:
        return [one for one in self.facts.get((person, relation), ()) if isinstance(one, Entity)]
