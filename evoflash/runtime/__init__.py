"""What exported kernels need on the machine of their user: the standard library and the CUDA driver.

Its modules are copied into exports as they stand, hence their relative imports. Nothing here imports another
part of evoflash or NumPy, and nothing here compiles; CuPy and PyTorch are used where a caller has them.

dispatch        which kernel of several computes a shape: a rule that was learnt from times
launch          an exported kernel: its cubins on each device, planned for a shape
plan            a kernel planned for one shape: argument buffers, tensor maps, launches
description     launch.json as records, and what a kernel is refused for
driver          the calls of the CUDA driver that this takes, by ctypes
zeros           memory for counters, which no allocator and no graph owns
array_attention  a kernel called with arrays of CuPy, or of what hands over GPU memory as CuPy does
expressions     the sizes in a description: whole-number expressions of a shape, from a list of harmless parts

And for PyTorch, which these alone import:

torch_op         a kernel as a function of tensors
torch_call       what calls of one shape share, how one is enqueued, whether a call is as one before
torch_operators  the operators, for torch.compile and CUDA graphs
torch_fallback   PyTorch's own attention, where a kernel does not compute a call
torch_portfolio several kernels as one function of tensors, behind the dispatcher
torch_doors      PyTorch's registry of flash attentions, and Transformers'
"""
