"""What a genome leaves evoflash as: one writer for each kind of file. Searches, measures and stores nothing.

kinds           the registry: a kind's name, the file names it is meant by, and its writer
exported        what is exported: genome, problem, GPUs, and what is known of the kernel
launch_json     the description and the cubins that evoflash.runtime launches
claims          what every export says of itself: family, values, verdict, timing, licence
heading         the same at the head of a file, for people
one_file        evoflash.runtime and a kernel inside one Python file
files           writes files whole or not at all

kernel_cu       kernel.cu: the kernel's CUDA with a launcher in C++
cubin           kernel.cubin and kernel.json beside it
portfolio/      several kernels and their dispatcher as a Python package; `evoflash portfolio` writes it
cupy_file       attention.py: one Python file for CuPy's arrays
torch_op        torch_op.py: one Python file for PyTorch
hub             hub/: a folder for Hugging Face's kernels
t4              Kernel Tuner's T4 results of the search that the kernel comes from
flashinfer_solution   a Solution of flashinfer-bench and its Definition
"""
