"""The planted faults of tests/faults under compute-sanitizer, beside what the emulator says of them.

cases         The corpus of planted faults as cases for a GPU: texts, buffers, arguments, launches
digest        From the runs that run.py kept to rows and counts
fault_corpus  The corpus of planted faults, tests/faults/*.toml
jobs          A case as a job for runner.cpp
outcomes      What a case comes to
processes     Many short processes on the GPUs, each a job alone or under one of compute-sanitizer's tools,
              with a limit
run           The planted faults of tests/faults under compute-sanitizer on a GPU, beside what the emulator
              says of them
said          What compute-sanitizer said, read from its output, and whether that is a diagnosis of a planted
              fault
"""
