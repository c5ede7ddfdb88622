"""Search spaces that were measured once, and searches on them without a GPU. Nothing is compiled or timed.

recorded_space  a recorded space in memory
kernel_tuner    Kernel Tuner's files: caches in and out, T4 results in
kernel_tuner_t4  T4 results out
own_families    what our families know of their recorded spaces
evaluator       the evaluator that looks outcomes up
comparison      strategies compared on a recorded space
benchmark       strategies and rivals on several spaces, many seeds each, in parallel processes
contenders      their names: ours, Optuna's samplers, Kernel Tuner's strategies
optuna_samplers           Optuna's, in its own loop
kernel_tuner_strategies   Kernel Tuner's, in its simulation mode
spaces/         two small recorded spaces that are shipped
"""
