"""Files as people have them, of a made-up model whose every answer is known: 80 questions with 8 samples."""

from __future__ import annotations

import csv
import json
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

Row = dict[str, Any]
N, K = 80, 8
LABELS = ("supported", "refuted", "not enough info")
LETTERS = "ABCD"


@dataclass(frozen=True)
class Truth:
    """Gold, (N,), and what samples say, (N, K): numbers."""

    gold: list[int]
    said: list[list[int]]

    @property
    def right(self) -> list[list[bool]]:
        return [[one == gold for one in row] for gold, row in zip(self.gold, self.said, strict=True)]

    def question(self, i: int) -> str:
        return f"What is number {i}, twice {i} and a half?"

    def text(self, i: int, k: int) -> str:
        return f"First I take {i}, then {k}, and so on.\nThe answer is {self.said[i][k]}."

    def tokens(self, i: int, k: int) -> int:
        return 20 + (7 * i + 3 * k) % 31

    def seconds(self, i: int, k: int) -> float:
        return 0.25 + (3 * i + k) % 9 / 4

    def score(self, i: int, k: int) -> float:
        return round(0.3 + 0.4 * self.right[i][k] + ((i + 5 * k) % 7) / 20, 3)

    def letter(self, i: int, k: int | None = None) -> str:
        shift = 0 if k is None or self.right[i][k] else 1 + self.said[i][k] % 3
        return LETTERS[(self.gold[i] + shift) % 4]

    def label(self, i: int, k: int | None = None) -> str:
        shift = 0 if k is None or self.right[i][k] else 1 + self.said[i][k] % 2
        return LABELS[(self.gold[i] + shift) % 3]

    def voted(self, k: int, said: Callable[[int, int], Any] | None = None) -> float:
        """The share of questions that a vote of `k` samples answers right; of a tie each answer is as likely."""
        says, right = said or (lambda i, j: self.said[i][j]), 0.0
        for i in range(N):
            counts = Counter(says(i, j) for j in range(k))
            tied = {one for one, count in counts.items() if count == max(counts.values())}
            right += len({says(i, j) for j in range(k) if self.right[i][j]} & tied) / len(tied)
        return right / N

    def any_of(self, k: int) -> float:
        return sum(any(row[:k]) for row in self.right) / N


def truth() -> Truth:
    rng = random.Random(34)
    gold = [rng.randint(10, 99) for _ in range(N)]
    ease = [rng.random() for _ in range(N)]
    return Truth(
        gold, [[gold[i] if rng.random() < ease[i] else 100 + rng.randrange(5) for _ in range(K)] for i in range(N)]
    )


TRUTH = truth()
EACH = [(i, k) for i in range(N) for k in range(K)]
RIGHT = sum(map(sum, TRUTH.right))


@dataclass(frozen=True)
class Expected:
    """What a log of a file has to hold. `tokens`, `seconds`: their sums; `pools`: the share right in each."""

    traces: int = N * K
    right: int = RIGHT
    verifications: int = 0
    tokens: int | None = None
    seconds: float | None = None
    pools: Mapping[str, float] = field(default_factory=dict)
    settings: tuple[str, ...] = ()
    logprob: float | None = None
    examples: int = N
    votes: float | None = None


def tokens(pairs: Sequence[tuple[int, int]] = EACH) -> int:
    return sum(TRUTH.tokens(i, k) for i, k in pairs)


def share(pairs: Sequence[tuple[int, int]]) -> float:
    return sum(TRUTH.right[i][k] for i, k in pairs) / len(pairs)


