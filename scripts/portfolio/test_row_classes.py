"""Which kernels are timed on which rows; the timing itself wants a GPU."""

import pytest

from evoflash.kernels.family import load_family
from evoflash.operations.linear.workload import ROW_CLASSES
from evoflash.specs import load_gpu
from scripts.portfolio.row_classes import KERNELS, RECORD, genomes_of, key_of, rows_at_most, shape_of
from scripts.records import read_record

GPU = load_gpu("h100")
LAYERS = read_record(RECORD)["layers"]


@pytest.mark.parametrize(
    ("m", "rows"), [(1, (8,)), (17, (24, 32)), (33, (40, 48, 56, 64)), (48, (48, 56, 64)), (64, (64,))]
)
def test_a_kernel_is_compiled_for_eights_up_to_the_next_power_of_two(m, rows):
    assert rows_at_most(m) == rows


def test_every_kernel_that_is_named_is_one_of_the_record_and_valid_for_all_rows_that_it_is_compiled_for():
    family = load_family("linear_wgmma")
    found = {layer: genomes_of(table["kernels"]) for layer, table in LAYERS.items()}

    assert sum(map(len, found.values())) == len(KERNELS)
    for layer, genomes in found.items():
        for rows in range(24, 65, 8):
            space = family.space((key_of(layer, rows, GPU.arch),), GPU)
            assert all(map(space.is_valid, genomes)), (layer, rows)


def test_a_class_of_today_has_the_key_that_its_shapes_have():
    for layer in LAYERS:
        for rows in ROW_CLASSES:
            assert key_of(layer, rows, GPU.arch) == shape_of(layer, rows).compile_key(GPU.arch)
