"""What exported kernels need on the machine of their user: the standard library and the CUDA driver.

Its modules are copied into exports as they stand, hence their relative imports. Nothing here imports another
part of evoflash or NumPy, and nothing here compiles; CuPy and PyTorch are used where a caller has them.

    array_attention   An exported kernel called with arrays
    attention_dense   The dense form of an attention call
    attention_paged   The paged form of an attention call
    description       launch.json as records
    dispatch          Which kernel of a portfolio computes a shape, by a rule that was learnt from times
    driver            The calls of the CUDA driver that launching takes, by ctypes
    expressions       Expressions of a part of Python, read node by node before they are compiled
    launch            An exported kernel in a program of one's own
    linear_portfolio  Several exported kernels of the linear layer as one function of PyTorch tensors
    linear_rows       The form of a call of the linear layer, y = x W^T: which tensors it takes, row by row,
                      and their launch
    packaged          Reads an exported portfolio
    paged_adapters    A kernel of paged attention under the argument lists of engines
    plan              A kernel planned for one shape and one layout on one device
    torch_call        What calls of one shape share
    torch_doors       The ways by which other programs reach a kernel
    torch_fallback    What PyTorch's own attention computes where a kernel does not, and which calls make no
                      sense at all
    torch_linear      Kernels of the linear layer as a function of PyTorch tensors
    torch_memory      Where a call's tensors lie, on which stream it goes, and the workspace that is kept for
                      that stream
    torch_op          An exported kernel as a function of PyTorch tensors
    torch_operators   The operators of a kernel, by which torch.compile, CUDA graphs of it and torch.export
                      know it
    torch_paged       A kernel of paged attention as a function of PyTorch tensors
    torch_portfolio   Several exported kernels as one function of PyTorch tensors
    zeros             Device memory that is zero when it is handed out and kept for the process's life
"""
