"""The formats that there are, by name."""

from __future__ import annotations

from collections.abc import Mapping

from toolkit.imports.formats.evalplus_results import EVALPLUS
from toolkit.imports.formats.format import KnownFormat
from toolkit.imports.formats.helm_runs import HELM
from toolkit.imports.formats.inspect_logs import INSPECT
from toolkit.imports.formats.lighteval_details import LIGHTEVAL
from toolkit.imports.formats.lm_eval_samples import LM_EVAL
from toolkit.imports.formats.matharena_outputs import MATHARENA
from toolkit.imports.formats.openai_batches import OPENAI_BATCH
from toolkit.imports.formats.search_and_learn import SEARCH_AND_LEARN
from toolkit.imports.formats.verl_generations import VERL

_OF_NEMO_SKILLS = ("expected_answer", "num_generated_tokens", "is_correct", "graded_list")
_LINES = r"\.(jsonl|ndjson)$"

FORMATS: Mapping[str, KnownFormat] = {
    one.name: one
    for one in (
        LM_EVAL,
        INSPECT,
        OPENAI_BATCH,
        KnownFormat(
            name="vllm",
            title="vLLM's offline outputs: one `RequestOutput` a line",
            files=_LINES,
            recognises=lambda head: head.has("request_id", "outputs"),
            nameless=True,
            lacks="reference answers and verdicts (add a file with `--set join…`); seconds",
            of_requests=True,
        ),
        KnownFormat(
            name="nemo-skills",
            title="NeMo-Skills: `output-rs{seed}.jsonl`",
            files=r"(^|/)output[^/]*\.jsonl$",
            recognises=lambda head: head.has("generation") and not head.keys.isdisjoint(_OF_NEMO_SKILLS),
            depth=2,
            lacks="the model's name; tokens, seconds and verdicts where the pipeline did not count and judge",
        ),
        LIGHTEVAL,
        EVALPLUS,
        HELM,
        MATHARENA,
        SEARCH_AND_LEARN,
        VERL,
    )
}
