"""Teacher-forced passes: a model reads texts that stand, in batches, and gives states, log-probabilities or scores."""
