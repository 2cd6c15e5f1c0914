"""Cheap signals of a trace, known before any verifier is called: columns of the log's table `features`.

Each feature is a function of its own: its docstring gives the definition, the range and the source.
"""
