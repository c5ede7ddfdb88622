"""store: to be written."""
