"""The study of retrieval on small planted worlds, and its rankings, votes and means written plainly."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl

from generate.simulation.chains import ChainsModel
from generate.simulation.rounds import RoundsModel, simulate_rounds
from replay.studies.kit.report import StudyReport
from replay.studies.multihop.report import study_multihop

QUICK: dict[str, Any] = {"resamples": 60, "encoder": "strong", "decoder": "weak"}


def world(folder: Path, examples: int = 60, seed: int = 3, **keys: Any) -> Path:
    """A planted log; keys are those of the rounds or, where they have that name, of the chains."""
    chains = {key: keys.pop(key) for key in list(keys) if key in ChainsModel.__dataclass_fields__}
    simulate_rounds(
        folder, examples=examples, seed=seed, model=RoundsModel(**keys), chains=ChainsModel(**({"chains": 4} | chains))
    )
    return folder


def report(log: Any, **options: Any) -> StudyReport:
    return study_multihop(log, **(QUICK | options))


def cells(of: StudyReport, name: str, *heads: str) -> dict[tuple[Any, ...], dict[str, Any]]:
    """The rows of a table by their first cells: values by the names of their columns."""
    table = of.tables[name]
    keys = [column.key or column.name for column in table.columns]
    rows = [dict(zip(keys, row, strict=True)) for row in table.rows]
    return {tuple(row[head] for head in heads): row for row in rows}


def ranked(rounds: list[dict[str, Any]], factor: Any) -> list[str]:
    """The documents of an example, by logistic relevance times the factor of their round, hops merged by place."""
    lists = []
    for hop in sorted({row["hop"] for row in rounds}):
        rows = sorted((row for row in rounds if row["hop"] == hop), key=lambda row: row["round"])
        factors = factor(rows)
        scored = [
            (-factors[i] / (1 + math.exp(-relevance)), i, place, document)
            for i, row in enumerate(rows)
            for place, (document, relevance) in enumerate(zip(row["documents"], row["relevance"], strict=True))
        ]
        lists.append([one[3] for one in sorted(scored)])
    merged = [one[place] for place in range(max(map(len, lists))) for one in lists if place < len(one)]
    return list(dict.fromkeys(merged))


def plain(rows: list[dict[str, Any]]) -> list[float]:
    return [1.0] * len(rows)


def first(rows: list[dict[str, Any]]) -> list[float]:
    """The first round of a hop, which has answers here, and no other."""
    return [2.0] + [1.0] * (len(rows) - 1)


def by_round(rows: list[dict[str, Any]]) -> list[float]:
    """FAIR with the frontier of each round alone: a round is rewarded when its answers are one cluster."""
    return [2.0 if len(set(row["clusters"])) == 1 else 1.0 for row in rows]


def sunar(rows: list[dict[str, Any]]) -> list[float]:
    """2 / max(1, pairs of different answers)."""
    return [2 / max(1, math.comb(len(set(row["answers"])), 2)) for row in rows]


def fair(rows: list[dict[str, Any]]) -> list[float]:
    """FAIR with K = 2 and support over the hop: rewarded while one cluster is in the frontier."""
    support: dict[int, int] = {}
    factors = []
    for row in rows:
        counts = Counter(row["clusters"])
        for cluster in sorted(counts, key=lambda c: (-counts[c], c))[:2]:
            if cluster in support:
                support[cluster] += counts[cluster]
            elif len(support) < 2:
                support[cluster] = counts[cluster]
            else:
                least = max(support, key=lambda c: (-support[c], c))
                if counts[cluster] > support[least]:
                    del support[least]
                    support[cluster] = counts[cluster]
        factors.append(2.0 if len(support) == 1 else 1.0)
    return factors


def recall(examples: pl.DataFrame, rounds: pl.DataFrame, factor: Any, k: int) -> tuple[float, float]:
    """Mean recall and hit at k over the examples."""
    shares, hits = [], []
    for example, gold in examples.select("example_id", "gold_documents").iter_rows():
        first = ranked(rounds.filter(pl.col("example_id") == example).to_dicts(), factor)[:k]
        shares.append(len(set(first) & set(gold)) / len(set(gold)))
        hits.append(bool(set(first) & set(gold)))
    return sum(shares) / len(shares), sum(hits) / len(hits)
