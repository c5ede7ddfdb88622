"""The package of mutation operators, whose files are in the folder mutations/ of the checkout.

In a wheel they are in evoflash/_share/. strategies/operators.py adds those of extension folders as modules of
this package.
"""

from evoflash.paths import MUTATIONS

__path__ = [str(MUTATIONS)]
