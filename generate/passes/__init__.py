"""Teacher-forced passes: a model reads given texts, in batches, and gives states, log-probabilities or scores."""
