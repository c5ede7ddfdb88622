"""validation: to be written."""
