"""A table as GitHub-flavoured Markdown: the title as heading, the notes as lists above and below."""

from __future__ import annotations

from toolkit.show.table_content import TableContent

_RULES = {"left": ":--", "right": "--:", "center": ":-:"}


def as_markdown(table: TableContent) -> str:
    """The table's text; every sign that Markdown would read as markup is escaped in cells."""
    head = [_escape(column.name) for column in table.columns]
    rules = [_RULES[column.form.align] for column in table.columns]
    lines = [f"## {_escape(table.title)}", ""] if table.title else []
    lines += [f"> **{_escape_note(note)}**\n" for note in table.above]
    lines += [f"| {' | '.join(row)} |" for row in (head, rules)]
    lines += [f"| {' | '.join(_escape(cell) for cell in row)} |" for row in table.texts()]
    lines += ["", *(f"- {_escape_note(note)}" for note in table.below)] if table.below else []
    return "\n".join(lines) + "\n"


def _escape(text: str) -> str:
    """A cell's text as Markdown leaves it alone."""
    for sign in "\\|*_<`":
        text = text.replace(sign, f"\\{sign}")
    return text.replace("](", "]\\(").replace("\n", " ")


def _escape_note(text: str) -> str:
    """A note may hold code in backticks, so only what would become HTML is escaped."""
    return text.replace("<", "&lt;").replace("\n", " ")
