"""The planted faults of tests/faults under compute-sanitizer, beside what the emulator says of them.

run             compiles, runs and emulates every fault; scripts.pages.emulator shows the figures

fault_corpus    reads tests/faults and runs a kernel of it in the emulator; its tests use it, too
cases           a fault as a case for a GPU: text, buffers, arguments, launches
jobs            a case as the files that runner.cpp reads
processes       many short processes on the GPUs, under the tools
outcomes        whether outputs were wrong, and the emulator's word on a case
said            what compute-sanitizer said, read from its output
digest          from the runs to rows and counts
"""
