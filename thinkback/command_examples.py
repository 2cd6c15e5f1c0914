"""What the help of each command shows it being used for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from typer.core import TyperCommand, TyperGroup

EXAMPLES: Mapping[str, tuple[str, ...]] = {
    "": (
        "thinkback import auto samples_gsm8k.jsonl --out mylog",
        "thinkback replay mylog --out result",
        "thinkback report mylog --out report",
    ),
    "import auto": ("thinkback import auto samples_gsm8k.jsonl --out mylog",),
    "import table": ("thinkback import table samples.jsonl --map map.toml --out mylog",),
    "import lm-eval": ("thinkback import lm-eval results --out mylog",),
    "import recovery": ("thinkback import recovery rows.jsonl --base short --out mylog",),
    "import replay": ("thinkback import replay replay.jsonl --out mylog",),
    "export table": ("thinkback export table mylog --to csv --out flat.csv",),
    "export recovery": ("thinkback export recovery mylog --base short --out rows.jsonl",),
    "export replay": ("thinkback export replay mylog --action active_verify --verifier gate --out replay.jsonl",),
    "export predictions": ("thinkback export predictions mylog --gate gate.json --out predictions.jsonl",),
    "train": ("thinkback train algebra-1m --out model",),
    "generate": (
        "thinkback generate recipe.toml --dry-run",
        "thinkback generate recipe.toml --out mylog",
        "thinkback generate claims-signals --on mylog",
    ),
    "fit": ("thinkback fit grid.toml --on mylog --out fitted",),
    "simulate": ("thinkback simulate --examples 300 --traces 16 --labels 3 --seed 7 --out mylog",),
    "validate": ("thinkback validate mylog",),
    "describe": ("thinkback describe mylog",),
    "query": (
        'thinkback query mylog "select pool, avg(correct) as right from traces group by pool"',
        "thinkback query result \"select example_id, answer from outcomes where policy = 'greedy' and correct = 0\"",
    ),
    "seal": ('thinkback seal folder --name "my runs" --license CC-BY-4.0',),
    "merge": ("thinkback merge monday tuesday --out both",),
    "fit-verifier": (
        "thinkback fit-verifier mylog --train-on \"split = 'train'\" --name latent",
        "thinkback fit-verifier mylog --train-on \"split = 'train'\" --name both --inputs states,trace:token_logprobs",
    ),
    "fit-gate": (
        "thinkback fit-gate mylog --action active_verify --on \"split = 'train'\" --tune \"split = 'dev'\" \\\n"
        "    --out gate.json",
    ),
    "transfer": ("thinkback transfer mylog --gate gate.json --where \"split = 'test'\"",),
    "suite": ("thinkback suite mylog > policies.toml",),
    "check": ("thinkback check policies.toml --log mylog",),
    "replay": (
        "thinkback replay mylog --out result",
        "thinkback replay mylog --policies policies.toml --baseline greedy --out result",
        "thinkback replay mylog --where \"split = 'test'\" --by dataset --out result",
    ),
    "report": ("thinkback report mylog --out report",),
    "dashboard": ("thinkback dashboard result --out page.html", "thinkback dashboard monday tuesday --out both.html"),
    "figure": (
        "thinkback figure result forest --out forest.pdf --width 3.3in --baseline majority@16",
        "thinkback figure report/result headroom --out headroom",
    ),
    "compare": (
        "thinkback compare result",
        'thinkback compare result "majority@16" "adaptive consistency 0.95"',
        "thinkback compare result --with other",
        'thinkback compare result "majority@16" "majority@16" --with other',
    ),
    "curves": ("thinkback curves mylog --pool votes --width 3.3in --out curves",),
    "frontier": (
        "thinkback frontier mylog --verifier latent --out frontier",
        "thinkback frontier mylog --on \"split = 'dev'\" --width 3.3in --out frontier",
    ),
    "explain": ('thinkback explain mylog --policies policies.toml --policy "vote when unsure" --example q7',),
    "tune": (
        'thinkback tune mylog --goal "cheapest within 1 point of majority@16"',
        'thinkback tune mylog --policies policies.toml --goal "most accurate within 2,000 tokens" --out tuned',
    ),
    "study factcheck": ("thinkback study factcheck mylog --pool votes --verifier lora --out factcheck",),
    "study latent": (
        "thinkback study latent mylog --out latent",
        "thinkback study latent mylog --verifier latent --published --without-ablations --out latent",
    ),
    "study recovery": ("thinkback study recovery mylog --where \"split = 'test'\" --out recovery",),
}
"""Command -> command lines; those of a group are made of its commands', those of a format of its name."""


def examples_of(command: str) -> tuple[str, ...]:
    """The command lines that the help of a command, or of a group of them, shows."""
    if command in EXAMPLES:
        return EXAMPLES[command]
    group, _, name = command.partition(" ")
    if group == "import" and name:
        return (f"thinkback import {name} PATH --out mylog",)
    return tuple(lines[0] for one, lines in EXAMPLES.items() if one.startswith(f"{command} "))


class EndsWithExamples:
    """The end of a help."""

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write them as they are, for they are to be copied."""
        path, at = [], ctx
        while at is not None and at.parent is not None:
            path.append(at.info_name)
            at = at.parent
        with formatter.section("Examples"):
            for line in examples_of(" ".join(reversed(path))):
                formatter.write("".join(f"  {part}\n" for part in line.split("\n")))


class WithExamples(EndsWithExamples, TyperCommand):
    """A command whose help ends with examples."""


class GroupWithExamples(EndsWithExamples, TyperGroup):
    """A group of commands whose help ends with examples of them."""
