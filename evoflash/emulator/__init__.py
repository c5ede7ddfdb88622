"""emulator: to be written."""
