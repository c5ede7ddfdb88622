"""The hand-written Hopper kernel, tests/kernels/hopper.cu: TMA, mbarriers and wgmma, and no family.

cases             The hand-written Hopper kernel, tests/kernels/hopper.cu
driver            Tensor maps by the CUDA driver, and a kernel that takes them
gpu_tasks         The hand-written Hopper kernel in a GPU process
model             The performance model held against the times of the hand-written Hopper kernel
mutants           Mutants of the hand-written Hopper kernel
mutation_testing  Mutation testing of the hand-written Hopper kernel, as scripts.mutation_testing.run does it
                  with families
on_emulator       Runs the hand-written Hopper kernel, or a changed text of it, in the emulator, and judges
                  what it wrote
on_gpu            The hand-written Hopper kernel on a GPU: whether it is right, and how long it takes beside
                  torch's kernels
"""
