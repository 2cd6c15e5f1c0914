"""What a log is: its tables, its manifest, what may be wrong with it, and which types are read without loss."""
