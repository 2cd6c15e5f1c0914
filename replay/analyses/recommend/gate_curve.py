"""The curve of a gate over the share of examples that it acts on: rows at even steps, and panels of a figure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl

from toolkit.show import PlottedBand, ShownInterval

RATE = "intervention_rate"
Shown = ShownInterval | float | str | None


def at_rates(
    band: pl.DataFrame, metrics: Sequence[str], shares: int = 10
) -> Iterator[dict[str, ShownInterval | float | str | None]]:
    """Rows nearest to acting on 0, 1/n, 2/n … of the examples: threshold in words, rate, metrics with their bands."""
    cells = {
        (row["threshold"], row["metric"]): ShownInterval.of((row["estimate"], row["band_low"], row["band_high"]))
        for row in band.iter_rows(named=True)
    }
    rates = band.filter(pl.col("metric") == RATE).sort("estimate")
    distance = np.abs(rates["estimate"].to_numpy()[:, None] - np.linspace(0, 1, shares + 1))
    for place in np.unique(distance.argmin(axis=0)):
        threshold, rate = rates["threshold"][int(place)], rates["estimate"][int(place)]
        # digits that tell a threshold from its neighbours
        told = f"{threshold:.4g}" if np.isfinite(threshold) else "never" if threshold > 0 else "always"
        yield {RATE: rate, "threshold": told, **{name: cells.get((threshold, name)) for name in metrics}}


def band_panels(
    band: pl.DataFrame | None,
    shown: Sequence[tuple[str, str, float]],
    mark: float | None,
    from_zero: bool = False,
    least: float = 0.0,
) -> list[PlottedBand]:
    """Panels of (metric, label, scale) that are known and not 0 everywhere, over the share that a gate acts on."""
    made = [band_panel(band, *one, mark, from_zero, least) for one in shown] if band is not None else []
    return [panel for panel in made if panel is not None and any(panel.estimate)]


def band_panel(
    band: pl.DataFrame,
    metric: str,
    label: str,
    scale: float,
    mark: float | None = None,
    from_zero: bool = False,
    least: float = 0.0,
) -> PlottedBand | None:
    """A metric over the share of examples that a gate acts on, `mark` its own; None where the metric is not known.

    `from_zero`: up to the highest band, or 100. The line begins where the gate acts on the share `least`.
    """
    rate = band.filter(pl.col("metric") == RATE)
    place = dict(zip(rate["threshold"], rate["estimate"], strict=True))
    own = band.filter((pl.col("metric") == metric) & pl.col("estimate").is_not_null())
    far = (row for row in own.iter_rows(named=True) if place[row["threshold"]] >= least)
    rows = sorted(far, key=lambda row: place[row["threshold"]])
    if not rows:
        return None

    def column(name: str) -> tuple[float | None, ...]:
        return tuple(None if row[name] is None else scale * row[name] for row in rows)

    estimate = tuple(scale * float(row["estimate"]) for row in rows)
    high = column("band_high")
    top = min(1.05 * max([*(one for one in high if one is not None), *estimate]), 100.0) if from_zero else None
    return PlottedBand(
        label, tuple(100 * place[row["threshold"]] for row in rows), estimate, column("band_low"), high,
        top=top or None, rate=scale == 100.0, mark=None if mark is None else 100 * mark,
    )  # fmt: skip
