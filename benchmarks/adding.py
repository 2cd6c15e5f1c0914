"""Adding to a log and to one ten times larger: seconds, and how little the peak memory grows.

Run with `python benchmarks/adding.py`. Two kinds of work: features and a scorer that need no model, in ten shards one
after the other, and contradiction between traces by a small random NLI model. What the shards add must equal what one
run adds, and the contradiction of some traces that of pairs read one by one, before anything is reported. Each run is
in a process of its own, so that its peak memory is its own.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from states import LETTERS, make_log, peak_gib, save_tokenizer

from generate.annotating.annotation_plan import make_add_plan
from generate.annotating.annotation_run import add_signals
from generate.signals.additions import load_additions
from toolkit.log import Log, collect, open_log

PLAIN = """
[[verify]]
name = "chance"
kind = "random"

[[features]]
kind = "serving"
"""
CONTRADICTION = """
[[features]]
kind = "contradiction"
model = "nli"
peers = "earlier"
most = 2
"""


def make_nli(folder: Path) -> None:
    """A random BERT (hidden 32, 2 layers) that reads characters and names three labels."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(0)
    save_tokenizer(folder)
    config = BertConfig(
        vocab_size=len(LETTERS) + 2, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64,
        max_position_embeddings=256, num_labels=3, id2label={0: "entailment", 1: "neutral", 2: "contradiction"},
    )  # fmt: skip
    BertForSequenceClassification(config).save_pretrained(folder)


def check_contradiction(log: Log, model: Path) -> None:
    """Raise where the contradiction of some traces is not the mean over pairs that are read one by one."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    network, words = (
        AutoModelForSequenceClassification.from_pretrained(model).eval(),
        AutoTokenizer.from_pretrained(model),
    )
    rows = collect(log.scan("traces", ["trace_id", "example_id", "sample_index", "text"]))
    made = collect(log.scan("features", ["trace_id", "earlier_contradiction"]))
    both = rows.join(made, on="trace_id").sort("example_id", "sample_index")
    for place in random.Random(0).sample(range(both.height), 20):
        own = both.row(place, named=True)
        peers = both.filter(
            (pl.col("example_id") == own["example_id"]) & (pl.col("sample_index") < own["sample_index"])
        ).tail(2)
        found = []
        for text in peers["text"]:
            with torch.inference_mode():
                logits = network(**words(text, own["text"], return_tensors="pt")).logits[0]
            found.append(float(logits.double().softmax(0)[2]))
        np.testing.assert_allclose(own["earlier_contradiction"], np.mean(found) if found else 0.0, atol=1e-4)


def measure(recipe: Path, log: Path, shard: int, shards: int) -> dict[str, Any]:
    """Add a shard in this process: traces, seconds, and memory before and at its peak."""
    additions = load_additions(recipe)
    if "contradiction" in [step.kind for step in additions.steps]:
        import torch  # noqa: F401 (so that it counts among what was there before)
        import transformers  # noqa: F401
    before = peak_gib()
    clock = time.perf_counter()
    plan = make_add_plan(additions, log, (shard, shards))
    add_signals(plan, lambda _: None)  # type: ignore[arg-type,return-value]
    seconds = time.perf_counter() - clock
    return {"traces": plan.traces, "seconds": seconds, "before": before, "peak": peak_gib()}


def run(recipe: Path, log: Path, shards: int = 1) -> list[dict[str, Any]]:
    """Add all shards, each in a process of its own."""
    found = []
    for shard in range(1, shards + 1):
        command = [sys.executable, __file__, "--measure", str(recipe), str(log), str(shard), str(shards)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        found.append(json.loads(done.stdout.splitlines()[-1]))
    return found


def say(what: str, found: list[dict[str, Any]]) -> None:
    """One line."""
    growth = max(one["peak"] - one["before"] for one in found)
    print(
        f"{what}: {sum(one['traces'] for one in found):,} rows in {sum(one['seconds'] for one in found):.1f} s, peak"
        f" {max(one['peak'] for one in found):.2f} GiB, {growth:.2f} more than before"
    )


def tables(log: Log) -> list[pl.DataFrame]:
    """What was added, in one order."""
    scores = collect(log.scan("verifications", ["trace_id", "score"])).sort("trace_id")
    return [scores, collect(log.scan("features", list(log.columns("features")))).sort("trace_id")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", type=int, default=2_500, help="of the smaller log; 16 traces each")
    parser.add_argument("--shards", type=int, default=10)
    parser.add_argument("--pairs", type=int, default=500, help="examples of the smaller log of contradiction")
    parser.add_argument("--measure", nargs=4, metavar=("RECIPE", "LOG", "SHARD", "SHARDS"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        recipe, log, shard, shards = given.measure
        print(json.dumps(measure(Path(recipe), Path(log), int(shard), int(shards))))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_nli(folder / "nli")
        plain, pairs = folder / "plain.toml", folder / "pairs.toml"
        plain.write_text(PLAIN, encoding="utf-8")
        pairs.write_text(CONTRADICTION, encoding="utf-8")
        for factor in (1, 10):
            log, whole = folder / f"log{factor}", folder / f"whole{factor}"
            make_log(log, given.examples * factor)
            shutil.copytree(log, whole)
            in_parts, at_once = run(plain, log, given.shards), run(plain, whole)
            assert all(a.equals(b) for a, b in zip(tables(open_log(log)), tables(open_log(whole)), strict=True))
            say(f"no model, {given.shards} shards", in_parts)
            say("no model, at once", at_once)
            shutil.rmtree(log), shutil.rmtree(whole)
        for factor in (1, 10):
            log = folder / f"pairs{factor}"
            make_log(log, given.pairs * factor)
            found = run(pairs, log)
            check_contradiction(open_log(log), folder / "nli")
            say("contradiction, 2 peers", found)


if __name__ == "__main__":
    main()
