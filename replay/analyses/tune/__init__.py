"""Settings chosen on one split and reported on another."""
