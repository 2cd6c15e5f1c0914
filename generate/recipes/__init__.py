"""Recipes: TOML files with the settings and prompts of a generation, and the shipped ones."""
