"""replay: to be written."""
