"""Training texts of the small models: solving, revising, judging, self-reflection and listwise choice.

A text is a prompt and its completion. The prompts are `PROMPTS`, with the fields of prompt files (`{{question}}`,
`{{attempt}}`): a recipe whose prompt files hold these same texts asks the model what it has learnt. A model learns to
end with `completion`, so the trainer puts its end-of-sequence token behind each.

    solve         the question -> the solution
    continue      the question and the attempt so far -> the rest
    verify        the question and an attempt -> a check of its answer, then the solution (active verification)
    repair        the question and an attempt -> `fix:` and the solution, from the first line that does not hold
    correct       the question and an attempt, said to be wrong -> another solution (self-correction)
    judge         -> one of five anchored scores, 0.00 to 1.00
    reflect       -> how sure, 1 to 10
    choose        the question and the endings of several attempts -> the number of the best

Verdicts come from the callers, who have the model's own samples.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence

from generate.tasks.task import ANSWER, Item, TaskText, WrongSolutionTask, answer_of
from toolkit.errors import InvalidError

PROMPTS: Mapping[str, str] = {
    "solve": "{{question}}\n",
    "continue": "{{question}}\n{{attempt}}",
    "verify": "{{question}}\n{{attempt}}\nverify:\n",
    "repair": "{{question}}\n{{attempt}}\nrepair:\n",
    "correct": "{{question}}\n{{attempt}}\nwrong, again:\n",
    "judge": "{{question}}\n{{attempt}}\nscore:\n",
    "reflect": "{{question}}\n{{attempt}}\nsure 1-10:\n",
    "choose": "{{question}}\n{{attempts}}\nbest:\n",
}
GRADES: Mapping[str, str] = {
    "1.00": "the answer is right and every line holds",
    "0.75": "the answer is right, but some line does not hold",
    "0.50": "there is no answer, but every line so far holds",
    "0.25": "the answer is wrong or missing, and at least half of the lines hold",
    "0.00": "the answer is wrong or missing, and most lines do not hold",
}
"""The five anchors of a judge, spaced as in the published prompt of a verifier that scores justifications."""
HOLDS, FAILS = "ok", "not ok"
CHARACTERS = (
    "\n #()*+,-./0123456789:;<=>?"  # punctuation and digits, in the order of their codes
    "CFST"
    "abcdefghijklmnopqrstuvwxyz"
)
"""Every character of the tasks' questions, solutions and formats: the alphabet of a tokenizer of characters."""


FOLLOW, ANSWERED = "Follow up:", "Intermediate answer:"
"""What stands before a sub-question, and before its answer, in the path and in what a decomposition says."""


def path_text(path: Iterable[tuple[str, str]]) -> str:
    """Sub-questions and their answers as prompts show them."""
    return "".join(f"{FOLLOW} {question}\n{ANSWERED} {answer}\n" for question, answer in path)


def fill_prompt(name: str, prompts: Mapping[str, str] = PROMPTS, **fields: str) -> str:
    """The prompt of a format with its fields filled in. prompts: of all formats."""
    text = prompts[name]
    for field, value in fields.items():
        text = text.replace(f"{{{{{field}}}}}", value)
    return text


def solution_text(item: Item) -> TaskText:
    """The training text of a solution: the question as prompt, the whole solution as completion."""
    return TaskText("solve", fill_prompt("solve", question=item.question), item.solution)


def continuation_text(item: Item, keep: int) -> TaskText:
    """The training text of a continuation: the solution cut after `keep` characters, then its rest, as for a truncated
    attempt.
    """
    if not 0 <= keep < len(item.solution):
        raise InvalidError(f"`keep` is {keep}, but the solution has {len(item.solution)} characters")
    head, tail = item.solution[:keep], item.solution[keep:]
    return TaskText("continue", fill_prompt("continue", question=item.question, attempt=head), tail)


