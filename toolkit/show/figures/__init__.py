"""One file a figure, drawn from finished numbers."""
