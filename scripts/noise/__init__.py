"""Whether the benchmark can be trusted, and how much its figures differ from run to run.

aa    Can the benchmark be trusted? A kernel against itself, against a slower copy, and against an anchor
site  What aa.py times
"""
