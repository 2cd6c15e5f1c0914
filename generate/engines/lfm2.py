"""LFM2 models as sequence classifiers, for which transformers 5 has all parts and no class."""

from __future__ import annotations

from functools import cache
from typing import Any


@cache
def lfm2_classifier() -> Any:
    """The class of LFM2 models with a head of classes on their last token. It is registered with transformers, so that
    its `AutoModelForSequenceClassification`, and with that sentence-transformers, load what it saved.
    """
    from transformers import AutoModelForSequenceClassification, Lfm2Config, Lfm2PreTrainedModel
    from transformers.modeling_layers import GenericForSequenceClassification

    classifier = type("Lfm2ForSequenceClassification", (GenericForSequenceClassification, Lfm2PreTrainedModel), {})
    AutoModelForSequenceClassification.register(Lfm2Config, classifier, exist_ok=True)  # else it leaves its own alone
    return classifier
