"""Tests of the tool itself, by frauds that it must reject and a GPU that its emulator must match.

conformance/  Conformance
selftest/     Self-test
"""
