"""`thinkback fit-verifier`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from thinkback import options
from thinkback.options import option, positional


class VerifierModel(StrEnum):
    """Models of a verifier."""

    xgboost = "xgboost"
    logistic = "logistic"
    mlp = "mlp"
    swiglu = "swiglu"


class Places(StrEnum):
    """How many models there are for several states of a trace."""

    one = "one"
    each = "each"
    mean = "mean"


class Aggregate(StrEnum):
    """How the scores of a trace's states become one."""

    mean = "mean"
    min = "min"
    max = "max"
    median = "median"


def fit_verifier(
    log: Annotated[Path, positional("LOG", "A sealed log in a folder; the verifier is added to it.")],
    train_on: Annotated[str, option("--train-on", "Examples to fit on, such as \"split='train'\".", "SQL")],
    name: Annotated[str, option("--name", "What policies call the verifier.", "NAME")],
    model: Annotated[VerifierModel, typer.Option("--model", help="What is fitted.")] = VerifierModel.xgboost,
    inputs: Annotated[
        str | None,
        option(
            "--inputs",
            "What it reads: states (the default), trace:COLUMN, feature:NAME, verifier:NAME, tokens:VERIFIER.",
            "NAME,…",
        ),
    ] = None,
    states: Annotated[str | None, option("--states", "Whose hidden states, of several models.", "MODEL")] = None,
    layers: Annotated[str | None, option("--layers", "Layers of the states; by default all logged.", "N,…")] = None,
    tokens: Annotated[str | None, option("--tokens", "Tokens of the states; by default all logged.", "N,…")] = None,
    places: Annotated[
        Places,
        typer.Option(
            "--places",
            help="One model over all layers and tokens; a model and a verifier for each; a model for each, scored as "
            "one.",
        ),
    ] = Places.one,
    aggregate: Annotated[
        Aggregate, typer.Option("--aggregate", help="How the scores of a trace's states become one.")
    ] = Aggregate.mean,
    pools: Annotated[str | None, option("--pools", "Traces of these pools alone; by default all.", "POOL,…")] = None,
    folds: Annotated[
        int,
        typer.Option(
            "--folds", metavar="K", help="Folds of questions to score what was trained on; 0: leave it without scores."
        ),
    ] = 5,
    depth: Annotated[int, typer.Option("--depth", metavar="N", help="Depth of XGBoost's trees.")] = 5,
    eta: Annotated[float, typer.Option("--eta", metavar="X", help="XGBoost's learning rate.")] = 0.1,
    rounds: Annotated[int, typer.Option("--rounds", metavar="N", help="XGBoost's trees.")] = 30,
    seed: options.Seed = 0,
) -> None:
    """Fit a verifier on hidden states and add its scores.

    Log-probabilities, features and other verifiers' scores may be read with them, or in their place. Questions that it
    was trained on are scored by models of other folds alone, and marked so. The model is written to
    LOG/models/NAME.json.
    """
    from replay.latent.report import fit_verifier as fit
    from thinkback import console

    report = fit(
        log, train_on, name=name, model=model.value, inputs=options.names(inputs) or ("states",), states=states or "",
        layers=_numbers("layers", layers), tokens=_numbers("tokens", tokens), places=places.value,
        aggregate=aggregate.value, pools=options.names(pools), folds=folds, depth=depth, eta=eta, rounds=rounds,
        seed=seed,
    )  # fmt: skip
    for sentence in report.sentences:
        console.say(sentence)
    for table in report.tables():
        console.say()
        console.show(table)


def _numbers(name: str, text: str | None) -> tuple[int, ...]:
    from toolkit.errors import ThinkbackError, argument

    try:
        return tuple(int(one) for one in options.names(text))
    except ValueError:
        raise ThinkbackError(f"{argument(name)} is `{text}`; it takes integers, such as -1,-2") from None
