"""Tests of the tool itself, by frauds that it must reject and a GPU that its emulator must match.

conformance/  Runs the same small kernels in the emulator and on a GPU, and says where the two disagree
selftest/     Frauds and mistakes that the harness must reject, and honest kernels that it must accept
"""