def lines(path: Path, rows: Sequence[Row]) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def chat(i: int, ks: Sequence[int]) -> Row:
    """A chat completion with log-probabilities, as its client saves it."""
    choices = []
    for k in ks:
        content = [{"token": "t", "logprob": -0.25 - k / 8, "bytes": None, "top_logprobs": []} for _ in range(3 + k)]
        message = {"role": "assistant", "content": TRUTH.text(i, k), "refusal": None}
        choices.append(
            {
                "index": k if len(ks) > 1 else 0,
                "message": message,
                "finish_reason": "stop",
                "logprobs": {"content": content},
            }
        )
    usage = {
        "prompt_tokens": 12,
        "completion_tokens": sum(3 + k for k in ks),
        "total_tokens": 12 + sum(3 + k for k in ks),
    }
    return {
        "id": f"chatcmpl-{i}-{ks[0]}",
        "object": "chat.completion",
        "created": 1760000000 + i,
        "model": "gpt-x",
        "choices": choices,
        "usage": usage,
    }


LOGPROB = sum((3 + k) * (-0.25 - k / 8) for _, k in EACH)
Made = tuple[list[str], Expected]


def j01(folder: Path) -> Made:
    rows = [
        {
            "question": TRUTH.question(i),
            "answer": f"One less is {TRUTH.gold[i] - 1}.\n#### {TRUTH.gold[i]}",
            "outputs": [TRUTH.text(i, k) for k in range(K)],
        }
        for i in range(N)
    ]
    return [lines(folder / "gsm8k_outputs.jsonl", rows)], Expected(votes=TRUTH.voted(K))


def j02(folder: Path) -> Made:
    rows = [
        {
            "id": f"q{i}",
            "question": TRUTH.question(i),
            "gold": TRUTH.gold[i],
            "sample": k,
            "output": TRUTH.text(i, k),
            "tokens": TRUTH.tokens(i, k),
        }
        for i, k in EACH
    ]
    return [lines(folder / "samples.jsonl", rows)], Expected(tokens=tokens(), votes=TRUTH.voted(K))


def j03(folder: Path) -> Made:
    """As pandas writes it, with its index, and some rewards missing."""
    path, missing = folder / "scored.csv", 0
    with path.open("w", encoding="utf-8", newline="") as file:
        out = csv.writer(file)
        out.writerow(["", "qid", "prompt", "gold", "pred", "reward"])
        for n, (i, k) in enumerate(EACH):
            missing += n % 91 == 3
            out.writerow(
                [n, i, TRUTH.question(i), TRUTH.gold[i], TRUTH.said[i][k], "" if n % 91 == 3 else TRUTH.score(i, k)]
            )
    return [str(path)], Expected(verifications=N * K - missing, votes=TRUTH.voted(K))


def j04(folder: Path) -> Made:
    """lm-eval's samples, with two filters."""
    rows = []
    for name in ("strict-match", "flexible-extract"):
        for i in range(N):
            texts = [TRUTH.text(i, k) for k in range(K)]
            rows.append(
                {
                    "doc_id": i,
                    "doc": {"question": TRUTH.question(i)},
                    "target": str(TRUTH.gold[i]),
                    "filter": name,
                    "arguments": {"gen_args_0": {"arg_0": TRUTH.question(i), "arg_1": {"temperature": 0.7}}},
                    "resps": [texts],
                    "filtered_resps": [texts[0]],
                    "metrics": ["exact_match"],
                    "exact_match": float(TRUTH.right[i][0]),
                }
            )
    return [lines(folder / "samples_numbers_2026-01-01.jsonl", rows)], Expected()


def j05(folder: Path) -> Made:
    """A log of Inspect as JSON, with epochs."""
    samples = []
    for i, k in EACH:
        output = {
            "model": "m/x",
            "choices": [{"message": {"role": "assistant", "content": TRUTH.text(i, k)}, "stop_reason": "stop"}],
            "completion": TRUTH.text(i, k),
        }
        score = {"value": "C" if TRUTH.right[i][k] else "I", "answer": str(TRUTH.said[i][k])}
        usage = {
            "m/x": {"input_tokens": 5, "output_tokens": TRUTH.tokens(i, k), "total_tokens": 5 + TRUTH.tokens(i, k)}
        }
        samples.append(
            {
                "id": i,
                "epoch": k + 1,
                "input": TRUTH.question(i),
                "target": str(TRUTH.gold[i]),
                "output": output,
                "messages": [],
                "scores": {"match": score},
                "model_usage": usage,
                "total_time": TRUTH.seconds(i, k),
            }
        )
    log = {
        "version": 2,
        "status": "success",
        "eval": {
            "task": "numbers",
            "model": "m/x",
            "dataset": {"name": "numbers"},
            "config": {"epochs": K},
            "task_id": "t",
            "run_id": "r",
        },
        "plan": {},
        "results": {},
        "stats": {},
        "samples": samples,
    }
    path = folder / "2026_numbers.json"
    path.write_text(json.dumps(log), encoding="utf-8")
    return [str(path)], Expected(tokens=tokens())


