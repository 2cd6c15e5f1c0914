"""The lazy surrogate on 2,495 claims x 15 traces, against the plain loop of algorithm 3 that the tests keep.

Both bootstrap, pick, verify, learn and stop by the margin rule. What is verified on each claim is compared first. Times
are CPU seconds of this process, so that other work on the machine does not show.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np

from generate.simulation.claims import draw_claims, draw_noise, load_model, make_traces
from replay.sampling.surrogate import SurrogateOrder, surrogate_walk_steps
from toolkit.stopping.prefix import running_best
from toolkit.stopping.stops import Margin, crossing_step

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests.reference.paths import lazy_path
from tests.reference.rules import PlainLog, Row

NAMES = tuple("abcde")
RULE = Margin()


def data(examples: int, traces: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Answers (E, T), scores (E, T) and features (F, E, T) of the simulated QuanTemp."""
    model = load_model("quantemp")
    claims = draw_claims(model, model.counts, 0)
    draws = draw_noise(model, len(claims.gold), traces, 0)
    made = make_traces(model, claims, draws)
    length = np.clip(np.exp(model.completion_spread * draws.tokens) / 3, 0, 1)
    features = np.concatenate([made.features, length[None]])
    order = np.random.default_rng(0).permutation(len(claims.gold))[:examples]
    return made.label[order].astype(np.int32), made.scores["lora"][order], features[:, order]


def plain_log(code: np.ndarray, score: np.ndarray, features: np.ndarray) -> PlainLog:
    """The same as rows."""
    examples: list[Row] = [{"example_id": str(e), "labels": None} for e in range(len(code))]
    traces: list[Row] = []
    verifications: list[Row] = []
    by_trace: dict[str, Row] = {}
    for e, t in np.ndindex(*code.shape):
        name = f"{e}/{t}"
        answer = None if code[e, t] < 0 else str(code[e, t])
        traces.append({"trace_id": name, "example_id": str(e), "sample_index": int(t), "answer": answer})
        verifications.append({"trace_id": name, "verifier": "v", "score": float(score[e, t])})
        by_trace[name] = {feature: float(features[i, e, t]) for i, feature in enumerate(NAMES)}
    return PlainLog(examples, traces, verifications, frozenset(), by_trace)


def loop(log: PlainLog) -> list[list[int]]:
    """Sample indices verified on each example, by the tests' loop."""
    policy = {"verifier": "v", "features": list(NAMES), "stop": {"rule": "margin"}}
    paths = (lazy_path(log, policy, log.of_example[row["example_id"]], "cap") for row in log.examples)
    return [[int(check.key[2].partition("/")[2]) for check in path.checks] for path in paths]


def engine(code: np.ndarray, score: np.ndarray, features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Places picked (E, S) and how many of them the margin rule lets through (E,)."""
    picks = surrogate_walk_steps(code, score, features, np.full(len(code), code.shape[1]), SurrogateOrder(NAMES))
    made = np.arange(picks.at.shape[1]) < picks.count[:, None]
    shown = np.where(made, np.take_along_axis(code, picks.at, axis=1), -1)
    scores = np.where(made, np.take_along_axis(score, picks.at, axis=1), np.nan)
    best = running_best(shown, scores, picks.at, int(code.max()) + 1)
    alone = np.where(best.verified >= RULE.single_label, np.inf, -np.inf)
    strength = np.where(best.verified_answers > 1, best.lead, alone)
    strength = np.where(best.verified >= RULE.min_valid, strength, -np.inf)
    return picks.at, crossing_step(np.maximum.accumulate(strength.T, axis=0), RULE.threshold, picks.count)[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", type=int, default=2495)
    parser.add_argument("--traces", type=int, default=15)
    options = parser.parse_args()
    arrays = data(options.examples, options.traces)
    log = plain_log(*arrays)
    start = time.process_time()
    slow = loop(log)
    plain_s = time.process_time() - start
    at, steps = engine(*arrays)
    same = sum(at[e, : steps[e]].tolist() == slow[e] for e in range(len(slow)))
    if same < 0.995 * len(slow):
        raise SystemExit(f"only {same} of {len(slow)} examples agree")
    seconds = []
    for _ in range(15):
        start = time.process_time()
        engine(*arrays)
        seconds.append(time.process_time() - start)
    best, median = min(seconds), float(np.median(seconds))
    print(f"lazy surrogate, {options.examples:,} claims x {options.traces} traces, 8 dimensions")
    print(f"{same:,} of {len(slow):,} claims: the same traces verified in the same order")
    print(f"plain loop  {plain_s:8.3f} s")
    print(f"engine      {median:8.3f} s median of 15, {best:.3f} s best")
    print(f"ratio       {plain_s / median:8.0f}   {plain_s / best:.0f} for the best")


if __name__ == "__main__":
    main()
