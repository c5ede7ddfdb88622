"""Reads by NVML the GPU's clock, throttle reasons, energy counter and serial number. Sets no clock.

Nothing depends on it: where NVML is missing, these figures are absent.
"""

import platform
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

ClockState = tuple[int | None, str]  # SM clock in MHz, throttle reasons in words

# NVML's clocks event reasons. An idle GPU (0x001) is not throttled.
_THROTTLE_BITS = {
    0x002: "applications clocks",
    0x004: "power cap",
    0x008: "hardware slowdown",
    0x010: "sync boost",
    0x020: "thermal",
    0x040: "hardware thermal",
    0x080: "power brake",
    0x100: "display clocks",
}
_IDLE = 0x001


def clock_state(pci_bus_id: str) -> ClockState:
    """SM clock in MHz and the throttle reasons now, by NVML; (None, "") where NVML does not answer."""
    try:
        nvml, device = _device(pci_bus_id)
        clock_mhz = int(nvml.nvmlDeviceGetClockInfo(device, nvml.NVML_CLOCK_SM))
        reasons = int(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(device))
    except Exception:  # no NVML, no permission, a virtual GPU: the time stands, its circumstances are unknown
        return None, ""
    return clock_mhz, in_words(reasons)


def energy_counter_mj(pci_bus_id: str) -> int | None:
    """What the whole board has taken since its driver was loaded, in mJ; None where NVML does not say."""
    try:
        nvml, device = _device(pci_bus_id)
        return int(nvml.nvmlDeviceGetTotalEnergyConsumption(device))
    except Exception:  # no NVML, a GPU before Volta, a virtual GPU
        return None


def uuid(pci_bus_id: str) -> str:
    """The GPU's UUID as nvidia-smi has it; else, without NVML, this machine's name and the GPU's place."""
    try:
        nvml, device = _device(pci_bus_id)
        return str(nvml.nvmlDeviceGetUUID(device))
    except Exception:  # as above
        return f"{platform.node()} {pci_bus_id}"


@lru_cache(maxsize=4)
def _device(pci_bus_id: str) -> tuple[Any, Any]:
    import pynvml

    pynvml.nvmlInit()
    return pynvml, pynvml.nvmlDeviceGetHandleByPciBusId(pci_bus_id)


def in_words(reasons: int) -> str:
    """NVML's bits as words; a bit that this list does not know as its number."""
    words = [word for bit, word in _THROTTLE_BITS.items() if reasons & bit]
    unknown = reasons & ~(_IDLE | sum(_THROTTLE_BITS))
    return ", ".join([*words, f"{unknown:#x}"] if unknown else words)


def over(states: Sequence[ClockState]) -> ClockState:
    """The median clock of several moments, every throttle reason, and the clocks' range where they differ."""
    clocks = sorted(clock for clock, _ in states if clock is not None)
    reasons = list(dict.fromkeys(word for _, words in states for word in words.split(", ") if word))
    if not clocks:
        return None, ", ".join(reasons)
    if clocks[0] != clocks[-1]:
        reasons.append(f"clock {clocks[0]}-{clocks[-1]} MHz")
    return clocks[len(clocks) // 2], ", ".join(reasons)
