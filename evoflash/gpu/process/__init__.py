"""What runs in the process that holds the GPU, which is checks and timing, and the worker that asks for it.

cache             What a GPU process keeps between candidates
check_batch       Kernels checked on several workloads in one batch of launches
checks            Verdicts on a loaded kernel, on check shapes and at size
device_reference  What outputs should be at the benchmark's shape, computed on the device by a kernel of
                  the operation's
finals            The last timing
outcome           How a task on the GPU ended, and failures on its way as such endings
process           A process on its way to the GPU, and what such processes are asked to do
rungs             The rungs that need the GPU, in a GPU process
screening         The short way of a candidate that is too slow to be worth every check
worker            The GPU process and its stand-bys
"""
