"""What a log has, what policies need of it, and blocks of it as arrays."""
