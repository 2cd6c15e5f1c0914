"""A Llama or LFM2 model with a tokenizer of characters or words: made from scratch, kept as float16 safetensors.

Attention is computed in float32 while the matrices are multiplied in bfloat16: on CPUs with bfloat16 tiles that is
twice as fast as float32 throughout, while torch's bfloat16 attention is slower than its float32 one.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from generate.engines.base import EngineError
from generate.engines.lfm2 import lfm2_classifier
from generate.engines.weights import ModelFiles, load_tokenizer, require_extra, silence_transformers
from generate.tasks import CHARACTERS
from generate.training.model_recipe import ModelShape
from toolkit.errors import listed
from toolkit.files import replacing

END = "<end>"
PAD = "<pad>"
_ATTENTION = "sdpa_float32"


_WORD = r"####|\n|[A-Za-z]+|\d+|[^\sA-Za-z\d]"
"""A word, a number, a mark or a line break: a token where tokens are words."""
_NO_PREFIX = "\0"


def make_tokenizer(words: Sequence[str] | None = None) -> Any:
    """A tokenizer with one token for each of some words, by default for each character of the tasks; `<end>` (0) ends
    a completion, `<pad>` is 1.

    Blanks between words are no tokens: a text has one before each word but the first of a line, and none before a mark.
    """
    require_extra("generate", "tokenizers", "transformers")
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    silence_transformers()
    vocabulary = {token: index for index, token in enumerate([END, PAD, *(CHARACTERS if words is None else words)])}
    core = Tokenizer(models.WordLevel(vocabulary, unk_token=PAD))
    if words is None:
        core.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
        core.decoder = decoders.Fuse()
    else:
        split = pre_tokenizers.Split
        core.pre_tokenizer = pre_tokenizers.Sequence([split(" ", "removed"), split(Regex(_WORD), "isolated")])
        core.decoder = decoders.Sequence([
            decoders.WordPiece(prefix=_NO_PREFIX, cleanup=True), decoders.Replace(" :", ":"),
            decoders.Replace(Regex(r"^ ?\n"), "\n"), decoders.Fuse(), decoders.Replace("\n ", "\n"),
        ])  # fmt: skip
    return PreTrainedTokenizerFast(tokenizer_object=core, eos_token=END, pad_token=PAD, unk_token=PAD)


def make_model(shape: ModelShape, seed: int, tokenizer: Any) -> Any:
    """A model of this shape with random weights, which the seed determines."""
    require_extra("generate", "torch", "transformers")
    import torch
    from transformers import AttentionInterface, AutoModelForCausalLM, Lfm2Config, LlamaConfig

    AttentionInterface.register(_ATTENTION, _attention)
    keys: dict[str, Any] = {
        "vocab_size": len(tokenizer), "hidden_size": shape.hidden, "intermediate_size": shape.intermediate,
        "num_hidden_layers": shape.layers, "num_attention_heads": shape.heads, "num_key_value_heads": shape.kv_heads,
        "max_position_embeddings": shape.context, "bos_token_id": None, "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id, "tie_word_embeddings": True, "attn_implementation": _ATTENTION,
    }  # fmt: skip
    if shape.convolution:
        layers = [("conv", "full_attention")[place % 2] for place in range(shape.layers)]
        config = Lfm2Config(
            **keys, conv_L_cache=shape.convolution, layer_types=layers, block_auto_adjust_ff_dim=False,
            rope_parameters={"rope_type": "default", "rope_theta": 10_000.0},
        )  # fmt: skip
    else:
        config = LlamaConfig(**keys)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return AutoModelForCausalLM.from_config(config)


def load_model(files: ModelFiles, tokenizer: Any) -> Any:
    """Loads a model that this training wrote, in float32, to train it further.

    EngineError where it is of another architecture, or has other tokens.
    """
    require_extra("generate", "torch", "transformers")
    import torch
    from transformers import AttentionInterface, AutoConfig, AutoModelForCausalLM, Lfm2ForCausalLM, LlamaForCausalLM

    ours = ((one.config_class.model_type, [one.__name__]) for one in (LlamaForCausalLM, Lfm2ForCausalLM))
    folder = str(files.folder)
    config = AutoConfig.from_pretrained(folder, local_files_only=True)
    if (config.model_type, config.architectures) not in ours:
        raise EngineError(
            f"model `{folder}` is a `{config.model_type}` ({listed(config.architectures or ['no class'])}): give one"
            " that `thinkback train` made without `classes`",
            code="unsuitable",
        )
    if load_tokenizer(folder).tokenizer.get_vocab() != tokenizer.get_vocab():
        raise EngineError(
            f"model `{folder}` has other tokens than the tasks: give one that `thinkback train` made", code="mismatch"
        )
    silence_transformers()
    AttentionInterface.register(_ATTENTION, _attention)
    return AutoModelForCausalLM.from_pretrained(
        files.folder, dtype=torch.float32, attn_implementation=_ATTENTION, use_safetensors=True, local_files_only=True
    )


def _attention(module: Any, query: Any, key: Any, value: Any, attention_mask: Any, **settings: Any) -> tuple[Any, None]:
    """Causal attention in float32. Texts are padded at their ends, so that causal order hides the padding."""
    import torch
    from torch.nn.functional import scaled_dot_product_attention

    with torch.autocast(query.device.type, enabled=False):
        groups = module.num_key_value_groups
        key, value = (part.float().repeat_interleave(groups, dim=1) for part in (key, value))
        seen = scaled_dot_product_attention(query.float(), key, value, is_causal=True, scale=settings.get("scaling"))
    return seen.transpose(1, 2).contiguous(), None


def make_classifier(model: Any, tokenizer: Any, classes: Sequence[str]) -> Any:
    """A sequence classifier from a model whose completions are one of some classes, each a token: its outputs are the
    logits of these as the first token, and of two classes the log-odds of the first. A pair of texts is read as two
    lines, the second text first.
    """
    import torch
    from tokenizers.processors import TemplateProcessing
    from transformers import AutoModelForSequenceClassification

    lfm2_classifier()
    vocabulary = tokenizer.get_vocab()
    rows = model.lm_head.weight.detach()[[vocabulary[name] for name in classes]]
    config = copy.deepcopy(model.config)
    config.id2label = dict(enumerate(classes if len(classes) > 2 else classes[:1]))
    config.num_labels = len(config.id2label)
    classifier = AutoModelForSequenceClassification.from_config(config)
    classifier.model.load_state_dict(model.model.state_dict())
    classifier.score.weight = torch.nn.Parameter(rows if len(classes) > 2 else rows[:1] - rows[1:])
    line = {"id": "line", "ids": [vocabulary["\n"]], "tokens": ["\n"]}
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="$A", pair="$B line $A line", special_tokens=[line]
    )
    return classifier


def save_model(
    model: Any, tokenizer: Any, folder: Path, *, force: bool = False, extra: Mapping[str, str] | None = None
) -> None:
    """Writes config, tokenizer, float16 weights and `extra` files (name -> text) into a folder, whole or not at all."""
    import torch

    half = {name: weight.detach().to(torch.float16) for name, weight in model.state_dict().items()}
    half.pop("lm_head.weight", None)  # tied to the embeddings
    with replacing(folder, force) as place:
        model.save_pretrained(place, state_dict=half)
        tokenizer.save_pretrained(place)
        for name, text in (extra or {}).items():
            (place / name).write_text(text, encoding="utf-8")
