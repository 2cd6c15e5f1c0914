"""Rounds of a retrieval as arrays: the frontier of their answers, and how their documents rank."""
