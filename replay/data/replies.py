"""What samples of one reply share: its seconds, and its prompt's tokens where it was billed once. A policy that draws
some of them pays that with the first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True)
class SharedCosts:
    """The replies of a pool (E, T): the sample index of the first trace of the same reply, or the trace's own where it
    came alone. costs: by name, the part of each trace's cost (E, T) that is paid once for its reply.
    """

    reply: np.ndarray
    costs: Mapping[str, np.ndarray]

    def shares_earlier_reply(self, place: np.ndarray) -> np.ndarray:
        """Steps (E, S) of a walk whose trace, the sample index `place` (E, S), came in the reply of an earlier one."""
        replies = np.take_along_axis(self.reply, place, axis=1)
        order = np.argsort(replies, axis=1, kind="stable")
        ranked = np.take_along_axis(replies, order, axis=1)
        same = np.zeros(place.shape, dtype=bool)
        same[:, 1:] = ranked[:, 1:] == ranked[:, :-1]
        out = np.zeros_like(same)
        np.put_along_axis(out, order, same, axis=1)
        return out

    def with_calls_apart(self, apart: np.ndarray) -> SharedCosts:
        """The costs where the traces `apart` (E, T) are calls of their own, which share nothing."""
        traces = self.reply.shape[1]
        return replace(self, reply=np.where(apart, traces + np.arange(traces), self.reply))

    def probability_of_repeated_reply(self, paid: np.ndarray, known: np.ndarray | None = None) -> np.ndarray:
        """The probability (E, T) that a trace is paid after another trace with the same reply. `paid` (E, T): how
        probably each trace is paid here; `known` (E, T): how probably it was paid before any of these.
        """
        example, none = np.arange(len(paid)), np.ones((len(paid), int(self.reply.max(initial=0)) + 1))
        if known is not None:
            for t in range(paid.shape[1]):
                none[example, self.reply[:, t]] *= 1 - known[:, t]
        out = np.zeros_like(paid)
        for t in range(paid.shape[1]):
            before = none[example, self.reply[:, t]]
            out[:, t] = paid[:, t] * (1 - before)
            none[example, self.reply[:, t]] = before * (1 - paid[:, t])
        return out

    def surplus_costs(self, there: np.ndarray, drawn: np.ndarray) -> dict[str, np.ndarray]:
        """The surplus (E,) by cost: what the first `drawn` (E,) traces of those `there` (E, T) cost, in the mean over
        all orders, more than their share of the whole pool, each reply paid once. Of a reply with g of N traces some
        are among the first k with probability 1 - C(N - g, k) / C(N, k).
        """
        size = there.sum(axis=1)
        first = there & (self.probability_of_repeated_reply(there.astype(float)) == 0)
        members = (there[:, None, :] & (self.reply[:, None, :] == self.reply[:, :, None])).sum(axis=2)  # (E, T)
        left, k = size[:, None] - members, drawn[:, None]
        with np.errstate(invalid="ignore"):
            missed = np.exp(_log_choose(left, k) - _log_choose(size[:, None], k))
        chance = 1 - np.where(left < k, 0.0, missed)
        more = np.where(first, chance - k / np.maximum(size[:, None], 1), 0.0)
        return {name: np.where(first, more * part, 0.0).sum(axis=1) for name, part in self.costs.items()}


def _log_choose(n: np.ndarray, k: np.ndarray) -> np.ndarray:
    """Logarithm of C(n, k), for 0 <= k <= n."""
    from scipy.special import gammaln  # here, since few logs have such replies, and importing it takes long

    value: np.ndarray = gammaln(n + 1) - gammaln(k + 1) - gammaln(np.maximum(n - k, 0) + 1)
    return value
