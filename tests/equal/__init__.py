"""Two versions of the program compared: what each writes, number by number. `python -m tests.equal` says how."""
