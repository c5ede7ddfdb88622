"""What runs in the process that holds the GPU: a candidate's checks and its timing, and such processes.

    cache        What a GPU process keeps between candidates
    check_batch  Carries plans of checks out on the GPU: all launches in one batch, what must hold compared on
                 the device
    checks       Verdicts on a loaded kernel, on check shapes and at size
    finals       The last timing
    outcome      How a task on the GPU ended, and failures on its way as such endings
    process      A process on its way to the GPU, and what such processes are asked to do
    rungs        The rungs that need the GPU, in a GPU process
    screening    The short way of a candidate that is too slow to be worth every check
    worker       The GPU process and its stand-bys
"""
