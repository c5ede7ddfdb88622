"""evoflash evolves fused-attention CUDA kernels: mutate, compile, check, time, keep.

A package imports those below it only (pyproject.toml has the layers). To follow one search from the command
to the launch, read commands/search/, search.py, evaluators/, gpu_process/ and cuda/, in this order.

    cli           main, and the list of commands
    commands/     one file or folder for each command
    selftest/     frauds that must be rejected
    evaluators/   a genome becomes an Evaluation
    gpu_process/  what runs in the process that holds the GPU
    baselines/    attention of other libraries, timed beside ours
    conformance/  the emulator and a GPU compared, primitive by primitive
    attention/    all that knows attention; the rest asks it through operations
    environment   the versions that are stored beside every run
    champions/    the shipped archive of the best kernels
    emulator/     runs a kernel on the CPU, with every check on
    timing/       times, and what they say
    cuda/         the GPU: memory, launches
    families/     a template becomes a search space, CUDA text and launches
    replay/       searches on recorded spaces
    strategies/   what to try next
    validation/   whether an output is right
    compilers/    CUDA text becomes a cubin, or a library for the emulator
    perf_model/   estimates a kernel's time
    store/        the database
    search        THE LOOP: ask, evaluate, store, tell
    isolation     functions in processes of their own
    gene_effects  what outcomes say of single genes
    gene_edits    what mutation operators are made of
    mutations/    where the operators are found: the top-level mutations/ folder
    evaluation    records: launches, builds, verdicts, timings, evaluations, runs
    problem       records: one workload or several, and their text
    operations    finds an operation (attention) by its name
    operation     records: workloads, tensors, and what an operation does for the rest
    space         records: genes, search spaces, genomes
    gpu           records: what a GPU allows and how fast it is (gpus/)
    extensions/   the user's own families, operators, GPUs and strategies: where they are
    paths         where shipped and the user's folders are
    settings/     environment variables and config files
    errors        what is raised at people

device/ has the headers of the ef:: layer, gpus/ one description for each GPU; neither holds Python.
"""

import os

# Its threads spin while they wait: on the small products of the reference they cost three times the CPU of
# the work itself, and several worker processes run side by side anyway. Read when numpy is first imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

__version__ = "0.1.0"
