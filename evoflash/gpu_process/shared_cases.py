"""Where the processes of one search share test inputs and right answers: a folder, and memory for the large
ones. Computes none of them.
"""

import os
import tempfile
from pathlib import Path

from evoflash.gpu_process.cache import key_of_large, names_of_large
from evoflash.operation import Workload
from evoflash.validation.cases import place_of


class SharedCases:
    """The folder, as long as this lives.

    What is up to gigabytes lies in memory files, which end with this process however it ends; the folder has
    links to them.
    """

    def __init__(self, timed: tuple[Workload, ...], seed: int) -> None:
        """`timed` are the workloads of which inputs are large."""
        self._folder = tempfile.TemporaryDirectory(prefix="evoflash-cases-", ignore_cleanup_errors=True)
        self._files: list[int] = []
        for workload in timed:
            for name in names_of_large(workload):
                self._hold(place_of(self.path, key_of_large(workload, name, seed)))

    @property
    def path(self) -> str:
        """The folder, for cases.share_in()."""
        return self._folder.name

    def _hold(self, place: Path) -> None:
        if place.is_symlink():  # the same workload twice
            return
        self._files.append(os.memfd_create("evoflash-case"))
        place.symlink_to(f"/proc/{os.getpid()}/fd/{self._files[-1]}")

    def close(self) -> None:
        """Let go of everything; processes that have mapped some of it keep that until they end."""
        while self._files:
            os.close(self._files.pop())
        self._folder.cleanup()
