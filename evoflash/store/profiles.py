"""Keeps and reads the hardware counters of kernels, beside the run that evaluated them. Reads no counters."""

import sqlalchemy as sa

from evoflash.evaluation import Basis
from evoflash.hardware_counters import KernelProfile
from evoflash.store import rows, schema
from evoflash.store.database import Database

_RUN, _EVAL, _PROFILE = schema.runs.c, schema.evaluations.c, schema.profiles.c


def newest_run_with(database: Database, genome_id: str, problem: str, gpu: str) -> int | None:
    """The newest run that evaluated the kernel for that problem and GPU; None where none did."""
    there = (_RUN.problem == problem, _RUN.gpu == gpu, _RUN.basis != Basis.REPLAYED.value)
    joined = schema.evaluations.join(schema.runs)
    chosen = sa.select(_RUN.id).select_from(joined).where(_EVAL.genome_id == genome_id, *there)
    with database.reading() as connection:
        found: int | None = connection.scalar(chosen.order_by(_RUN.id.desc()).limit(1))
    return found


def has_profile(database: Database, run: int, genome_id: str) -> bool:
    mine = sa.select(_PROFILE.id).where(_PROFILE.run_id == run, _PROFILE.genome_id == genome_id)
    with database.reading() as connection:
        return connection.scalar(mine) is not None


def keep_profile(database: Database, run: int, genome_id: str, profile: KernelProfile) -> None:
    """Store it in place of what the run has of this kernel."""
    mine = (_PROFILE.run_id == run) & (_PROFILE.genome_id == genome_id)
    row = rows.profile_row(run, genome_id, profile)

    def work(connection: sa.Connection) -> None:
        connection.execute(sa.delete(schema.profiles).where(mine))
        connection.execute(sa.insert(schema.profiles).values(**row))

    database.write(work)


def read_profile(database: Database, genome_id: str, problem: str, gpu: str) -> KernelProfile | None:
    """The newest of the kernel on that problem and GPU, of whichever run; None where there is none."""
    there = (_PROFILE.genome_id == genome_id, _RUN.problem == problem, _RUN.gpu == gpu)
    chosen = sa.select(schema.profiles).join(schema.runs).where(*there).order_by(_PROFILE.created.desc())
    with database.reading() as connection:
        row = connection.execute(chosen.limit(1)).mappings().first()
        return None if row is None else rows.profile_of(row)
