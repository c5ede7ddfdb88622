"""ladder: to be written."""
