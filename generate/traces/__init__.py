"""An existing log as prompts and models see it: blocks of examples with their traces, and where these came from."""
