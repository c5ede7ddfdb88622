"""Does an evaluator's work on many cores, GPUs and machines, by Dask. Stores nothing and chooses nothing.

The search stays one process and the only writer of its store; what a worker is asked is a function of its
arguments, and may be asked twice.

    address           Which schedulers may be talked to, and what two machines must have alike to share a
                      search
    asked             The functions that workers of a cluster run, with a GPU or without
    connection        A scheduler and its workers as one search sees them
    cubins            Sends machine code along with the records that name its files, for another machine has
                      not got those files
    loopback          A private cluster on this machine, in a process of its own (loopback_process.py),
                      started and ended
    loopback_process  The process of a private cluster, with a scheduler and the nannies of its workers
    pools             The cores and the GPUs of a cluster, with the same calls as those of this machine
    preload           What a worker process does before its first task and after its last, so that nothing
                      outlives it
    serving           Makes this machine a worker of a cluster
"""
