"""Many cores, many GPUs, many machines: an evaluator's work on a Dask cluster. The search stays one process
and the only writer of its store; what a worker is asked is a function of its arguments, and may be asked
twice.

    address      which schedulers may be talked to, and how: loopback, or TLS
    code         what two machines must have alike to share a search
    engine       the door to Dask
    connection   the scheduler, its workers, and one question at a time to one of them
    loopback     a private cluster on this machine
    loopback_process  its scheduler, and what keeps its workers alive
    serving      this machine as a worker of a cluster
    preload      what a worker process does before its first task
    cubins       machine code travels with the records that name its files
    asked        the functions that workers without a GPU run
    asked_gpu    the functions that workers with a GPU run
    processes    the cluster's cores, as an evaluator wants them
    beside       who may be asked beside others, and who has to be alone
    gpus         the cluster's GPUs, as an evaluator wants them
"""
