"""Tables, and their output as terminal text, Markdown, LaTeX, CSV and HTML."""
