"""Writers that turn a genome into files that need no evoflash. They search, measure and store nothing.

There is one writer for each kind of file; kinds.py lists them.

    claims               What every export says of itself
    cubin                The kind "cubin" is NAME.cubin with its launch.json as NAME.json, which
                         evoflash.runtime launches
    exported             The request for an export, which is a genome for a problem and GPUs with what is
                         known of it
    flashinfer_solution  The kind "solution" is a Solution of flashinfer-bench, and beside it the Definition
                         that it solves
    flashinfer_trace     The kind "flashinfer-trace" is a folder to whose kernels FlashInfer sends its own
                         calls
    hub                  The kind "hub" is a folder that Hugging Face's `kernels` loads, in its layout without
                         compiled extensions
    kernel_cu            The kind "cu" is one .cu file that needs nothing else
    kinds                The registry of export kinds, one line for each
    launch_json          Compiles a genome for each architecture and writes launch.json, which says how its
                         kernels are launched
    one_file             The kinds "cupy" and "torch" are one Python file with launcher and cubins, which
                         needs that library alone
    portfolio            Writes several kernels and their dispatcher as a folder that is a Python package
    t4                   The kind "t4" is Kernel Tuner's T4 results of the search that the kernel comes from,
                         of its family
"""
