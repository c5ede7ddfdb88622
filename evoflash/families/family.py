"""An alias, for one release, of what users' own files import from here. Defines nothing."""

from evoflash.kernels.family import Family as Family
from evoflash.kernels.family import known_families as known_families
from evoflash.kernels.family import load_family as load_family
