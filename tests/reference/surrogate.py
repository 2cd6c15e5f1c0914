"""The slow twin's surrogate: recursive least squares on lists, one example, one verification at a time."""

from __future__ import annotations

from collections.abc import Sequence

from tests.reference.rules import Partial, PlainLog, Row

LABEL_SCORES = {"mean": lambda scores: sum(scores) / len(scores), "max": max}


class Surrogate:
    """Weights w and matrix P of one example."""

    def __init__(self, log: PlainLog, policy: Row) -> None:
        self.log, self.names = log, policy.get("features", [])
        self.forgetting, self.bonus = policy.get("forgetting", 1.0), policy.get("bonus", 0.0)
        self.unseen, self.of_label = policy.get("unseen", 0.5), LABEL_SCORES[policy.get("label_score", "mean")]
        self.prior = policy.get("prior", lambda values: 0.0)  # a score foretold from the features
        d = len(self.names) + 3
        self.w = [0.0] * d
        self.p = [[1 / policy.get("ridge", 1.0) if i == j else 0.0 for j in range(d)] for i in range(d)]

    def phi(self, trace: Row, seen: Sequence[Row], scored: Sequence[tuple[Row, float]]) -> list[float]:
        row = self.log.features.get(trace["trace_id"], {})
        values = [row.get(name) for name in self.names]
        if None in values:
            raise Partial(f"a feature of {trace['trace_id']} is null")
        valid = [t for t in seen if self.log.valid(t)]
        ratio = sum(t["answer"] == trace["answer"] for t in valid) / len(valid)
        scores = [s for t, s in scored if t["answer"] == trace["answer"]]
        return [*values, ratio, self.of_label(scores) if scores else self.unseen, 1.0]

    def predict(self, phi: list[float]) -> float:
        return min(max(self.linear(phi) + self.prior(phi[:-3]), 0.0), 1.0) + self.bonus * self.spread(phi) ** 0.5

    def linear(self, phi: list[float]) -> float:
        return sum(w * x for w, x in zip(self.w, phi, strict=True))

    def spread(self, phi: list[float]) -> float:
        """phi' P phi: large where a trace is unlike those verified."""
        d = range(len(phi))
        return max(sum(self.p[i][j] * phi[i] * phi[j] for i in d for j in d), 0.0)

    def pick(self, seen: Sequence[Row], left: Sequence[Row], scored: Sequence[tuple[Row, float]]) -> Row:
        """The best-predicted one of `left`, which is in order of generation: max keeps the earliest."""
        return max(left, key=lambda trace: self.predict(self.phi(trace, seen, scored)))

    def learn(self, trace: Row, seen: Sequence[Row], scored: Sequence[tuple[Row, float]], score: float) -> None:
        phi = self.phi(trace, seen, scored)
        u = [sum(p * x for p, x in zip(row, phi, strict=True)) for row in self.p]
        k = [a / (self.forgetting + sum(x * b for x, b in zip(phi, u, strict=True))) for a in u]
        error = score - self.prior(phi[:-3]) - self.linear(phi)
        row_u = [sum(phi[i] * self.p[i][j] for i in range(len(phi))) for j in range(len(phi))]
        self.w = [w + g * error for w, g in zip(self.w, k, strict=True)]
        self.p = [
            [(self.p[i][j] - k[i] * row_u[j]) / self.forgetting for j in range(len(phi))] for i in range(len(phi))
        ]
