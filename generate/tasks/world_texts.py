"""Training texts about invented worlds: to read, to split a question, to answer with a chain and without one, to
conclude from facts, to say whether a passage is relevant.

Each text is drawn from one of many small worlds, so that a model learns to read and no fact. The passages of a text are
those that tell its facts, others that share a name with them, and some of no matter, in any order.

    read        passages and a simple question -> the fact that answers it and the answer; several such questions about
                the same passages
    decompose   a question with a path of sub-questions and answers -> the next sub-question, or `Done.`
    chain       passages, path and question -> the facts, line by line, and the answer; several such questions
    conclude    a question and the facts that it needs -> what they come to, and the answer
    direct      passages, path and question -> the answer
    relevance   a passage and a simple question -> `yes` where the passage answers it, else `no`; several such questions
    repeat      some words in random order -> the same; what a small model must learn first to read

`claim_texts` has further formats, to check a text while it unfolds.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import replace

from generate.tasks.formats import FOLLOW, fill_prompt, path_text
from generate.tasks.task import ANSWER, TaskText
from generate.worlds.names import WORDS
from generate.worlds.passages import Passage, WorldPassages, draw_world, name_of
from generate.worlds.questions import NO, YES, Hop, Question, coarse_hop_of, draw_question, hop_of
from generate.worlds.world import PEOPLE, REGION, TOWN, WORKS, Value, World

DONE = "Done."
"""What a decomposition says that is at its end."""
PROMPTS: Mapping[str, str] = {
    "read": "{{passages}}\n\nQuestion: {{sub_question}}\nAnswer:\n",
    "decompose": "Question: {{question}}\n{{path}}",
    "chain": "{{passages}}\n\n{{path}}Question: {{question}}\nReasoning:\n",
    "conclude": "Question: {{question}}\nReasoning:\n{{facts}}\n",
    "direct": "{{passages}}\n\n{{path}}Question: {{question}}\nAnswer:\n",
    "relevance": "{{passage}}\n{{sub_question}}\n",
    "repeat": "{{words}}\n",
}
"""The prompts of the formats, with the fields that loops fill in."""
SIMPLE_QUESTIONS = 10
"""Most questions of a text to read."""
CHAINS = 3
"""Most questions that are answered with a chain on the same passages."""
INHABITANTS, WORLDS, DRAWS = 120, 1_000_000, 200
"""People of a world of which texts are drawn, the number of such worlds, and the texts drawn of one at a time."""
PASSAGES = 16
"""Most passages of a text; of more where its facts need them."""
COMPARED = (2, 4)
"""The hops of questions to conclude: those for which two may be compared."""
WRONG = 0.2
"""How often an answer in a path is wrong."""
LOST = 0.5
"""How often the passage of a last fact is not shown, where another passage tells the fact in coarse words."""
CUT = 0.3
"""How often a path ends before its last hop, perhaps before its first."""
_WORDS = tuple(word for word in WORDS if word.isalnum())
RELEVANT = 0.4
"""How often a question is answered by its passage."""
_WRONG_PASSAGES = (0.4, 0.3, 0.15, 0.15)
"""How often a question that is not answered is about a namesake and about anybody by a relation of the passage, about
whom the passage is about by another relation, and about anything.
"""
_KINDS = (PEOPLE, PEOPLE, tuple(WORKS), (TOWN, REGION))
"""Kinds of what passages are about, each drawn as often: of places there are few, and many hops ask for them."""
COARSE = 0.15
"""How often a question asks for a fact that the passage tells in coarse words only, where it does: not answered."""
_ALIKE = 100


DrawText = Callable[[WorldPassages, random.Random], TaskText | None]
"""What draws a text of one format from a world; None where this try came to nothing."""


def mixed_texts(
    formats: Mapping[str, DrawText], mixture: Mapping[str, float], rng: random.Random
) -> Iterator[TaskText]:
    """Yields texts of small worlds without end, in formats drawn in the proportions of a mixture."""
    names, weights = list(mixture), list(mixture.values())
    while True:
        place = draw_world(rng.randrange(WORLDS), INHABITANTS)
        for name in rng.choices(names, weights, k=DRAWS):
            text = formats[name](place, rng)
            if text is not None:
                yield text


def passages_text(passages: Sequence[Passage]) -> str:
    """Passages as a loop shows them."""
    return "\n\n".join(map(str, passages))


def _read_text(place: WorldPassages, rng: random.Random) -> TaskText:
    passages = gather(place, rng.choices(place.passages, k=3), rng)
    hops = [hop_of(place.world, *fact) for passage in passages for fact in passage.facts]
    full = {hop.fact for hop in hops}
    coarse = dict.fromkeys(fact for passage in passages for fact in passage.coarse if fact not in full)
    hops += [coarse_hop_of(place.world, *fact) for fact in coarse]
    before = f"{passages_text(passages)}\n\n"
    pairs = []
    for hop in rng.sample(hops, min(SIMPLE_QUESTIONS, len(hops))):
        prompt = fill_prompt("read", PROMPTS, passages="", sub_question=hop.question).lstrip("\n")
        pairs.append((before + prompt, f"{hop.statement}\n{ANSWER}{name_of(rng.choice(hop.values))}"))
        before = "\n\n"
    return TaskText("read", *pairs[0], tuple(pairs[1:]))


def _decompose_text(place: WorldPassages, rng: random.Random) -> TaskText | None:
    question = _draw(place, rng)
    if question is None:
        return None
    place_of_step = rng.randint(0, len(question.hops))
    path = path_text((hop.question, name_of(rng.choice(hop.values))) for hop in question.hops[:place_of_step])
    steps = [*(f"{FOLLOW} {hop.question}" for hop in question.hops), DONE]
    return TaskText(
        "decompose", fill_prompt("decompose", PROMPTS, question=question.text, path=path), steps[place_of_step]
    )


def _chain_text(place: WorldPassages, rng: random.Random) -> TaskText | None:
    questions = [one for one in (_draw(place, rng) for _ in range(CHAINS)) if one is not None]
    if not questions:
        return None
    questions[0] = _with_coarse_end(place, questions, rng)
    before = _passages_text(place, questions, rng)
    pairs = []
    for question in questions:
        lines = "\n".join((*question.steps, ANSWER + rng.choice(question.answers)))
        pairs.append((before + _question_prompt("chain", place, question, rng), lines))
        before = ""
    return TaskText("chain", *pairs[0], tuple(pairs[1:]))


def _conclude_text(place: WorldPassages, rng: random.Random) -> TaskText | None:
    question = draw_question(place.world, rng.choice(COMPARED), rng)
    if question is None:
        return None
    facts = "\n".join(hop.statement for hop in question.hops)
    lines = (*question.steps[len(question.hops) :], ANSWER + rng.choice(question.answers))
    prompt = fill_prompt("conclude", PROMPTS, question=question.text, facts=facts)
    return TaskText("conclude", prompt, "\n".join(lines))


def _direct_text(place: WorldPassages, rng: random.Random) -> TaskText | None:
    question = _draw(place, rng)
    if question is None:
        return None
    question = _with_coarse_end(place, [question], rng)
    prompt = _passages_text(place, [question], rng) + _question_prompt("direct", place, question, rng)
    return TaskText("direct", prompt, ANSWER + rng.choice(question.answers))


def _relevance_text(place: WorldPassages, rng: random.Random) -> TaskText:
    kinds = rng.choice(_KINDS)
    passage = rng.choice([one for one in place.passages if one.facts[0][0].kind in kinds])
    others = [one for one in place.alike(passage, _ALIKE, rng) if one != passage] or place.passages
    same = [other for other in others if other.title == passage.title] or others
    relations = {relation for _, relation in passage.facts}
    peers = [one for one in place.passages if one != passage and relations & {relation for _, relation in one.facts}]
    alike = [one for one in others if one in peers] or peers
    before, pairs = f"{passage}\n", list[tuple[str, str]]()
    for _ in range(SIMPLE_QUESTIONS):
        (wrong,) = rng.choices((alike, peers, same, place.passages), _WRONG_PASSAGES)
        facts = (passage if rng.random() < RELEVANT else rng.choice(wrong)).facts
        if passage.coarse and rng.random() < COARSE:
            facts = passage.coarse
        near = [fact for fact in facts if fact[1] in relations]
        by_relation = wrong is alike or wrong is peers
        hop = hop_of(place.world, *rng.choice(near if by_relation and near else facts))
        prompt = fill_prompt("relevance", PROMPTS, sub_question=hop.question, passage="").lstrip("\n")
        pairs.append((before + prompt, YES if hop.fact in passage.facts else NO))
        before = "\n"
    return TaskText("relevance", *pairs[0], tuple(pairs[1:]))


def _repeat_text(_: WorldPassages, rng: random.Random) -> TaskText:
    line = " ".join(rng.choices(_WORDS, k=rng.randint(6, 16)))
    return TaskText("repeat", fill_prompt("repeat", PROMPTS, words=line), line, (("\n", line), ("\n", line)))


TEXTS: Mapping[str, DrawText] = {
    "read": _read_text, "decompose": _decompose_text, "chain": _chain_text, "conclude": _conclude_text,
    "direct": _direct_text, "relevance": _relevance_text, "repeat": _repeat_text,
}  # fmt: skip


def _draw(place: WorldPassages, rng: random.Random) -> Question | None:
    return draw_question(place.world, rng.randint(1, 4), rng)


def _passages_text(place: WorldPassages, questions: Sequence[Question], rng: random.Random) -> str:
    """Passages that tell what some questions need, and others; none that tells in full what a hop knows coarsely."""
    hops = [hop for question in questions for hop in question.hops]
    needed = [(place.coarse_passage_of_fact if hop.coarse else place.passage_of_fact)[hop.fact] for hop in hops]
    hidden = {place.passage_of_fact[hop.fact] for hop in hops if hop.coarse}
    return passages_text(gather(place, needed, rng, hidden))


def _with_coarse_end(place: WorldPassages, questions: Sequence[Question], rng: random.Random) -> Question:
    """The first of some questions, perhaps with a last hop whose fact is told in coarse words only: the passage that
    tells it in full is not shown. Never where another hop needs that passage, or where two facts are compared.
    """
    question, fact = questions[0], questions[0].hops[-1].fact
    hops = [hop for one in questions for hop in one.hops]
    passages = [place.passage_of_fact[hop.fact] for hop in hops]
    if question.ending or fact not in place.coarse_passage_of_fact or rng.random() >= LOST:
        return question
    if passages.count(place.passage_of_fact[fact]) > 1:
        return question
    end = coarse_hop_of(place.world, *fact)
    return replace(question, answers=tuple(map(name_of, end.values)), hops=(*question.hops[:-1], end))


def _question_prompt(name: str, place: WorldPassages, question: Question, rng: random.Random) -> str:
    """The prompt of a question with its path, behind its passages or behind the question before."""
    path = _path_text(place.world, question.hops, rng)
    return fill_prompt(name, PROMPTS, passages="", path=path, question=question.text)


def _path_text(world: World, hops: Sequence[Hop], rng: random.Random) -> str:
    """The path of some hops, which may end early, and in which some answers are wrong."""
    if rng.random() < CUT:
        hops = hops[: rng.randrange(len(hops))]
    values = [_other_value(world, hop, rng) if rng.random() < WRONG else rng.choice(hop.values) for hop in hops]
    return path_text((hop.question, name_of(value)) for hop, value in zip(hops, values, strict=True))


def _other_value(world: World, hop: Hop, rng: random.Random) -> Value:
    """A value of the relation of a hop, of somebody or something of the same kind."""
    entity, relation = hop.fact
    return rng.choice([value for one in world.of_kind(entity.kind) for value in world.values(one, relation)])


def gather(
    place: WorldPassages, needed: Sequence[Passage], rng: random.Random, hidden: Set[Passage] = frozenset()
) -> list[Passage]:
    """Some passages with others that share names with them, but for those `hidden`, in any order: at most `PASSAGES`,
    or as many as needed.
    """
    most = rng.randint(min(PASSAGES, len(needed)), PASSAGES)
    passages = dict.fromkeys(needed)
    for passage in needed:
        passages |= dict.fromkeys(place.alike(passage, rng.randint(0, most), rng))
    passages |= dict.fromkeys(rng.sample(place.passages, most))
    chosen = [passage for passage in passages if passage not in hidden][: max(most, len(set(needed)))]
    rng.shuffle(chosen)
    return chosen
