"""Several kernels and their dispatcher as a folder that is a Python package; `evoflash portfolio` writes it.

package     its members, and the rule that names them
folder      the folder, written
"""
