"""Mutation operators. The modules live in the top-level mutations/ folder (in a wheel: under _share).

strategies/operators.py adds those of extension folders as modules of this package.
"""

from evoflash.paths import MUTATIONS

__path__ = [str(MUTATIONS)]
