"""compilers: to be written."""
