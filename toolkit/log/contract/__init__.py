"""The contract of a log: tables, manifest, problems, and the types that are read without loss."""
