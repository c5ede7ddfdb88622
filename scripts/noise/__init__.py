"""Whether the benchmark can be trusted, and how much its figures differ from run to run.

aa      a kernel against itself, against a slower copy and against another kernel

site    what aa.py times: kernels of earlier searches and their slower copies
"""
