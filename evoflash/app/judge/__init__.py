"""Judges kernels of anybody's for programs that write them: one answer of one schema.

answer   The answer about one kernel that programs read, and the score that it earns
foreign  Judges a kernel file of anybody's
formats  Says an answer in the forms that frameworks of 2026 read from their evaluators
sources  Finds the CUDA text in what somebody submits
timing   Times a kernel file beside a library's kernel on this machine's GPU, as `evoflash compare` does
"""