def verification_text(task: WrongSolutionTask, item: Item, attempt: str) -> TaskText:
    """The training text of a check of an attempt's answer. Where it holds, the completion repeats the answer; else it
    has the answer that the check came to, or the whole solution.
    """
    check = task.check(item, answer_of(attempt))
    anew = item.solution if check.answer is None else f"{ANSWER}{check.answer}"
    end = f"{HOLDS}\n{ANSWER}{item.answer}" if check.holds else f"{FAILS}\n{anew}"
    return TaskText("verify", fill_prompt("verify", question=item.question, attempt=attempt), f"{check.text}\n{end}")


def repair_text(task: WrongSolutionTask, item: Item, attempt: str) -> TaskText:
    """The training text of a repair: how many lines of the attempt hold, then the solution, or a right attempt's answer
    again.
    """
    lines = [line for line in attempt.split("\n") if line.strip()]
    good = next((number for number, line in enumerate(lines) if task.sound_share(item, line) < 1), len(lines))
    right = answer_of(attempt) == item.answer and good == len(lines)
    end = f"{HOLDS}\n{ANSWER}{item.answer}" if right else f"fix: line {good + 1}\n{item.solution}"
    return TaskText("repair", fill_prompt("repair", question=item.question, attempt=attempt), end)


def correction_text(item: Item, attempt: str) -> TaskText:
    """The training text of a correction: the solution, after an attempt that the prompt calls wrong."""
    return TaskText("correct", fill_prompt("correct", question=item.question, attempt=attempt), item.solution)


def _grade_text(task: WrongSolutionTask, item: Item, attempt: str, verdict: bool) -> str:
    """The anchored score for an attempt, by its verdict and the share of its lines that hold."""
    sound = task.sound_share(item, attempt)
    if verdict:
        return "1.00" if sound == 1 else "0.75"
    if answer_of(attempt) is None and attempt.strip():
        whole = attempt.rpartition("\n")[0]  # the last line was cut off: it does not count
        sound = task.sound_share(item, whole) if whole else 1.0
        if sound == 1:
            return "0.50"
    return "0.25" if sound >= 0.5 else "0.00"


def judgement_text(task: WrongSolutionTask, item: Item, attempt: str, verdict: bool) -> TaskText:
    """The training text of a judgement: one of the five anchored scores."""
    prompt = fill_prompt("judge", question=item.question, attempt=attempt)
    return TaskText("judge", prompt, _grade_text(task, item, attempt, verdict))


def reflection_text(question: str, attempt: str, verdict: float) -> TaskText:
    """The training text of self-reflection: a number from 1 to 10. `verdict`: right or wrong, or the share right among
    like samples.
    """
    if not 0 <= verdict <= 1:
        raise InvalidError(f"`verdict` is {verdict}: it must lie between 0 and 1")
    return TaskText(
        "reflect", fill_prompt("reflect", question=question, attempt=attempt), str(1 + round(9 * float(verdict)))
    )


def choice_text(
    question: str, attempts: Sequence[str], verdicts: Sequence[bool], rng: random.Random, lines: int = 2
) -> TaskText | None:
    """The training text of a choice: the number, from 1, of a right attempt among several; None where none is right.

    Attempts are shown by their last `lines` lines, on one line each, in the order given; among several right ones
    the choice is drawn.
    """
    if len(attempts) != len(verdicts) or len(attempts) < 2:
        raise InvalidError(
            f"a choice needs two attempts or more, each with a verdict: {len(attempts)}, {len(verdicts)}"
        )
    right = [number for number, verdict in enumerate(verdicts, start=1) if verdict]
    if not right:
        return None
    prompt = fill_prompt("choose", question=question, attempts=numbered_attempts(attempts, lines))
    return TaskText("choose", prompt, str(rng.choice(right)))


def numbered_attempts(attempts: Sequence[str], lines: int = 2) -> str:
    """The attempts as a listwise prompt shows them, one on a line: `1) 7*x=21 #### 3`."""
    return "\n".join(f"{number}) {attempt_ending(attempt, lines)}" for number, attempt in enumerate(attempts, start=1))


def attempt_ending(attempt: str, lines: int = 2) -> str:
    """The last lines of an attempt, joined into one line."""
    return " ".join(line.strip() for line in attempt.strip().split("\n")[-lines:])
