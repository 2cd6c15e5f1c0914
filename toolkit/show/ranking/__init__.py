"""The ranked table of a run, its points, and its sentence."""
