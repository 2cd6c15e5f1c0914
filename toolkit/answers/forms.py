"""Normal forms of answers, one kind of answer each. Every form is idempotent; null and blank answers are null.

`exact`   the text, trimmed.
`number`  see numbers.py.
`choice`  the letter, upper case: `(B)`, `B.`, `b)`, `B. Paris`, `answer: b`, `The answer is (B).`, `\\text{(B)}`.
          A text that names two bracketed letters, or none, keeps its text: it is not a choice.
`label`   the label of the label space that the text spells, without regard to case, spaces, underscores, hyphens
          and surrounding quotes or punctuation; `aliases` give further spellings. Any other text stays as it is: an
          invalid answer.
`text`    the normal form of SQuAD's evaluation script (Rajpurkar et al. 2016, arXiv:1606.05250): lower case,
          ASCII punctuation removed, the words a, an, the removed, white space single. A text that is made of
          nothing else (`The`) keeps its lower-case text, for an answer must not vanish.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import polars as pl

from toolkit.answers.numbers import numbers
from toolkit.errors import ConflictError, UnknownError, suggest

KINDS = ("exact", "number", "choice", "label", "text")

_PUNCTUATION = r"[!-/:-@\[-`{-~]"
_ARTICLES = r"\b(?:a|an|the)\b"
_EDGES = " \t\r\n\"'`*.,;:!?()[]{}$"

_LEAD = (
    r"(?i:(?:so\s+|therefore,?\s+)?(?:the\s+|my\s+)?(?:(?:final|correct|best|right)\s+)*"
    r"(?:answer|option|choice)\b(?:\s+is\b)?\s*[:=]?\s*(?:(?:option|choice)\b\s*)?)?"
)
_CHOICE = rf"^{_LEAD}(?:[(\[{{]\s*([A-Za-z])\s*[)\]}}]|([A-Za-z])(?:\s*[)\]]|[.:](?:\s|$)|\s*$))"
_BRACKETED = r"[(\[]\s*[A-Za-z]\s*[)\]]"


def normalise(
    answers: pl.Series, kind: str, labels: Sequence[str] = (), aliases: Mapping[str, str] | None = None
) -> pl.Series:
    """The normal forms of a column of answers. `labels` and `aliases` (alias to label) are for the kind `label`.

    Raises ThinkbackError for an unknown `kind`, for two labels with one normal form, and for an alias of a label that
    is not in `labels`.
    """
    if kind not in KINDS:
        raise UnknownError(f"unknown kind of answer `{kind}`; {suggest(kind, KINDS)}")
    text = pl.first().str.strip_chars()
    trimmed = answers.to_frame().select(pl.when(text != "").then(text).alias(answers.name)).to_series()
    if kind == "label":
        return _canonical_labels(trimmed, labels, aliases or {})
    return _FORMS[kind](trimmed)


def text_forms(trimmed: pl.Series) -> pl.Series:
    """SQuAD's normal form of each text in a column of trimmed texts."""
    lower = trimmed.str.to_lowercase()
    bare = lower.str.replace_all(_PUNCTUATION, "").str.replace_all(_ARTICLES, " ")
    bare = bare.str.replace_all(r"\s+", " ").str.strip_chars()
    return bare.zip_with(bare != "", lower)


def _choice_letters(trimmed: pl.Series) -> pl.Series:
    clean = trimmed.str.replace_all(r"\\(?:text|textbf|mathrm|mathbf|boxed)\s*\{([^{}]*)\}", "${1}")
    clean = clean.str.replace_all(r"[*$]", "").str.strip_chars()
    first, second = clean.str.extract(_CHOICE, 1), clean.str.extract(_CHOICE, 2)
    letter = first.zip_with(first.is_not_null(), second).str.to_uppercase()
    return letter.zip_with(letter.is_not_null() & (clean.str.count_matches(_BRACKETED) <= 1), trimmed)


def _canonical_labels(trimmed: pl.Series, labels: Sequence[str], aliases: Mapping[str, str]) -> pl.Series:
    for alias, label in aliases.items():
        if label not in labels:
            raise UnknownError(f"alias `{alias}` means `{label}`, which is not a label; {suggest(label, labels)}")
    spellings = [*labels, *aliases]
    meanings = [*labels, *aliases.values()]
    table: dict[str, str] = {}
    for folded, spelling, label in zip(
        _fold_case(pl.Series(spellings, dtype=pl.String)), spellings, meanings, strict=True
    ):
        if table.setdefault(folded, label) != label:
            raise ConflictError(
                f"labels `{table[folded]}` and `{label}` are one spelling (`{spelling}`) when case, spaces and"
                " underscores do not count; read them with kind `exact`"
            )
    forms = _fold_case(trimmed).replace_strict(list(table), list(table.values()), default=None, return_dtype=pl.String)
    return forms.zip_with(forms.is_not_null(), trimmed)


def _fold_case(texts: pl.Series) -> pl.Series:
    return texts.str.strip_chars(_EDGES).str.to_lowercase().str.replace_all(r"[\s_\-]+", "")


_FORMS: dict[str, Callable[[pl.Series], pl.Series]] = {
    "exact": lambda trimmed: trimmed,
    "number": numbers,
    "choice": _choice_letters,
    "text": text_forms,
}
