"""Teacher-forced hidden states of a model of one million parameters: tokens a second and peak memory, for a log and one
ten times larger.

Run with `python benchmarks/states.py`. The model is one with random weights, or with `--data data` the shipped one of
claims, which reads copies of the first examples of the shipped log. The states of a few traces must equal those of an
unbatched pass before anything is reported. Each size runs in a process of its own, so that its peak memory is its own.
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

from generate.annotating.annotation_plan import make_add_plan
from generate.annotating.annotation_run import add_signals
from generate.signals.additions import load_additions
from generate.signals.signal import WorkerInput
from generate.traces.block import trace_blocks
from toolkit.log import collect, open_log, write_log

LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789 +-=.\n"
RECIPE = """
[[states]]
model = "model"
layers = [-1, -2]
tokens = { first = -8, last = -1 }
prompt = "ask.txt"
"""


def save_tokenizer(folder: Path) -> None:
    """A token for each character."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = {token: index for index, token in enumerate(["</s>", "<unk>", *LETTERS])}
    core = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    core.decoder = decoders.Fuse()
    PreTrainedTokenizerFast(tokenizer_object=core, eos_token="</s>", unk_token="<unk>").save_pretrained(folder)


def make_model(folder: Path) -> None:
    """A random Llama of 1.07 M parameters (hidden 128, 5 layers, 4 heads) that reads characters."""
    from transformers import LlamaConfig, LlamaForCausalLM

    save_tokenizer(folder)
    config = LlamaConfig(
        vocab_size=len(LETTERS) + 2, hidden_size=128, intermediate_size=384, num_hidden_layers=5, num_attention_heads=4,
        num_key_value_heads=4, max_position_embeddings=256, bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)


def make_log(path: Path, examples: int, votes: int = 16) -> None:
    """Random texts of 40 to 90 characters behind questions of 30."""
    rng = random.Random(examples)

    def text(low: int, high: int) -> str:
        return "".join(rng.choices(LETTERS, k=rng.randint(low, high)))

    names = [f"e{number:06d}" for number in range(examples)]
    asked = pl.DataFrame({"example_id": names, "question": [text(30, 30) for _ in names]})
    asked = asked.with_columns(dataset=pl.lit("random"), split=pl.lit("test"))
    rows = [(f"{name}/{index}", name, index, text(40, 90)) for name in names for index in range(votes)]
    traces = pl.DataFrame(rows, schema=["trace_id", "example_id", "sample_index", "text"], orient="row").with_columns(
        pool=pl.lit("votes"), action=pl.lit("solve"), model=pl.lit("none"), finish_reason=pl.lit("stop")
    )
    write_log(path, name="random", tables={"examples": asked, "traces": traces}, simulated=True)


def copy_log(data: Path, path: Path, examples: int) -> None:
    """The votes of the first shipped claims, of all splits, in a log of their own."""
    shipped = open_log(data / "log")
    asked = shipped.scan("examples").filter(pl.col("dataset") == "numeric_claims")
    own = collect(asked.sort("example_id").head(examples))
    traces = shipped.scan("traces").filter(pl.col("pool") == "votes")
    votes = collect(traces.join(own.lazy().select("example_id"), on="example_id", how="semi"))
    write_log(path, name="claims", tables={"examples": own, "traces": votes})


def check(log: Path, model: Path) -> None:
    """Raise where the states of some traces are not those of an unbatched pass, within float16."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    network, words = AutoModelForCausalLM.from_pretrained(model).eval(), AutoTokenizer.from_pretrained(model)
    opened = open_log(log)
    both = opened.scan("traces").join(opened.scan("examples", ["example_id", "question"]), on="example_id")
    for row in collect(both.head(20)).iter_rows(named=True):
        prompt, ended = words(f"{row['question']}\n")["input_ids"], row["finish_reason"] == "stop"
        ids = prompt + words(row["text"], add_special_tokens=False)["input_ids"] + [words.eos_token_id] * ended
        with torch.inference_mode():
            alone = network(torch.tensor([ids]), output_hidden_states=True).hidden_states
        mine = collect(opened.scan("hidden_states/model").filter(pl.col("trace_id") == row["trace_id"]))
        assert mine.height == 2 * min(8, len(ids) - len(prompt))
        for layer, token, state in mine.select("layer", "token", "state").iter_rows():
            np.testing.assert_allclose(np.array(state), alone[layer][0, token], atol=5e-3, rtol=5e-3)


def peak_gib() -> float:
    """This process's largest memory until now. (Unlike `getrusage`'s, it leaves out that of the parent.)"""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.partition("VmHWM:")[2].split()[0]) / 2**20


def measure(folder: Path, log: Path) -> dict[str, Any]:
    """Add states to a log in this process: tokens, seconds of the clock and of the processors, and peak memory."""
    import torch  # noqa: F401 (so that it counts among what was there before)
    import transformers  # noqa: F401

    plan = make_add_plan(load_additions(folder / "add.toml"), log)
    loaded = peak_gib()
    clock, processor = time.perf_counter(), time.process_time()
    done = add_signals(plan, lambda _: None)  # type: ignore[arg-type,return-value]
    seconds, busy = time.perf_counter() - clock, time.process_time() - processor
    peak = peak_gib()
    (todo,) = plan.todo
    forced = todo.step.worker(todo.step, WorkerInput(plan.additions, plan.log, todo.pools, 0, None, None, None))
    texts = [forced.ids(block, row) for block in trace_blocks(done.log, todo.traces, 4_096) for row in block.rows]
    read = sum(len(text.completion) for text in texts) + sum(map(len, {text.prompt for text in texts}))
    return {
        "traces": plan.traces, "tokens": sum(map(len, texts)), "read": read, "seconds": seconds, "busy": busy,
        "peak": peak, "before": loaded,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", type=int, default=250, help="of the smaller log; 16 traces each")
    parser.add_argument("--data", type=Path, help="the folder `data`, for the shipped model and log")
    parser.add_argument("--measure", nargs=2, metavar=("FOLDER", "LOG"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(measure(*map(Path, given.measure))))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if given.data is None:
            make_model(folder / "model")
        else:
            shutil.copytree(given.data / "models" / "claims-1m", folder / "model")
        (folder / "ask.txt").write_text("{{question}}\n\n", encoding="utf-8")
        (folder / "add.toml").write_text(RECIPE, encoding="utf-8")
        for factor in (1, 10):
            log = folder / f"log{factor}"
            if given.data is None:
                make_log(log, given.examples * factor)
            else:
                copy_log(given.data, log, given.examples * factor)
            command = [sys.executable, __file__, "--measure", str(folder), str(log)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            got = json.loads(done.stdout.splitlines()[-1])
            if factor == 1:
                check(log, folder / "model")
            print(
                f"{got['traces']:,} traces, {got['tokens']:,} tokens: {got['tokens'] / got['seconds']:,.0f} tokens/s,"
                f" {got['tokens'] / got['busy']:,.0f} a processor second; with a prompt of several traces counted once,"
                f" as it is read, {got['read'] / got['seconds']:,.0f} tokens/s; peak {got['peak']:.2f} GiB, of which"
                f" {got['before']:.2f} before the model was loaded"
            )


if __name__ == "__main__":
    main()
