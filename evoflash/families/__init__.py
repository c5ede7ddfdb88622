"""An alias, for one release, of evoflash.kernels for users' own files. Defines nothing.

family  An alias, for one release, of what users' own files import from here
"""
