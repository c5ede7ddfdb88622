"""families: to be written."""
