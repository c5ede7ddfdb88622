"""Writers that turn a genome into files that need no evoflash. They search, measure and store nothing.

There is one writer for each kind of file; kinds.py lists them.

claims               What every export says of itself
cubin                The kind "cubin"
cupy_file            The kind "cupy"
exported             What is exported
flashinfer_solution  The kind "solution"
hub                  The kind "hub"
kernel_cu            The kind "cu"
kinds                The registry of export kinds
launch_json          launch.json and its cubins
one_file             evoflash.runtime and a kernel inside one Python file
portfolio            Several kernels and their dispatcher as a folder that is a Python package
t4                   The kind "t4"
torch_op             The kind "torch"
"""
