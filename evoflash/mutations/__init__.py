"""Mutation operators. The modules live in the top-level mutations/ folder (in a wheel: under _share)."""

from evoflash.paths import MUTATIONS

__path__ = [str(MUTATIONS)]
