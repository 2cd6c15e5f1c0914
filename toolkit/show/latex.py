"""A Table as a LaTeX float: booktabs rules, the title as caption, the notes below."""

from __future__ import annotations

from toolkit.show.table_content import TableContent

_SIGNS = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}", "`": "'",
    "−": "$-$", "–": "--", "Δ": r"$\Delta$", "●": r"$\bullet$", "†": r"\dag{}", "≥": r"$\geq$", "≤": r"$\leq$",
    "€": r"\texteuro{}", "×": r"$\times$", "·": r"$\cdot$", "±": r"$\pm$", "…": r"\ldots{}",
}  # fmt: skip


def as_latex(table: TableContent, label: str = "") -> str:
    """The table as a `table` environment that needs the package booktabs (and textcomp for the euro).

    `label` is the reference's name. Every sign that LaTeX would read as a command is escaped.
    """
    aligned = "".join({"left": "l", "right": "r", "center": "c"}[column.form.align] for column in table.columns)
    lines = [r"\begin{table}", r"\centering"]
    lines += [rf"\caption{{{escape(table.title)}}}"] if table.title else []
    lines += [rf"\label{{{label}}}"] if label else []
    lines += [rf"\textbf{{{escape(note)}}}\\" for note in table.above]
    lines += [rf"\begin{{tabular}}{{{aligned}}}", r"\toprule"]
    lines.append(_row([column.name for column in table.columns]))
    lines.append(r"\midrule")
    lines += [_row(row) for row in table.texts()]
    lines += [r"\bottomrule", r"\end{tabular}"]
    lines += [rf"\par\footnotesize {escape(note)}" for note in table.below]
    return "\n".join([*lines, r"\end{table}", ""])


def escape(text: str) -> str:
    """Text that LaTeX sets as it is."""
    return "".join(_SIGNS.get(sign, sign) for sign in text).replace("\n", " ")


def _row(cells: list[str]) -> str:
    return " & ".join(escape(cell) for cell in cells) + r" \\"
