"""The winner's source, what the run checked, and what the emulator says of it. Judges nothing."""

from evoflash.commands.export.again import export_commands
from evoflash.commands.report.winner_record import Check, Found, Kernel, Source
from evoflash.compilers.nvrtc import kept_source
from evoflash.errors import EvoflashError, without_passwords
from evoflash.evaluation import Build, Evaluation
from evoflash.gpu import load_gpu
from evoflash.operation import CompileKey
from evoflash.problem import parse_problem

STORED = (
    "The checks above are those of the run. `evoflash report --check` also runs the emulator again, under "
    "more schedules, and lists what it finds by line."
)
RUNS = 4  # of each shape, as `evoflash check` makes them


def kernel(best: Evaluation | None, *, is_checked: bool) -> Kernel | None:
    """The source, from the cache of what was compiled or rendered anew, and the stored checks; None without a
    winner.

    `is_checked`: the emulator runs it, too, as `evoflash check` does: some seconds.
    """
    if best is None:
        return None
    checks = tuple(
        Check(
            verdict.workload,
            verdict.passed,
            verdict.rel_l2,
            verdict.max_over_rms,
            verdict.lse_error,
            verdict.honest_ratio,
            verdict.reason,
        )
        for verdict in best.verdicts
    )
    try:
        sources, of_version = _sources(best)
        export = tuple(map(without_passwords, export_commands(best.genome, best.problem, best.gpu)))
    except EvoflashError as error:  # a recording's, or a family that is gone: the rest is shown without
        return Kernel((), checks, "", 0, (), (), f"There is no source: {error}")
    said, runs, found = _emulated(best) if is_checked else (STORED, 0, ())
    return Kernel(sources, checks, said, runs, found, export, of_version)


def _sources(best: Evaluation) -> tuple[tuple[Source, ...], str]:
    """One for each compile key, and a remark where they are not what the run compiled."""
    gpu = load_gpu(best.gpu)
    builds = {build.compile_key: build for build in best.builds}
    keys = parse_problem(best.problem).compile_keys(gpu.arch)
    kept = {key: kept_source(builds[key]) for key in keys if key in builds}
    if all(kept.get(key) for key in keys):
        return tuple(_source(key, kept[key] or "", builds[key]) for key in keys), ""
    from evoflash.families.renderer import render  # it takes as long to load as all the rest of a report

    rendered = tuple(_source(key, render(best.genome, key, gpu).source, builds.get(key)) for key in keys)
    return rendered, _of_version(best)


def _of_version(best: Evaluation) -> str:
    from evoflash.families.family import load_family

    now = load_family(best.genome.family).version
    if now == best.genome.version:
        return ""
    return (
        f"The run evaluated version {best.genome.version} of {best.genome.family}; this is the same genome "
        f"in today's version {now}."
    )


def _source(key: CompileKey, text: str, build: Build | None) -> Source:
    return Source(
        compile_key=str(key),
        text=text,
        lines=len(text.splitlines()),
        registers=build.registers if build else None,
        spill_bytes=build.spill_bytes if build else None,
        smem_static_bytes=build.smem_static_bytes if build else None,
        remarks=build.warnings if build else (),
    )


def _emulated(best: Evaluation) -> tuple[str, int, tuple[Found, ...]]:
    from evoflash.commands.check.runs import check
    from evoflash.commands.check.subject import of_genome
    from evoflash.commands.terminal import working

    subjects = of_genome(best.genome, parse_problem(best.problem), load_gpu(best.gpu))
    with working(f"running {best.genome.id} in the emulator"):
        checked = [check(subject, runs=RUNS, seed=1) for subject in subjects]
    found = tuple(
        Found(str(each.severity), each.kind, each.line, each.message, each.runs)
        for one in checked
        for each in one.findings
    )
    runs = sum(len(one.runs) for one in checked)
    shapes = len({run.case for one in checked for run in one.runs})
    notes = " ".join(note for one in checked for note in one.notes)
    said = f"The emulator ran it for this report {runs} times on {shapes} shapes: "
    outcome = f"{len(found)} findings." if found else "no findings."
    return f"{said}{outcome} {notes}".strip(), runs, found
