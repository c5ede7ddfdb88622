"""check: to be written."""
