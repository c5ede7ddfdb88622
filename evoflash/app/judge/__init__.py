"""Judges kernels of anybody's for programs that write them: one answer of one schema.

answer         The answer about one kernel that programs read, and the score that it earns
foreign        Judges a kernel file of anybody's
formats        Says an answer in the forms that frameworks of 2026 read from their evaluators
python_forms   Judges Python that launches kernels (`custom_kernel`, `ModelNew`, `Model`, `run`), called in a
               sandbox
python_text    Reads a Python file that launches kernels
python_timing  Times Python that launches kernels beside PyTorch's own, by a clock that its process cannot
               reach
sources        Finds the text in what somebody submits
torch_worker   Calls somebody else's Python with PyTorch tensors, inside of a sandbox, and answers with bytes
"""
