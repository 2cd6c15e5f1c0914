"""Recipes: the TOML files that say what is asked, their settings, their prompts, and those that ship."""
