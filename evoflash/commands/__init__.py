"""commands: to be written."""
