"""Conformance: the same small kernels in the emulator and on a GPU, for every case of primitives.toml."""
