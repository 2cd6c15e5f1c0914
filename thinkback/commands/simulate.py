"""`thinkback simulate`."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from toolkit.log import Log

EXAMPLES, TRACES, LABELS = 1_000, 16, 3
BEYOND = 2  # exit code where `--check` finds fitted numbers too far off
SEEDS = 10  # logs that the numbers which nothing was fitted to are of


def simulate(
    dataset: str | None = None,
    out: Path | None = None,
    examples: int | None = None,
    traces: int | None = None,
    labels: int | None = None,
    dev: int = 0,
    check: bool = False,
    seed: int = 0,
    recovery: bool = False,
    states: bool = False,
    dimensions: int | None = None,
    places: int | None = None,
    signal: float | None = None,
    difficulty: float | None = None,
    logprob: float | None = None,
    probe: bool = False,
    settings: list[str] | None = None,
    name: str | None = None,
    force: bool = False,
) -> None:
    """Write a simulated log.

    Without a data set its pools are `n<traces>` and the greedy `probe`, its verifiers `strong` and `weak`; with
    --recovery they are `short`, `long`, `votes`, `probe` and revisions of `short`: for scale and demonstrations.
    `quantemp` and `claimdecomp` have the pool `n<traces>`, the verifier `lora` and, for `quantemp`, `deepseek`;
    `quantemp` also has the 500 claims of its validation run, with the pool `n50`. All are marked as simulated wherever
    they are shown.

    With --states, traces have hidden states that are noise, plus a signal of whether the trace is right, plus one of
    the question's difficulty; how well a verifier can do on them at best is known, and printed.

    `rounds` are those of a retrieval, `checks` those of texts that unfold word by word; --set changes their worlds.

    With --check, --out may be left out. The numbers that the simulation was fitted to are checked in this log; exit
    code 2 says that one is further off than it should be, and than it is known to be. The numbers that it was not
    fitted to are listed apart, over ten seeds: they test the simulation and change no exit code.
    """
    from toolkit.errors import ConflictError, RequiredError, argument

    planted = {
        "dimensions": dimensions, "places": places, "signal": signal, "difficulty": difficulty, "logprob": logprob,
        "probe": probe or None,
    }  # fmt: skip
    given = {key: value for key, value in planted.items() if value is not None}
    if given and not states:
        raise RequiredError(f"{argument(next(iter(given)))} is about hidden states: give `--states` too")
    if states and (dataset is not None or recovery or labels is not None):
        raise ConflictError(
            "`--states` has questions and labels of its own: leave out a data set, `--recovery`, `--labels`"
        )
    if recovery and not (traces is None and labels is None):
        raise ConflictError("`--recovery` has pools and answers of its own: leave out `--traces` and `--labels`")
    if out is None and not check:
        raise RequiredError("`--out` is missing: name the log to write")
    if settings and dataset not in WORLDS:
        raise ConflictError(f"`--set` goes with one of {', '.join(f'`{world}`' for world in WORLDS)}")
    if dataset in WORLDS:
        others = {
            "traces": traces, "labels": labels, "dev": dev or None, "check": check or None,
            "recovery": recovery or None,
        }  # fmt: skip
        other = next((key for key, value in others.items() if value is not None), None)
        if other is not None or out is None:
            raise ConflictError(f"`{dataset}` does not go with {argument(other)}" if other else "`--out` is missing")
        _print_counts(
            out, WORLDS[dataset](out, EXAMPLES if examples is None else examples, seed, name, force, settings or ())
        )
        return
    if dataset is None:
        if check or dev:
            raise ConflictError("`--check` and `--dev` go with a data set: `thinkback simulate quantemp`")
        place, count = out or Path(), EXAMPLES if examples is None else examples
        size, space = TRACES if traces is None else traces, LABELS if labels is None else labels
        if states:
            _simulate_planted(place, count, size, seed, name, force, given)
        elif recovery:
            _simulate_recovery(place, count, seed, name, force)
        else:
            _simulate_grid(place, count, size, space, seed, name, force)
        return
    if recovery:
        raise ConflictError(f"`--recovery` does not go with a data set: leave out `{dataset}`")
    if examples is not None or labels is not None:
        raise ConflictError(f"`{dataset}` has its published claims: leave out `--examples` and `--labels`")
    _simulate_claims(dataset, out, traces, dev, check, seed, name, force)


def _simulate_grid(
    out: Path, examples: int, traces: int, labels: int, seed: int, name: str | None, force: bool
) -> None:
    from generate.simulation.grid import simulate as simulate_plain

    log = simulate_plain(out, examples=examples, traces=traces, labels=labels, seed=seed, name=name, force=force)
    _print_counts(out, log)


def _simulate_recovery(out: Path, examples: int, seed: int, name: str | None, force: bool) -> None:
    from generate.simulation.recovery import simulate_recovery

    _print_counts(out, simulate_recovery(out, examples=examples, seed=seed, name=name, force=force))


def _simulate_claims(
    dataset: str, out: Path | None, traces: int | None, dev: int, check: bool, seed: int, name: str | None, force: bool
) -> None:
    """Writes a simulated data set of claims. Without a place `out` it is removed after the check."""
    from generate.simulation.claims import PUBLISHED_TRACES, simulate_claims
    from toolkit.errors import InvalidError
    from toolkit.work_places import scratch_folder

    size = PUBLISHED_TRACES if traces is None else traces
    if check and size < PUBLISHED_TRACES:
        raise InvalidError(f"the published runs have {PUBLISHED_TRACES} traces: `--check` needs as many `--traces`")
    with tempfile.TemporaryDirectory(dir=scratch_folder()) as scratch:
        place, overwrite = out or Path(scratch) / "log", force and out is not None
        log = simulate_claims(place, dataset, traces=size, dev=dev, seed=seed, force=overwrite, log_name=name)
        if out is not None:
            _print_counts(out, log)
        if check:
            _check_simulation(log, dataset, f"n{size}", seed)


def _simulate_planted(
    out: Path, examples: int, traces: int, seed: int, name: str | None, force: bool, given: Mapping[str, Any]
) -> None:
    from generate.simulation.planted import PlantedModel, simulate_planted
    from thinkback import console

    model = PlantedModel(**given)
    log = simulate_planted(out, examples=examples, traces=traces, seed=seed, name=name, force=force, model=model)
    _print_counts(out, log)
    for where, number in (("one place", 1), (f"the mean of all {model.places}", model.places)):
        console.say(
            f"the best that a verifier can do on {where}: AUC {model.auc(number):.4f}, within questions "
            f"{model.auc_within(number):.4f}, best of {traces} {100 * model.best_of_accuracy(traces, number):.2f} % "
            f"(a random pick {100 * model.random_pick_accuracy():.2f} %)"
        )
    logprob = model.logprob_model
    if logprob is not None:
        console.say(f"log-probabilities: AUC {logprob.auc():.4f}, within questions {logprob.auc_within():.4f}")


def _simulate_rounds(
    out: Path, examples: int, seed: int, name: str | None, force: bool, settings: Sequence[str]
) -> Log:
    from generate.simulation.rounds import simulate_rounds
    from generate.simulation.settings import rounds_models

    model, chains = rounds_models(settings)
    return simulate_rounds(out, examples=examples, seed=seed, name=name, force=force, model=model, chains=chains)


def _simulate_checks(
    out: Path, examples: int, seed: int, name: str | None, force: bool, settings: Sequence[str]
) -> Log:
    from generate.simulation.checks import simulate_checks
    from generate.simulation.settings import checks_models

    texts, pools = checks_models(settings)
    return simulate_checks(out, examples=examples, seed=seed, name=name, force=force, texts=texts, pools=pools)


WORLDS: dict[str, Callable[..., Log]] = {"rounds": _simulate_rounds, "checks": _simulate_checks}
"""Worlds of other tables than traces."""


def _check_simulation(log: Log, dataset: str, pool: str, seed: int) -> None:
    from replay.studies.factcheck.fidelity import (
        ONE_ORDER,
        REASONS,
        TRACES,
        check_simulation,
        fitted_numbers_table,
        held_out_summaries,
        held_out_table,
    )
    from thinkback import console

    lines = check_simulation(log, dataset, pool)
    console.show(fitted_numbers_table(lines, f"{log.name}: what the simulation was fitted to"))
    tested = held_out_summaries(_logs_by_seed(dataset, seed), dataset, f"n{TRACES[dataset]}")
    failed = [line for line in tested if line.is_reproduced is False]
    console.say()
    title = f"{log.name}: what it was not fitted to, seeds {seed} to {seed + SEEDS - 1}"
    console.show(held_out_table(tested, title, REASONS, (ONE_ORDER,)))
    console.say()
    console.say(f"not fitted: {len(failed)} of {len(tested)} numbers fail")
    beyond = [line for line in lines if not line.is_within]
    surprising = [line for line in beyond if not line.is_expected]
    if surprising:
        console.say(f"{len(surprising)} of {len(lines)} fitted numbers deviate by more than is allowed or known")
        raise typer.Exit(BEYOND)
    known = f", except {len(beyond)} known deviations" if beyond else ""
    console.say(f"all {len(lines)} fitted numbers are within the allowed distance{known}")


def _logs_by_seed(dataset: str, first: int) -> Iterator[Log]:
    """Yields logs of the data set with several seeds. Each is removed when the next one is asked for."""
    from generate.simulation.claims import simulate_claims
    from replay.studies.factcheck.fidelity import TRACES
    from toolkit.work_places import scratch_folder

    for seed in range(first, first + SEEDS):
        with tempfile.TemporaryDirectory(dir=scratch_folder()) as scratch:
            yield simulate_claims(Path(scratch) / "log", dataset, traces=TRACES[dataset], seed=seed)


def _print_counts(out: Path, log: Log) -> None:
    from thinkback import console

    rows = ", ".join(f"{log.rows(table):,} {table}" for table in ("traces", "rounds", "checks") if log.has(table))
    console.say(f"wrote {out}: {log.rows('examples'):,} examples, {rows} (simulated)")
