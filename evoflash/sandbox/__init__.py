"""The sandbox in which text from somebody else is compiled and run. Knows nothing of kernels.

boundary     Says how a command is run so that it can harm nothing
confinement  Takes rights away from this process by the kernel's own means
process      Runs commands inside of a boundary and ends them, with all that they started, at a limit
"""
