"""How many questions, and samples of each, tell two policies apart."""
