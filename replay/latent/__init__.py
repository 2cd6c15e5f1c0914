"""Verifiers fitted on hidden states and on whatever else a log has of its traces, added to the log with their folds."""
