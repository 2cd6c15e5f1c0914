"""Signals of traces: verifiers, features and hidden states, one module a kind."""