def j06(folder: Path) -> Made:
    """A batch with n = 8, and a file of questions with gold beside it."""
    rows = []
    for i in range(N):
        body = {
            **chat(i, range(K)),
            "choices": [
                {key: value for key, value in one.items() if key != "logprobs"} for one in chat(i, range(K))["choices"]
            ],
        }
        rows.append(
            {
                "id": f"b{i}",
                "custom_id": f"q{i}",
                "response": {"status_code": 200, "request_id": f"r{i}", "body": body},
                "error": None,
            }
        )
    gold = [{"id": f"q{i}", "question": TRUTH.question(i), "gold": str(TRUTH.gold[i])} for i in range(N)]
    return [lines(folder / "batch_output.jsonl", rows), lines(folder / "questions.jsonl", gold)], Expected(
        votes=TRUTH.voted(K)
    )


def j07(folder: Path) -> Made:
    rows = [
        {"id": f"q{i}", "prompt": TRUTH.question(i), "gold": str(TRUTH.gold[i]), "response": chat(i, [k])}
        for i, k in EACH
    ]
    return [lines(folder / "calls.jsonl", rows)], Expected(
        tokens=sum(3 + k for _, k in EACH), logprob=LOGPROB, votes=TRUTH.voted(K)
    )


def j08(folder: Path) -> Made:
    """A data frame of a notebook, saved."""
    frame = pl.DataFrame(
        {
            "question_id": [i for i, _ in EACH],
            "prompt": [TRUTH.question(i) for i, _ in EACH],
            "gold": [TRUTH.gold[i] for i, _ in EACH],
            "pred": [TRUTH.said[i][k] for i, k in EACH],
            "n_tokens": [TRUTH.tokens(i, k) for i, k in EACH],
            "reward": [TRUTH.score(i, k) for i, k in EACH],
        }
    )
    path = folder / "frame.parquet"
    frame.write_parquet(path)
    return [str(path)], Expected(verifications=N * K, tokens=tokens(), votes=TRUTH.voted(K))


def j09(folder: Path) -> Made:
    """A data set of Hugging Face, with lists."""
    frame = pl.DataFrame(
        {
            "problem": [TRUTH.question(i) for i in range(N)],
            "solution": [f"So \\boxed{{{gold}}}" for gold in TRUTH.gold],
            "generations": [[TRUTH.text(i, k) for k in range(K)] for i in range(N)],
            "rewards": [[TRUTH.score(i, k) for k in range(K)] for i in range(N)],
        }
    )
    path = folder / "train-00000-of-00001.parquet"
    frame.write_parquet(path)
    return [str(path)], Expected(verifications=N * K, votes=TRUTH.voted(K))


def j10(folder: Path) -> Made:
    """A judge's grades from 0 to 10 of two models, without gold."""
    grade = {(i, k): (7 + i % 4 if TRUTH.right[i][k] else i % 7) for i in range(N) for k in (0, 1)}
    rows = [
        {
            "question_id": i,
            "category": ("math", "writing", "coding")[i % 3],
            "prompt": TRUTH.question(i),
            "model": ("large", "small")[k],
            "response": TRUTH.text(i, k) * 3,
            "judge_score": grade[i, k],
        }
        for i in range(N)
        for k in (0, 1)
    ]
    pairs = [[(i, k) for i in range(N)] for k in (0, 1)]
    expected = Expected(
        2 * N,
        sum(TRUTH.right[i][k] for i in range(N) for k in (0, 1)),
        pools={"large": share(pairs[0]), "small": share(pairs[1])},
        settings=("traces.correct=judge_score >= 7", "traces.credit=judge_score / 10"),
    )
    return [lines(folder / "judged.jsonl", rows)], expected


