"""The hand-written Hopper kernel, tests/kernels/hopper.cu: TMA, mbarriers and wgmma, and no family.

on_gpu              checks its configurations on a GPU and times them beside torch's kernels
model               holds the performance model against those times
mutation_testing    weakens its synchronisation and emulates every mutant

cases               configurations, texts, launches, tensor maps
gpu_tasks           its checks and timings in a GPU process
driver              tensor maps by the CUDA driver, and a kernel that takes them
on_emulator         runs a text of it in the emulator and judges the output
mutants             its mutants, and what becomes of one of them
"""
