"""Muon for the matrices (Jordan et al., 2024), AdamW for embeddings and norms, and one schedule over both."""

from __future__ import annotations

from typing import Any

from generate.training.model_recipe import RateSchedule


class Optimizer:
    """Both optimizers as one, with the rate of each step set from the schedule."""

    def __init__(self, model: Any, schedule: RateSchedule) -> None:
        import torch

        matrices: list[Any] = []
        others: list[Any] = []
        for name, weight in model.named_parameters():
            is_matrix = weight.dim() == 2 and "embed_tokens" not in name and "lm_head" not in name
            (matrices if is_matrix else others).append(weight)
        self.schedule = schedule
        self.weights = [*matrices, *others]
        self.parts: list[torch.optim.Optimizer] = [
            torch.optim.Muon(
                matrices, lr=schedule.rate, weight_decay=schedule.weight_decay, adjust_lr_fn="match_rms_adamw"
            ),
            torch.optim.AdamW(others, lr=schedule.rate, betas=(0.9, 0.98), weight_decay=0.0),
        ]

    def step(self, number: int, progress: float) -> None:
        """One step from the gradients at hand. number: from 0; progress: the share of all tokens that came before."""
        import torch

        torch.nn.utils.clip_grad_norm_(self.weights, 1.0)
        for part in self.parts:
            for group in part.param_groups:
                group["lr"] = rate_at(self.schedule, number, progress)
            part.step()
            part.zero_grad(set_to_none=True)


def rate_at(schedule: RateSchedule, number: int, progress: float) -> float:
    """The rate of step `number` (from 0), with `progress` in [0, 1): up in a line, then down to 0 in another."""
    warm = min(1.0, (number + 1) / (schedule.warmup + 1))
    return schedule.rate * warm * max(0.0, 1.0 - progress)
