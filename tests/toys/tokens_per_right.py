"""A metric: tokens spent for each right answer."""

from toolkit.columns import METRICS, OutcomeColumn

TOKENS_PER_RIGHT = OutcomeColumn(
    "tokens_per_right",
    computed="ratio",
    ratio=("total_tokens", "accuracy"),
    unit="tokens",
    header="tokens/right",
    decimals=1,
    place=4,
)
METRICS[TOKENS_PER_RIGHT.name] = TOKENS_PER_RIGHT
