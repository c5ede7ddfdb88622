"""Where users' own files of earlier releases look for families: they are in evoflash.kernels now.

family  An alias, for one release, of what users' own files import from here
"""
