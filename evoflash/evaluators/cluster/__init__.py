"""Does an evaluator's work on cores and GPUs of many machines, by Dask. Stores nothing and chooses nothing.

The search stays one process and the only writer of its store; what a worker is asked is a function of its
arguments, and may be asked twice.

    address     Which schedulers may be talked to, and what two machines must have alike to share a search
    connection  A scheduler and its workers as one search sees them
    pools       The cores and the GPUs of a cluster, with the same calls as those of this machine
    serving     Makes this machine a worker of a cluster, or a private cluster of its own
    tasks       The functions that workers of a cluster run, and how questions and answers travel
"""
