"""Many cores, many GPUs, many machines: an evaluator's work on a Dask cluster. The search stays one process
and the only writer of its store; what a worker is asked is a function of its arguments, and may be asked
twice.

    address           Which schedulers may be talked to
    asked             The functions that workers without a GPU run
    connection        A scheduler and its workers as one search sees them
    cubins            Machine code travels with the records that name its files
    loopback          A private cluster on this machine, in a process of its own (loopback_process.py)
    loopback_process  The process of a private cluster
    pools             The cores of a cluster
    preload           What a worker process does before its first task and after its last
    serving           This machine as a worker of a cluster
"""
