"""FlashAttention-4 (`flash-attn-4`, in CuTe DSL), as shipped and with the fastest of several settings.

The settings are those of its own entry point `_flash_attn_fwd`: `tile_mn` (rows of Q and keys in a tile),
`mma_pv_is_rs` (P from registers, not shared memory), `intra_wg_overlap` (softmax of a tile under the next
product); on Hopper a tile of 64 m rows has m warp groups. Its causal mask is bottom-right aligned.
"""

import time
import warnings
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from evoflash.extras import install
from evoflash.gpu.baselines.attention import attention_on, rows_first, rows_first_dense
from evoflash.gpu.baselines.contender import (
    TORCH_DTYPES,
    BaselineAbsentError,
    LibraryCall,
    LibraryContender,
    fastest_call,
    import_library,
    time_settings,
    torch,
    version,
)
from evoflash.gpu.timing.benchmark import Bench
from evoflash.operation import operation_of
from evoflash.operations.attention.forms import dense
from evoflash.operations.attention.workload import AttentionWorkload

_INSTALL = install("fa4")
TRYING_LIMIT_S = 90.0  # a setting costs two to five seconds of compilation
_SAME_REL_L2 = 1e-2  # two settings differ by rounding; a setting that drops a tile differs by more


@dataclass(frozen=True, slots=True)
class Fa4Config:
    """What `_flash_attn_fwd` is told."""

    rows: int
    keys: int
    p_in_registers: bool = True
    overlap: bool = True

    def __str__(self) -> str:
        place = "" if self.p_in_registers else ", P in shared memory"
        return f"{self.rows}x{self.keys}{place}{'' if self.overlap else ', no overlap'}"


def settings(head_dim: int) -> tuple[Fa4Config, ...]:
    """Settings to try on Hopper: its default, then smaller tiles, which fill the GPU at short sequences,
    and wider ones. Those whose two stages do not fit in shared memory, or registers, are left out.
    """
    default = _default(head_dim)
    tiles = [(128, 128), (64, 128), (64, 64), (128, 64), (64, 192), (128, 192), (128, 96)]
    others = [replace(default, overlap=False), Fa4Config(64, 128, overlap=False)]
    tried = [*(Fa4Config(*tile) for tile in tiles), *others]
    return tuple(dict.fromkeys([default, *(each for each in tried if _fits(each, head_dim))]))


def _default(head_dim: int) -> Fa4Config:
    """As its `_tile_size_fwd_sm90` has it in 4.0.0b36, for full masks."""
    if head_dim <= 64:
        return Fa4Config(192, 128)
    if head_dim <= 96:
        return Fa4Config(192, 144, p_in_registers=False)
    return Fa4Config(128, 128) if head_dim <= 128 else Fa4Config(128, 112 if head_dim <= 192 else 80)


def _fits(setting: Fa4Config, head_dim: int) -> bool:
    # The limits of its own sm90_config_search.py: a thread's registers hold S, O and P of its rows.
    smem = 2 * head_dim * (setting.rows + 2 * 2 * setting.keys)
    registers = (setting.keys + head_dim + setting.keys // 2) // 2
    return smem <= 224 << 10 and registers <= (128 if setting.rows == 192 else 216)


def calls(name: str, bench: Bench) -> Iterator[LibraryCall]:
    """As shipped (`fa4`), by strides or else copied, or with its fastest setting on this workload."""
    interface = import_library("flash_attn.cute.interface", _INSTALL)
    if name == "fa4_tuned":
        yield _fastest(interface, bench)
        return
    shipped = _default_call(interface, attention_on(bench))
    yield shipped
    yield replace(shipped, arrange=rows_first_dense)


def compile_ahead(workload: AttentionWorkload) -> None:
    """Compile what calls() launches, and launch nothing: by tensors that have a shape and no memory, as its
    own tests do (`flash_attn/cute/testing.py`). What it compiled stays in this process.
    """
    interface = import_library("flash_attn.cute.interface", _INSTALL)
    fake = import_library("torch._subclasses.fake_tensor", _INSTALL)
    calls = [_default_call(interface, workload)]
    if torch().cuda.get_device_capability()[0] == 9:
        calls += [_with(interface, workload, setting) for setting in settings(workload.head_dim)]
    deadline = time.monotonic() + TRYING_LIMIT_S
    with fake.FakeTensorMode(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of PyTorch's: that such a tensor has no address
        tensors = [
            torch().empty(spec.shape, dtype=getattr(torch(), TORCH_DTYPES[spec.dtype]), device="cuda")
            for spec in operation_of(workload).tensors(workload)
            if spec.role == "input"
        ]
        for call in calls:
            if time.monotonic() > deadline:
                break
            with suppress(Exception):  # a setting that is refused is refused again when it is called
                call.attend(*(call.arrange(tensor) for tensor in tensors))


def _environment() -> dict[str, str]:
    names = ("flash-attn-4", "nvidia-cutlass-dsl")
    return {name: version(name) or "unknown" for name in names}


def _default_call(interface: Any, workload: AttentionWorkload) -> LibraryCall:
    def attend(q: Any, k: Any, v: Any) -> Any:
        scale = dense.scale(workload)
        found = interface.flash_attn_func(q, k, v, softmax_scale=scale, causal=workload.causal)
        return found[0] if isinstance(found, tuple) else found

    return LibraryCall(attend, _environment(), rows_first, rows_first)


def _with(interface: Any, workload: AttentionWorkload, setting: Fa4Config) -> LibraryCall:
    def attend(q: Any, k: Any, v: Any) -> Any:
        return interface._flash_attn_fwd(
            q,
            k,
            v,
            softmax_scale=dense.scale(workload),
            causal=workload.causal,
            tile_mn=(setting.rows, setting.keys),
            mma_pv_is_rs=setting.p_in_registers,
            intra_wg_overlap=setting.overlap,
        )[0]

    return LibraryCall(attend, _environment(), rows_first, rows_first)


def _fastest(interface: Any, bench: Bench) -> LibraryCall:
    """The setting of the lowest short timing. A setting that is refused, or computes something else than the
    shipped one, does not count; finals judge and time the winner again.
    """
    if torch().cuda.get_device_capability()[0] != 9:
        raise BaselineAbsentError("its tile settings are tried on Hopper only")
    shipped = LibraryContender("fa4_tuned", bench, _default_call(interface, attention_on(bench)))
    shipped.try_out(bench)
    expected = shipped.tensor().clone()
    call_of = partial(_with, interface, attention_on(bench))
    times_us, _ = time_settings(
        "fa4_tuned",
        bench,
        settings(attention_on(bench).head_dim),
        call_of,
        protocol=bench.protocols[0],
        limit_s=TRYING_LIMIT_S,
        is_right=lambda contender: _agree(contender.tensor(), expected),
    )
    if not times_us:
        raise BaselineAbsentError("none of its tile settings ran")
    return fastest_call(times_us, call_of)


def _agree(out: Any, expected: Any) -> bool:
    """Whether two outputs differ by no more than rounding."""
    difference = (out.float() - expected.float()).norm()
    return bool(difference <= _SAME_REL_L2 * expected.float().norm())
