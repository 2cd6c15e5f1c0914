"""The one table, as a terminal's text, Markdown, LaTeX, CSV and HTML."""