def j11(folder: Path) -> Made:
    rows = [
        {
            "task_id": f"Task/{i}",
            "prompt": f'def f{i}():\n    """{TRUTH.question(i)}"""\n',
            "completion": f"    return {TRUTH.said[i][k]}  # try {k}\n",
            "passed": TRUTH.right[i][k],
            "public_tests_passed": TRUTH.score(i, k),
        }
        for i, k in EACH
    ]
    return [lines(folder / "code.jsonl", rows)], Expected(verifications=N * K)


def j12(folder: Path) -> Made:
    rows = [
        {
            "id": i,
            "question": TRUTH.question(i),
            "gold": TRUTH.gold[i],
            "model": ("small", "big")[k],
            "answer": TRUTH.said[i][k],
            "confidence": TRUTH.score(i, k) if k == 0 else None,
            "prompt_tokens": 20,
            "completion_tokens": TRUTH.tokens(i, k),
        }
        for i in range(N)
        for k in (0, 1)
    ]
    pairs = [[(i, k) for i in range(N)] for k in (0, 1)]
    return [lines(folder / "two_models.jsonl", rows)], Expected(
        2 * N,
        sum(TRUTH.right[i][k] for i in range(N) for k in (0, 1)),
        N,
        tokens(pairs[0] + pairs[1]),
        pools={"small": share(pairs[0]), "big": share(pairs[1])},
    )


def j13(folder: Path) -> Made:
    """A process reward model's scores of steps."""
    rows = [
        {
            "problem_id": i,
            "problem": TRUTH.question(i),
            "expected_answer": TRUTH.gold[i],
            "responses": [TRUTH.text(i, k) for k in range(K)],
            "step_scores": [[0.5, TRUTH.score(i, k)] for k in range(K)],
        }
        for i in range(N)
    ]
    return [lines(folder / "prm.jsonl", rows)], Expected(verifications=3 * N * K, votes=TRUTH.voted(K))


def j14(folder: Path) -> Made:
    for k in range(5):
        rows = [
            {"id": i, "question": TRUTH.question(i), "gold": TRUTH.gold[i], "text": TRUTH.text(i, k)} for i in range(N)
        ]
        lines(folder / "runs" / f"seed-{k + 1}" / "samples.jsonl", rows)
    pairs = [(i, k) for i in range(N) for k in range(5)]
    return [str(folder / "runs")], Expected(5 * N, sum(TRUTH.right[i][k] for i, k in pairs), votes=TRUTH.voted(5))


def j15(folder: Path) -> Made:
    rows = [
        {
            "claim_id": i,
            "claim": TRUTH.question(i),
            "document": f"d{i // 5}",
            "label": TRUTH.label(i),
            "k": k,
            "prediction": TRUTH.label(i, k).upper(),
            "confidence": TRUTH.score(i, k),
        }
        for i, k in EACH
    ]
    return [lines(folder / "claims.jsonl", rows)], Expected(verifications=N * K, votes=TRUTH.voted(K, TRUTH.label))


def j16(folder: Path) -> Made:
    """Two models with what a provider charges; one column a model."""
    rows = [
        {
            "id": i,
            "question": TRUTH.question(i),
            "gold": TRUTH.gold[i],
            "small_answer": TRUTH.said[i][0],
            "small_confidence": TRUTH.score(i, 0),
            "small_tokens": TRUTH.tokens(i, 0),
            "big_answer": TRUTH.said[i][1],
            "big_tokens": TRUTH.tokens(i, 1),
        }
        for i in range(N)
    ]
    pairs = [[(i, k) for i in range(N)] for k in (0, 1)]
    return [lines(folder / "wide.jsonl", rows)], Expected(
        2 * N,
        sum(TRUTH.right[i][k] for i in range(N) for k in (0, 1)),
        N,
        tokens(pairs[0] + pairs[1]),
        pools={"small": share(pairs[0]), "big": share(pairs[1])},
    )


