"""Does the tool tell the truth on this machine? Frauds that must be rejected, and the emulator against a GPU.

conformance/  Conformance
selftest/     Self-test
"""
