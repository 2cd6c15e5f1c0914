"""The formats that there are, by name."""

from __future__ import annotations

from collections.abc import Mapping

from toolkit.imports.formats.format import Format
from toolkit.imports.formats.helm_runs import HELM
from toolkit.imports.formats.inspect_logs import INSPECT
from toolkit.imports.formats.lighteval_details import LIGHTEVAL
from toolkit.imports.formats.lm_eval_samples import LM_EVAL
from toolkit.imports.formats.openai_batches import OPENAI_BATCH
from toolkit.imports.formats.search_and_learn import SEARCH_AND_LEARN

_LINES = r"\.(jsonl|ndjson)$"
_ROWS = r"\.(jsonl|ndjson|json|parquet|pq)$"

FORMATS: Mapping[str, Format] = {
    one.name: one
    for one in (
        LM_EVAL,
        INSPECT,
        OPENAI_BATCH,
        Format(
            name="vllm",
            title="vLLM's offline outputs: one `RequestOutput` a line",
            files=_LINES,
            recognises=lambda head: head.has("request_id", "outputs"),
            lacks="reference answers and verdicts (add a file with `--set join…`); seconds",
        ),
        Format(
            name="nemo-skills",
            title="NeMo-Skills: `output-rs{seed}.jsonl`",
            files=r"(^|/)output[^/]*\.jsonl$",
            recognises=lambda head: head.has("generation", "expected_answer"),
            depth=2,
            lacks="the model's name; tokens, seconds and verdicts where the pipeline did not count and judge",
        ),
        LIGHTEVAL,
        Format(
            name="evalplus",
            title="evalplus: `eval_results.json`",
            files=r"eval_results\.json$",
            recognises=lambda head: head.has("eval") and (head.has("hash") or head.has("pass_at_k")),
            lacks="questions, tokens and seconds; programs are no votes, so answers are opaque",
        ),
        HELM,
        Format(
            name="matharena",
            title="MathArena's data sets of outputs: one row a sample",
            files=_ROWS,
            recognises=lambda head: head.has("problem_idx", "idx_answer", "gold_answer"),
            lacks="seconds and verifier scores",
        ),
        SEARCH_AND_LEARN,
        Format(
            name="verl",
            title="verl's dumped generations: `{step}.jsonl`",
            files=_LINES,
            recognises=lambda head: head.has("input", "output", "score"),
            lacks="ids, so a question is known by its text; tokens and seconds; the model's name",
        ),
    )
}