def j17(folder: Path) -> Made:
    rows = [
        {
            "request_id": f"r{i}-{k}",
            "question_id": f"q{i}",
            "question": TRUTH.question(i),
            "expected": str(TRUTH.gold[i]),
            "response": TRUTH.text(i, k),
            "start_time": f"2026-01-01T00:00:{k:02d}.000Z",
            "end_time": f"2026-01-01T00:00:{k + TRUTH.seconds(i, k):06.3f}Z",
            "output_tokens": TRUTH.tokens(i, k),
        }
        for i, k in EACH
    ]
    return [lines(folder / "serving.jsonl", rows)], Expected(
        tokens=tokens(), seconds=sum(TRUTH.seconds(i, k) for i, k in EACH), votes=TRUTH.voted(K)
    )


def j18(folder: Path) -> Made:
    rows = [
        {
            "id": i,
            "question": TRUTH.question(i),
            "options": ["w", "x", "y", "z"],
            "answer": TRUTH.letter(i),
            "completion": f"Not A, I think, and not D.\nThe answer is ({TRUTH.letter(i, k)}).",
        }
        for i, k in EACH
    ]
    return [lines(folder / "choices.jsonl", rows)], Expected(votes=TRUTH.voted(K, TRUTH.letter))


def j19(folder: Path) -> Made:
    """search-and-learn's data set."""
    frame = pl.DataFrame(
        {
            "problem": [TRUTH.question(i) for i in range(N)],
            "solution": [f"So \\boxed{{{gold}}}" for gold in TRUTH.gold],
            "answer": [str(gold) for gold in TRUTH.gold],
            "unique_id": [f"test/{i}.json" for i in range(N)],
            "completions": [[f"So \\boxed{{{TRUTH.said[i][k]}}}" for k in range(K)] for i in range(N)],
            "scores": [[[0.5, TRUTH.score(i, k)] for k in range(K)] for i in range(N)],
            "completion_tokens": [[TRUTH.tokens(i, k) for k in range(K)] for i in range(N)],
        }
    )
    path = folder / "best_of_n_completions.parquet"
    frame.write_parquet(path)
    return [str(path)], Expected(verifications=3 * N * K, tokens=tokens(), votes=TRUTH.voted(K))


def j20(folder: Path) -> Made:
    budgets = (512, 2048, 8192)
    rows = [
        {
            "problem": TRUTH.question(i),
            "target": str(TRUTH.gold[i]),
            "budget": budget,
            "sample": k % 2,
            "output": f"Well, {i} or so, so \\boxed{{{TRUTH.said[i][k]}}}.",
            "output_tokens": TRUTH.tokens(i, k),
        }
        for i in range(N)
        for k, budget in enumerate(b for b in budgets for _ in range(2))
    ]
    pairs = [(i, k) for i in range(N) for k in range(6)]
    pools = {
        f"budget={budget}": share([(i, k) for i in range(N) for k in (2 * n, 2 * n + 1)])
        for n, budget in enumerate(budgets)
    }
    return [lines(folder / "budgets.jsonl", rows)], Expected(
        6 * N, sum(TRUTH.right[i][k] for i, k in pairs), tokens=tokens(pairs), pools=pools
    )


JOBS: tuple[Callable[[Path], Made], ...] = (
    j01,
    j02,
    j03,
    j04,
    j05,
    j06,
    j07,
    j08,
    j09,
    j10,
    j11,
    j12,
    j13,
    j14,
    j15,
    j16,
    j17,
    j18,
    j19,
    j20,
)
"""The twenty files of a new user's first hours."""
