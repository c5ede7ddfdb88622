"""Large arrays made in parts by several threads, the same whatever their number; judges nothing.

The inputs of a decode problem with 32,768 keys are a gigabyte: one core draws and rounds them for half a
minute. NumPy lets go of the interpreter meanwhile.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")
PART = 1 << 22  # numbers


def each_part(of_part: Callable[[slice], object], size: int) -> None:
    """Call the function with every part of an array of that size; an error of any of them is raised."""
    each(of_part, [slice(begin, min(begin + PART, size)) for begin in range(0, size, PART)])


def each(of_one: Callable[[T], object], all_of_them: Sequence[T], *, threads: int | None = None) -> None:
    """Call the function with each of them, several at a time: a thread a core, or as many as are asked for.
    An error of any of them is raised.
    """
    at_once = min(len(all_of_them), len(os.sched_getaffinity(0)), threads or len(all_of_them))
    if at_once < 2:
        for one in all_of_them:
            of_one(one)
        return
    with ThreadPoolExecutor(at_once) as pool:
        for done in [pool.submit(of_one, one) for one in all_of_them]:
            done.result()


def standard_normal(shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[np.float32]:
    """N(0, 1) in fp32. What fits one part is what the generator itself would draw."""
    size = int(np.prod(shape))
    if size <= PART:
        return rng.standard_normal(shape, dtype=np.float32)
    numbers, streams = np.empty(size, np.float32), rng.spawn(-(-size // PART))
    each_part(
        lambda part: streams[part.start // PART].standard_normal(out=numbers[part], dtype=np.float32), size
    )
    return numbers.reshape(shape)
