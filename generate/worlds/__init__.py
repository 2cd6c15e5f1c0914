"""Invented worlds: names, facts that agree with each other, passages that tell them, questions of several hops."""
