"""timing: to be written."""
