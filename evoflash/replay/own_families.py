"""What a search of our families knows of its space, for spaces that were recorded of them. Reads no file.

A recorded space is the genomes of its record. The family of a genome also says which genes stand together in
a block and how a genome fills the GPU, and `surrogate` goes by both; a replay that lacked them would try
another strategy than the search does.
"""

from dataclasses import replace

from evoflash.errors import UsageError
from evoflash.families.family import load_family
from evoflash.families.proportions import proportions_on
from evoflash.gpu import load_gpu
from evoflash.problem import parse_problem
from evoflash.replay.recorded_space import Recording


def with_family(recording: Recording) -> Recording:
    """The recording with its family's blocks and proportions; as it was where the family is unknown here, or
    of another version, or the problem or the GPU is unknown.
    """
    space = recording.space
    try:
        family, gpu = load_family(space.family), load_gpu(recording.device)
        problem = parse_problem(recording.problem)
    except UsageError:
        return recording
    if family.version != space.version:
        return recording
    recorded = {param.name for param in space.params}
    blocks = (tuple(name for name in block if name in recorded) for block in family.blocks)
    known = replace(
        space, blocks=tuple(filter(None, blocks)), proportions=proportions_on(problem, family, gpu)
    )
    return replace(recording, space=known)
