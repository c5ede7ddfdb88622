"""Puts a kernel's hardware counters into words. Reads none, and judges none."""

from collections.abc import Iterator, Mapping

from evoflash.app.profile import ProfiledKernel
from evoflash.hardware_counters import STALLS, UNITS, LaunchCounters

_MOST = 6  # stalls and opcodes that are shown; --json has all


def describe_profile(found: ProfiledKernel) -> str:
    """Each launch: what binds, what would help, how busy each unit is, waits and instructions."""
    lines = [f"kernel    {found.name}", f"problem   {found.problem}   on {found.gpu}"]
    if found.score_us:
        lines.append(f"time      {found.score_us:.2f} us measured")
    if found.guess:
        lines.append(f"model     guesses {found.guess}")
    for workload, launches in found.counters.launches.items():
        if len(found.counters.launches) > 1:
            lines += ["", f"workload  {workload}"]
        for at, launch in enumerate(launches):
            lines += ([""] if at else []) + list(_launch(launch))
    where = f"with run {found.run}" if found.run else "nowhere: no run of the database has this kernel"
    return "\n".join([*lines, "", f"stored    {where}; times under {found.counters.tool} rank nothing"])


def _launch(launch: LaunchCounters) -> Iterator[str]:
    size = f"{launch.grid:,} blocks of {launch.block} threads, {launch.registers} registers each"
    yield f"launch    {launch.kernel}: {size}"
    busy = f"SMs have blocks for {launch.active_sm:.0%} of it"
    yield f"profiled  {launch.us:.2f} us with cold caches at {launch.sm_ghz:.2f} GHz; {busy}"
    yield f"counters  {launch.says}"
    yield f"remedy    {launch.remedy}"
    yield f"units     {_list({UNITS[name]: share for name, share in launch.shares.items()})}"
    yield f"waits     {_list({STALLS.get(name, name): share for name, share in launch.stalls.items()})}"
    total = sum(launch.instructions.values())
    mix = {name: count / total for name, count in launch.instructions.items()} if total else {}
    yield f"executes  {total:,} warp instructions: {_list(mix)}"


def _list(shares: Mapping[str, float]) -> str:
    most = sorted(shares.items(), key=lambda item: -item[1])[:_MOST]
    return ", ".join(f"{name} {share:.0%}" for name, share in most) or "not read"
