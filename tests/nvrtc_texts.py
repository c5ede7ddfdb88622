"""CUDA texts compiled by NVRTC as they are; one that it refuses fails the test with its log."""

import pytest


def compiled(source: str, arch: str, *flags: str, headers=((), ())) -> tuple[str, bytes]:
    """Its PTX and its machine code. `headers`: their texts and their names, for a text that includes them."""
    nvrtc = pytest.importorskip("cupy", reason="needs CuPy's NVRTC: pip install '.[cuda13]'").cuda.nvrtc
    program = nvrtc.createProgram(source, "kernel.cu", *map(list, headers))
    try:
        nvrtc.compileProgram(program, ["-std=c++17", f"-arch={arch}", *flags])
    except nvrtc.NVRTCError:
        pytest.fail(nvrtc.getProgramLog(program))
    return nvrtc.getPTX(program).decode(), nvrtc.getCUBIN(program)
