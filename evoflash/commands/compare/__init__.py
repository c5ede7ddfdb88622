"""compare: to be written."""
