"""What runs in the process that holds the GPU, and the worker that starts it and starts it again. A kernel
that crashes or hangs costs one candidate and one process; the search goes on.

    worker         the processes, one or two at work, and the queue in front of them
    lane           one process at work, its stand-bys, and who is to blame when it is lost
    process        a process on its way to the GPU, and what it may be asked
    preparation    what the process does before its first task
    shared_cases   where the processes of a search share what candidates are compared with
    turns          threads that call in turn, of a GPU process the one: what is urgent first
    outcome        how a task ended, failures on its way as endings
    rungs          one candidate: smoke test, correctness, timing, and what follows from each
    screening      the short way of a candidate that is too slow for all of that
    checks         the verdicts on a kernel that the rungs ask for
    after_timing   the verdict on the graph that was timed, with inputs that it never saw
    batched/       the checks as one batch of launches
    cache          what the process keeps between candidates: inputs, references, memory, benches
    finals         finalists and baselines timed in turns; what that says of each
    finals_retry   finals again without the baseline that broke them
    rung_times     the seconds that each rung took
"""
