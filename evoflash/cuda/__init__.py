"""The only way to the GPU: what is present, memory with guards, launches. Nothing here times a candidate or
judges a number.

    launcher           the GPU that is present; loading and launching a cubin; waiting for it
    sharing            processes that share a GPU: what is timed runs alone, other launches do not
    visible_devices    which GPUs this process may use
    launch_attributes  launches by cuLaunchKernelEx: in clusters, all blocks resident, dependent ones
    capacity           whether a GPU has room for a launch
    arena              the buffers of one workload, and one launch on them
    workspace          scratch memory that kernels share
    layout             how a tensor lies in memory: dense, or with strides of its own
    slab               memory for many launches on one workload, restored by one copy
    batch              many launches enqueued together and waited for once
    comparisons        outputs and memory compared on the device, many at once (comparisons.cu)
    guarded_buffer     one buffer between bands of bytes that must stay as they are
    device_checks      questions about device memory that kernels answer there (device_checks.cu)
    tensor_map         tensor maps, encoded by the driver
"""
