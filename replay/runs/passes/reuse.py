"""The reuse of gates on examples that they have seen: refused for a gate file, unless asked for by name."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import polars as pl

from replay.data.conditions import TEST, has_test_and_other_splits
from replay.policies.base import Policy, policy_and_parts
from replay.policies.gate_file import GateFile, normalised_question, text_hashes
from toolkit.errors import LeakageError, argument, listed
from toolkit.notes import Note, note, warning

MAX_NAMED = 3


def question_hashes(examples: pl.DataFrame, log: str) -> list[str]:
    """A hash of each question, equal in every log; without a text, of its id within the log of this digest.

    `examples` has example_id and question. Ids alone tell nothing across logs: every import numbers from 1.
    """
    texts = map(normalised_question, examples["question"].fill_null("").to_list())
    ids = examples["example_id"].to_list()
    return text_hashes(text or f"id {name} of log {log}" for text, name in zip(texts, ids, strict=True))


def gates_fitted_on(
    gates: Iterable[GateFile], examples: pl.DataFrame, log: str
) -> Iterator[tuple[GateFile, list[str]]]:
    """The gates that were fitted or tuned on some of the examples, each with the ids of these."""
    gates = tuple(gates)
    ids = examples["example_id"].to_list() if gates else []
    hashes = question_hashes(examples, log) if gates else []
    for gate in gates:
        known = set(gate.seen_question_hashes())
        matches = [name for name, digest in zip(ids, hashes, strict=True) if digest in known]
        if matches:
            yield gate, matches


def ids_fitted_on(examples: pl.DataFrame, gate: GateFile, log: str) -> list[str]:
    """Ids of the examples that a gate was fitted or tuned on; `log`: the digest of the log."""
    return next((ids for _, ids in gates_fitted_on([gate], examples, log)), [])


def first_ids_text(ids: Iterable[str]) -> str:
    """The first three of some ids, as messages show them."""
    return listed(list(ids)[:MAX_NAMED])


def gate_files_with_reuse(policies: Iterable[Policy]) -> dict[GateFile, bool]:
    """Gate file -> whether its reuse is allowed by every policy that reads it."""
    files: dict[GateFile, bool] = {}
    for policy in policies:
        for part in policy_and_parts(policy):
            for file, reuse in part.gate_files_with_reuse:
                files[file] = files.get(file, True) and reuse
    return files


def check_reuse(policies: Collection[Policy], examples: pl.DataFrame, log: str) -> tuple[Note, ...]:
    """A warning for each gate file that is reported, with leave, on examples that it has seen.

    Raises ThinkbackError where that was not asked for.
    """
    notes = []
    files = gate_files_with_reuse(policies)
    for gate, ids in gates_fitted_on(files, examples, log):
        where = f"{len(ids):,} of {len(examples):,} examples ({first_ids_text(ids)})"
        if not files[gate]:
            raise LeakageError(
                f"gate file `{gate.path}` was fitted or tuned on {where}: name the split to report on with "
                f"{argument('where')}, such as \"split = 'test'\", or allow it with `reuse = true` in the gate"
            )
        text = f"gate file `{gate.path}` was fitted or tuned on {where}: its numbers here are too good"
        notes.append(warning("gate_reused", text))
    return tuple(notes)


def notes_on_training_rows(policies: Sequence[str], split: pl.Series) -> Iterator[Note]:
    """A note that policies that verify are reported on examples outside the test split, too."""
    if has_test_and_other_splits(split):
        others = int((~split.eq_missing("test")).sum())
        yield note(
            "training_rows",
            f"{others:,} of {len(split):,} examples are not of the test split: a verifier may have been trained on "
            f"them, and policies that read it would look too good. The condition `{TEST}` reports the test examples "
            "alone",
            policies,
        )


def notes_on_out_of_fold(
    readers: Mapping[str, Sequence[str]], folds: pl.DataFrame, examples: pl.Series
) -> Iterator[Note]:
    """Notes that a verifier was fitted on some of the examples; `readers`: verifier -> the policies that read it;
    `folds`: verifier and example_id of the scores that are out of fold.
    """
    inside = folds.filter(pl.col("example_id").is_in(examples.implode())).unique(["verifier", "example_id"])
    for verifier, policies in sorted(readers.items()):
        count = int((inside["verifier"] == verifier).sum())
        if count:
            share = f"{count:,} of {len(examples):,} examples ({count / len(examples):.1%})"
            yield warning(
                "out_of_fold",
                f"verifier `{verifier}` was fitted on {share}: models of other folds score these, and saw examples "
                "like them; report examples that it was not fitted on, where the log has any",
                policies,
            )
