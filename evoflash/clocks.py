"""The GPU's clock and throttle reasons at this moment, by NVML. Sets no clock, and is never needed."""

_THROTTLE_BITS = {
    0x004: "power cap",
    0x008: "hardware slowdown",
    0x010: "sync boost",
    0x020: "thermal",
    0x040: "hardware thermal",
    0x080: "power brake",
}


def clock_state(pci_bus_id: str) -> tuple[int | None, str]:
    """SM clock in MHz and the throttle reasons now, by NVML; (None, "") where NVML does not answer."""
    try:
        import pynvml

        pynvml.nvmlInit()
        device = pynvml.nvmlDeviceGetHandleByPciBusId(pci_bus_id)
        clock_mhz = int(pynvml.nvmlDeviceGetClockInfo(device, pynvml.NVML_CLOCK_SM))
        reasons = int(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(device))
    except Exception:  # no NVML, no permission, a virtual GPU: the time stands, its circumstances are unknown
        return None, ""
    return clock_mhz, ", ".join(word for bit, word in _THROTTLE_BITS.items() if reasons & bit)
