"""What a study is run on where that is not named: its examples, pool and verifier."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import polars as pl

from replay.data.conditions import TEST, asked_about, has_test, matching, of_dataset
from replay.data.contents import read_contents
from toolkit.errors import ThinkbackError, argument, suggest
from toolkit.log import Log, collect

NONE_KNOWN = {
    "pool": "the log has no pool of first attempts",
    "verifier": "the log has no verifications, and the study is about them: add a verifier's scores with a "
    "recipe of `[[verify]]`",
}


def reported(log: Log, dev: str | None = None) -> str | None:
    """The condition of the examples to report where none is given: the test split where there is one; None: all.

    Examples of `dev`, which are learnt from, are never among them.
    """
    split = collect(log.scan("examples", ["split"]).select("split"), log)["split"]
    conditions = [TEST] if has_test(split) else []
    if dev is not None:
        conditions.append(f"NOT coalesce(({dev}), false)")
    return " AND ".join(conditions) or None


def pools_of(log: Log, where: str | None, known: Collection[str]) -> tuple[str, ...]:
    """Those of the known pools that examples of a condition have traces in, by name."""
    traces = log.scan("traces", ["example_id", "pool"]).filter(pl.col("pool").is_in(list(known)))
    if where is not None:
        traces = traces.filter(pl.col("example_id").is_in(matching(log, where, "where").implode()))
    return tuple(collect(traces.select(pl.col("pool").unique().sort()), log)["pool"])


def refuse_none_left(log: Log, reported: str, dev: str) -> None:
    """Raise ThinkbackError where the examples of `dev` are all that would be reported by default."""
    try:
        matching(log, reported, "where")
    except ThinkbackError:  # both of its parts hold somewhere: together they do not
        raise ThinkbackError(
            f"{argument('dev')} ({dev}) leaves no claim to report: name fewer claims to learn from"
        ) from None


def own_pools(log: Log, where: str | None, known: Collection[str]) -> dict[str, str]:
    """The pool of each data set of a condition's examples, where each has one of its own; else nothing."""
    found = _pools(log, where, known)
    return {dataset: pools[0] for dataset, pools in found.items()} if all(len(x) == 1 for x in found.values()) else {}


def datasets_without(log: Log, where: str | None, pool: str) -> tuple[str, ...]:
    """Data sets of a condition's examples without traces in a pool that others have; none where no other has any."""
    found = _pools(log, where, (pool,))
    lacking = tuple(dataset for dataset, pools in found.items() if not pools)
    return lacking if len(lacking) < len(found) else ()


def _pools(log: Log, where: str | None, known: Collection[str]) -> dict[str, tuple[str, ...]]:
    """Pools of each data set of a condition's examples, among those known."""
    datasets = asked_about(log, where, "dataset")["dataset"].drop_nulls().unique().sort()
    return {dataset: pools_of(log, of_dataset(where, dataset), known) for dataset in datasets}


def verifiers_of(log: Log, where: str | None) -> frozenset[str]:
    """Verifiers that scored a trace of the examples of a condition."""
    if where is None:
        return read_contents(log).verifiers
    asked = log.scan("traces", ["trace_id", "example_id"]).filter(
        pl.col("example_id").is_in(asked_about(log, where)["example_id"].implode())
    )
    scores = log.scan("verifications", ["trace_id", "verifier"]).join(asked, on="trace_id", how="semi")
    return frozenset(collect(scores.select(pl.col("verifier").unique()), log)["verifier"])


def choose(name: str | None, known: Sequence[str] | frozenset[str], what: str) -> str:
    """A pool or verifier by name, or the only one. Raises ThinkbackError otherwise."""
    if name is None and len(known) == 1:
        return next(iter(known))
    if name is None and known:
        raise ThinkbackError(
            f"the log has {len(known)} {what}s, so name one with {argument(what)}; {suggest('', known)}"
        )
    if not known:
        raise ThinkbackError(NONE_KNOWN[what])
    if name is None or name not in known:
        raise ThinkbackError(f"the log has no {what} `{name or ''}`; {suggest(name or '', known)}")
    return name


def listwise_verifiers(log: Log, pool: str) -> frozenset[str]:
    """Verifiers that rank the traces of a pool in one call, so that none can be asked about one trace more."""
    traces = log.scan("traces", ["trace_id", "pool"]).filter(pl.col("pool") == pool)
    scores = log.scan("verifications", ["trace_id", "verifier", "candidates"])
    ranked = scores.filter(pl.col("candidates").is_not_null()).join(traces, on="trace_id", how="semi")
    return frozenset(collect(ranked.select("verifier").unique(), log)["verifier"])


def refuse_listwise(listwise: Collection[str], pool: str, *verifiers: str | None) -> None:
    """Raise ThinkbackError where one of the verifiers ranks traces against each other."""
    for name in verifiers:
        if name in listwise:
            raise ThinkbackError(
                f"verifier `{name}` ranks the traces of `{pool}` against each other in one call, and the study "
                "verifies one trace at a time: name a verifier that scores each trace alone"
            )


def label_spaces(claims: pl.DataFrame, study: str) -> dict[str, tuple[str, ...]]:
    """The label space of each data set of claims (columns dataset and labels).

    Raises ThinkbackError, which says what `study` needs, where some data set has none, or several.
    """
    found = claims.select("dataset", pl.col("labels").fill_null([])).unique().sort("dataset")
    spaces = {tuple(labels) for labels in found["labels"]}
    if spaces == {()} or not spaces:
        raise ThinkbackError(f"{study} needs claims with a label space: give `labels` of examples")
    if () in spaces or found["dataset"].n_unique() < len(found):
        labelled = found.filter(pl.col("labels").list.len() > 0)["dataset"].unique().sort().to_list()
        raise ThinkbackError(
            f"{study} needs claims that share one label space in each data set, and the log has "
            f'{len(spaces)} (none counts as one): choose claims with {argument("where")}, such as "dataset = '
            f"'{labelled[0]}'\""
        )
    return {dataset: tuple(labels) for dataset, labels in found.iter_rows()}
