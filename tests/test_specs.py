"""The GPU tables: every file against the schema, its compute capability's limits and the data sheet."""

import tomllib
from dataclasses import fields

import pytest
from tables import data

from evoflash.errors import UsageError
from evoflash.paths import GPUS
from evoflash.specs import GpuSpec, known_gpus, load_gpu

# Dense fp16 with fp32 accumulation, TFLOPS as the data sheets print it (without sparsity).
DATA_SHEET_TFLOPS = data(__file__, "DATA_SHEET_TFLOPS")

# By compute capability: KiB of shared memory per SM and per block, threads and blocks per SM, fp32 lanes.
LIMITS = {
    80: (164, 163, 2048, 32, 64),
    86: (100, 99, 1536, 16, 128),
    89: (100, 99, 1536, 24, 128),
    90: (228, 227, 2048, 32, 128),
}

ALL = pytest.mark.parametrize("name", known_gpus())


def test_the_common_gpus_are_known() -> None:
    assert set(DATA_SHEET_TFLOPS) <= set(known_gpus())


@ALL
def test_each_file_has_exactly_the_fields_of_a_spec(name: str) -> None:
    table = tomllib.loads((GPUS / f"{name}.toml").read_text())

    assert {field.name for field in fields(GpuSpec)} - {"name"} | {"sources"} == set(table)


@ALL
def test_each_value_has_the_type_that_the_spec_declares(name: str) -> None:
    spec = load_gpu(name)
    whole = [f.name for f in fields(spec) if f.type is int]

    assert [field for field in whole if type(getattr(spec, field)) is not int] == []
    assert isinstance(spec.dram_gbps, int | float)
    assert all(isinstance(device, str) for device in spec.device_names)


@ALL
def test_each_figure_names_its_source(name: str) -> None:
    table = tomllib.loads((GPUS / f"{name}.toml").read_text())
    sources = table.pop("sources")

    assert set(sources) == set(table)
    assert all(len(text) > 10 for text in sources.values())


@ALL
def test_each_spec_has_the_limits_of_its_compute_capability(name: str) -> None:
    spec = load_gpu(name)
    smem_per_sm, smem_per_block, threads, blocks, lanes = LIMITS[spec.compute_capability]

    assert (smem_per_sm * 1024, smem_per_block * 1024) == (spec.smem_per_sm, spec.smem_per_block)
    assert (threads, blocks, lanes) == (spec.threads_per_sm, spec.blocks_per_sm, spec.fp32_per_clk)
    assert spec.regs_per_sm == 65536
    assert (spec.ex2_per_clk, spec.smem_bytes_per_clk) == (16, 128)


@ALL
def test_each_chip_is_of_a_plausible_size(name: str) -> None:
    spec = load_gpu(name)

    assert 16 <= spec.sm_count <= 256
    assert 1000 <= spec.clock_mhz <= 3200
    assert 1 << 20 <= spec.l2_bytes <= 256 << 20
    assert 100 <= spec.dram_gbps <= 10_000
    # The L2 feeds the chip faster than the memory behind it.
    assert spec.dram_gbps < spec.l2_bytes_per_clk * spec.clock_mhz / 1e3
    assert spec.mma_flops_per_clk <= spec.tensor_flops_per_clk


@pytest.mark.parametrize(("name", "tflops"), DATA_SHEET_TFLOPS.items())
def test_sms_times_rate_times_clock_is_the_data_sheets_dense_figure(name: str, tflops: int) -> None:
    spec = load_gpu(name)
    peak = spec.sm_count * spec.tensor_flops_per_clk * spec.clock_mhz / 1e6

    # The floor must never be slower than the GPU: at least the printed figure. Hopper's is printed at a
    # tensor clock 8 % below the boost clock.
    assert 0.999 * tflops <= peak <= 1.09 * tflops


def test_no_device_name_belongs_to_two_specs() -> None:
    names = [device for name in known_gpus() for device in load_gpu(name).device_names]

    assert sorted(set(names)) == sorted(names)


def test_only_hopper_is_compiled_for_its_own_variant() -> None:
    assert {"h100", "h200"} == {name for name in known_gpus() if load_gpu(name).arch.endswith("a")}


def test_an_unknown_gpu_is_told_the_nearest_the_known_and_the_file_to_write() -> None:
    with pytest.raises(UsageError) as caught:
        load_gpu("h20")

    message = str(caught.value)
    assert "Did you mean h200?" in message
    assert ", ".join(known_gpus()) in message
    assert message.endswith("`evoflash new gpu h20` writes the file of a new one.")


def test_a_gpus_name_is_read_in_any_case() -> None:
    assert load_gpu("h200") == load_gpu("H200")


def test_specs_that_differ_in_one_figure_have_different_hashes() -> None:
    h100, h200 = load_gpu("h100"), load_gpu("h200")

    assert len({load_gpu(name).hash for name in known_gpus()}) == len(known_gpus())
    assert h100.hash != h200.hash
    assert h100.hash == load_gpu("H100").hash


def test_the_floor_is_the_slower_of_arithmetic_and_memory() -> None:
    l4 = load_gpu("l4")
    second_of_flops = l4.sm_count * l4.tensor_flops_per_clk * l4.clock_mhz * 10**6

    assert l4.floor_us(second_of_flops, 0) == pytest.approx(1e6)
    assert l4.floor_us(0, 300 * 10**9) == pytest.approx(1e6)


def test_the_floor_asks_no_memory_time_for_what_fits_in_the_l2() -> None:
    l4 = load_gpu("l4")

    assert l4.floor_us(0, l4.l2_bytes) == 0.0
    assert l4.floor_us(0, l4.l2_bytes + 1) > 0.0
