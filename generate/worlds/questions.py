"""Questions of several hops about a world: of bridges, of time order, and of what two have in common.

    Where was the director of the film The Golden Promise born?
        Who directed the film The Golden Promise?   Edwin Morham
        Where was Edwin Morham born?                Dresvik
    Which film has the director who was born first, The Golden Promise or The Silent Tower?
    Were Edwin Morham and Liina Pemford born in the same region?

A hop asks for one fact. Where a fact has two values, both are right. No answer stands in its question, unless the
question names the candidates.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from generate.worlds.passages import coarse_statement, coarse_value, name_of, statement_of
from generate.worlds.world import PEOPLE, REGION, TOWN, WORKS, Date, Entity, Fact, Value, World

_QUESTIONS: Mapping[str, str] = {
    "released": "When did {x} come out?", "born": "When was {x} born?", "died": "When did {x} die?",
    "birthplace": "Where was {x} born?", "occupation": "What was the occupation of {x}?",
    "father": "Who was the father of {x}?", "mother": "Who was the mother of {x}?", "spouse": "Whom did {x} marry?",
    "child": "Who was a child of {x}?", "region": "In which region is {x}?", "founded": "When was {x} founded?",
    "capital": "What is the capital of {x}?", "governor": "Who governed {x}?",
}  # fmt: skip
"""The question for each relation but `maker`."""
_PHRASES: Mapping[str, str] = {
    "birthplace": "birthplace of {x}", "father": "father of {x}", "mother": "mother of {x}", "spouse": "spouse of {x}",
    "child": "child of {x}", "region": "region of {x}", "capital": "capital of {x}", "governor": "governor of {x}",
}  # fmt: skip
_FAMILY = ("father", "mother", "spouse", "child")
_STEPS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(PEOPLE, (*_FAMILY, *_FAMILY, "birthplace")), **dict.fromkeys(WORKS, ("maker",)), TOWN: ("region",),
    REGION: ("capital", "governor"),
}  # fmt: skip
"""The relations by which a bridge goes on from each kind; those that stand twice are drawn twice as often."""
_ENDS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(PEOPLE, ("born", "died", "birthplace", "birthplace", "occupation", *_FAMILY)),
    **dict.fromkeys(WORKS, ("maker", "released")), TOWN: ("region", "region", "founded"),
    REGION: ("capital", "governor"),
}  # fmt: skip
"""The relations that a bridge may end with, and questions of one hop ask for."""
_TYPES: Mapping[str, str] = {
    **dict.fromkeys(_FAMILY, "family"), **dict.fromkeys(("birthplace", "region", "capital"), "place"),
    **dict.fromkeys(("born", "died", "founded", "released"), "date"),
    **dict.fromkeys(("maker", "governor"), "person"), "occupation": "class",
}  # fmt: skip
_ORDERS: Mapping[int, Sequence[tuple[tuple[str, ...], tuple[str, ...], str, str]]] = {
    2: (
        (PEOPLE, ("born",), "Who", "was born"), (PEOPLE, ("died",), "Who", "died"),
        ((TOWN,), ("founded",), "Which town", "was founded"),
        *(((work,), ("released",), f"Which {work}", "came out") for work in WORKS),
    ),
    4: tuple(((work,), ("maker", "born"), f"Which {work} has the {kind.maker} who", "was born")
             for work, kind in WORKS.items()),
}  # fmt: skip
"""What questions of time order compare, by their hops: kinds, relations, and how the question begins."""
ORDER, COMPARISON = "time order", "comparison"
YES, NO = "yes", "no"


@dataclass(frozen=True)
class Hop:
    """A simple question with the fact that answers it. statement: the fact as passages tell it; coarse: in coarse words
    only, as a passage about something else tells it.
    """

    question: str
    statement: str
    fact: Fact
    values: tuple[Value, ...]
    coarse: bool = False


@dataclass(frozen=True)
class Question:
    """A question. answers: all that are right; ending: the line that compares two facts, empty in a bridge."""

    text: str
    type: str
    answers: tuple[str, ...]
    hops: tuple[Hop, ...]
    ending: str = ""

    @property
    def canonical(self) -> str:
        """Its chain of facts, whatever the words or the order of candidates."""
        return repr(
            sorted((entity.kind, entity.name, relation) for entity, relation in (hop.fact for hop in self.hops))
        )

    @property
    def steps(self) -> tuple[str, ...]:
        """The lines of a right chain of reasoning, without the answer."""
        return (*(hop.statement for hop in self.hops), *([self.ending] if self.ending else []))


def simple_question(entity: Entity, relation: str, words: str | None = None) -> str:
    """The question for one fact. words: for its entity; by default its name, of a work with its kind."""
    words = words or _words_of(entity)
    if relation == "maker":
        return f"Who {WORKS[entity.kind].verb} {words}?"
    return _QUESTIONS[relation].format(x=words)


def hop_of(world: World, entity: Entity, relation: str) -> Hop:
    """The hop that asks for a fact of a world."""
    values = world.values(entity, relation)
    statement = f"{statement_of(world, entity, relation)}."
    return Hop(simple_question(entity, relation), statement, (entity, relation), values)


def coarse_hop_of(world: World, entity: Entity, relation: str) -> Hop:
    """The hop that asks for a fact and finds it in coarse words only."""
    statement, value = f"{coarse_statement(world, entity, relation)}.", coarse_value(world, entity, relation)
    return Hop(simple_question(entity, relation), statement, (entity, relation), (value,), coarse=True)


def _words_of(entity: Entity) -> str:
    return f"the {entity.kind} {entity.name}" if entity.kind in WORKS else entity.name


def _phrase(entity: Entity, relation: str, words: str) -> str:
    if relation == "maker":
        return f"{WORKS[entity.kind].maker} of {words}"
    return _PHRASES[relation].format(x=words)


def draw_question(world: World, hops: int, rng: random.Random) -> Question | None:
    """Draws a question of so many hops, 1 to 4; None where this try came to nothing."""
    draws = [_bridge, _bridge, *({2: [_order, _common], 4: [_order, _common]}.get(hops, []))]
    return rng.choice(draws)(world, hops, rng)


def _bridge(world: World, hops: int, rng: random.Random) -> Question | None:
    """A question whose every hop asks about the answer of the hop before."""
    start: Entity = rng.choice(world.of_kind(*PEOPLE, *WORKS, *([TOWN, REGION] if hops == 1 else [])))
    steps = walk(world, start, hops, rng)
    if steps is None:
        return None
    entity, relation = steps[-1].fact
    text = simple_question(entity, relation, words_of_chain(steps))
    return Question(text, _TYPES[relation], tuple(map(name_of, steps[-1].values)), steps)


def walk(world: World, start: Entity, hops: int, rng: random.Random) -> tuple[Hop, ...] | None:
    """So many hops from an entity, each about the answer of the one before; None where this try came to nothing."""
    steps, seen = list[Hop](), list[Value]([start])
    for number in range(hops):
        entity = seen[-1]
        assert isinstance(entity, Entity)
        last = number + 1 == hops
        relations = _ENDS[entity.kind] if last else _STEPS[entity.kind]
        choices = [name for name in relations if (values := world.values(entity, name)) and (last or len(values) == 1)
                   and not set(values) & set(seen)]  # fmt: skip
        if not choices:
            return None
        steps.append(hop_of(world, entity, rng.choice(choices)))
        seen.append(steps[-1].values[0])
    return tuple(steps)


def words_of_chain(steps: Sequence[Hop]) -> str:
    """Whom the last of some hops is about, told by the first entity: `the mother of Liina Pemford`."""
    words = _words_of(steps[0].fact[0])
    for hop in steps[:-1]:
        words = f"the {_phrase(*hop.fact, words)}"
    return words


def _order(world: World, hops: int, rng: random.Random) -> Question | None:
    """Which of two came first or last: people, towns or works by their own years; in four hops, works by the years in
    which their makers were born.
    """
    kinds, relations, start, verb = rng.choice(_ORDERS[hops])
    pair = rng.sample([one for one in world.of_kind(*kinds) if world.values(one, relations[0])], 2)
    chains = [_follow(world, one, relations) for one in pair]
    years = [end.year if isinstance(end, Date) else end for _, end in chains]
    if years[0] == years[1]:
        return None
    first = rng.random() < 0.5
    early, late = (0, 1) if years[0] < years[1] else (1, 0)  # type: ignore[operator]
    text = f"{start} {verb} {'first' if first else 'last'}, {pair[0].name} or {pair[1].name}?"
    ending = f"{name_of(chains[early][1])} is before {name_of(chains[late][1])}."
    return Question(text, ORDER, (pair[early if first else late].name,), _hops_of(world, chains), ending)


def _hops_of(world: World, chains: Sequence[tuple[Sequence[Fact], Value]]) -> tuple[Hop, ...]:
    return tuple(hop_of(world, *fact) for facts, _ in chains for fact in facts)


def _common(world: World, hops: int, rng: random.Random) -> Question | None:
    """Whether two people were born in the same town, in four hops the same region, or two works have the same maker: as
    often yes as no.
    """
    kinds: tuple[str, ...] = PEOPLE
    relations: tuple[str, ...] = ("birthplace",)
    text = "Were {} and {} born in the same town?"
    if hops == 4:
        relations, text = ("birthplace", "region"), "Were {} and {} born in the same region?"
    elif rng.random() < 0.5:
        kinds = (rng.choice(list(WORKS)),)
        relations, text = ("maker",), f"Is the {WORKS[kinds[0]].maker} of {{}} that of {{}}, too?"
    entities, same = world.of_kind(*kinds), rng.random() < 0.5
    ends = {entity: _follow(world, entity, relations) for entity in entities}
    pairs = ((one, [other for other in entities if other != one and _agrees(ends[one], ends[other], same)])
             for one in rng.sample(entities, len(entities)))  # fmt: skip
    one, others = next(((one, others) for one, others in pairs if others), (None, []))
    if one is None:
        return None
    pair = (one, rng.choice(others))
    chains = [_follow(world, entity, relations) for entity in pair]
    names = [name_of(end) for _, end in chains]
    ending = f"{names[0]} is {names[1]}." if same else f"{names[0]} is not {names[1]}."
    return Question(
        text.format(*map(_words_of, pair)), COMPARISON, (YES if same else NO,), _hops_of(world, chains), ending
    )


def _follow(world: World, entity: Entity, relations: Sequence[str]) -> tuple[tuple[Fact, ...], Value]:
    """The facts from an entity by some relations, and where they end."""
    facts = list[Fact]()
    value: Value = entity
    for relation in relations:
        assert isinstance(value, Entity)
        facts.append((value, relation))
        value = world.values(value, relation)[0]
    return tuple(facts), value


def _agrees(one: tuple[Sequence[Fact], Value], other: tuple[Sequence[Fact], Value], same: bool) -> bool:
    """Whether two chains end alike, or not, and have no fact in common."""
    return (one[1] == other[1]) == same and not set(one[0]) & set(other[0])
