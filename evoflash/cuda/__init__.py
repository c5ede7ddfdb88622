"""cuda: to be written."""
