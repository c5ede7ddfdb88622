"""What runs in the process that holds the GPU, which is checks and timing, and the worker that asks for it.

A kernel that crashes or hangs ends that process and not the search. Nothing here stores a result.

    cache           What a GPU process keeps between candidates
    check_batch     Carries plans of checks out on the GPU: all launches in one batch, what must hold compared
                    on the device
    checks          Verdicts on a loaded kernel, on check shapes and at size
    finals          The last timing, of finalists and baselines in turns, in a fresh GPU process
    judged_replays  Judges what was timed, as it was timed
    lane            One process of a GPU after another
    outcome         How a task on the GPU ended, with the seconds that each rung took
    right_answers   Right outputs that the device computes, by a kernel of the operation's, and comparisons
                    with them
    rungs           The rungs of the ladder that need the GPU, for one genome
    warm_up         What a GPU process is asked to do, and what it does before its first task
    worker          Gives the work of GPUs to their processes, one task at a time or two on each
"""
