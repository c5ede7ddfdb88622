"""Puts a kernel's hardware counters into words. Reads none."""

from collections.abc import Iterator, Mapping

from evoflash.app.profile import KernelProfile
from evoflash.gpu.counters.limits import LaunchCounters

_MOST = 6  # stalls and opcodes that are shown; --json has all


def describe_profile(found: KernelProfile) -> str:
    """Each launch: what binds, what would help, how busy each unit is, waits and instructions."""
    lines = [f"kernel    {found.name}   on {found.gpu}"]
    for workload, launches in found.launches.items():
        lines.append(f"problem   {workload}")
        for launch in launches:
            lines += _launch(launch)
    return "\n".join(lines)


def _launch(launch: LaunchCounters) -> Iterator[str]:
    yield f"launch    {launch.kernel}: {launch.us:.2f} us under Nsight Compute, {launch.sm_ghz:.2f} GHz, cold"
    yield f"binds     {launch.says}"
    yield f"remedy    {launch.remedy}"
    yield f"units     {_list(launch.shares)}"
    yield f"waits     {_list(launch.stalls)}"
    total = sum(launch.instructions.values())
    shares = {name: count / total for name, count in launch.instructions.items()} if total else {}
    yield f"executed  {total:,} warp instructions: {_list(shares)}"


def _list(shares: Mapping[str, float]) -> str:
    most = sorted(shares.items(), key=lambda item: -item[1])[:_MOST]
    return ", ".join(f"{name} {share:.0%}" for name, share in most) or "not read"
