from __future__ import annotations

import dataclasses

import pytest
from lint_kernels import FILE, buffer, kernel, kinds, only

from triage.model import Launch, Place

SOURCE = 'extern "C" __global__ void __launch_bounds__({threads}, 1) main_kernel(float* A) {{}}'


@pytest.mark.parametrize("threads", [(1024,), (32, 32, 1), (1, 1, 64), ("n",), ()])
def test_launches_a_device_takes_are_not_mentioned(threads: tuple[int | str, ...]) -> None:
    assert kinds(kernel([], threads=threads)) == []


def test_the_product_of_the_block_counts() -> None:
    hazard = only(kernel([], threads=(64, 32, 1)), "threads-over-limit")
    assert hazard.at == Place(FILE, 5)
    assert (hazard.fields["threads"], hazard.fields["limit"], hazard.fields["dimensions"]) == (2048, 1024, [64, 32, 1])
    assert hazard.certainty == "certain"


def test_one_dimension_can_be_too_long_on_its_own() -> None:
    hazard = only(kernel([], threads=(1, 1, 128)), "threads-over-limit")
    assert (hazard.fields["axis"], hazard.fields["threads"], hazard.fields["limit"]) == ("z", 128, 64)
    assert kinds(kernel([], threads=(1, 1, 128)), "gfx942") == []


def test_producer_warps_that_the_compiler_adds_count_too() -> None:
    hazard = only(kernel([], threads=(1024,)), "threads-over-limit", source=SOURCE.format(threads=1152))
    assert (hazard.fields["threads"], hazard.fields["added"]) == (1152, 128)
    assert kinds(kernel([], threads=(896,)), source=SOURCE.format(threads=1024)) == []


def test_several_kernels_in_one_source_are_not_told_apart_and_so_not_accused() -> None:
    assert kinds(kernel([], threads=(128,)), source=SOURCE.format(threads=1152) + SOURCE.format(threads=64)) == []


@pytest.mark.parametrize("grid", [(2**31 - 1, 65535, 65535), ("T.ceildiv(n, 128)", 4)])
def test_grids_a_device_takes(grid: tuple[int | str, ...]) -> None:
    assert kinds(kernel([], grid=grid)) == []


def test_long_y_and_empty_grid() -> None:
    hazard = only(kernel([], grid=(4, 65536)), "grid-over-limit")
    assert (hazard.fields["axis"], hazard.fields["extent"], hazard.fields["limit"]) == ("y", 65536, 65535)
    assert only(kernel([], grid=(0, 4)), "grid-empty").fields["axis"] == "x"


def test_an_unknown_limit_accuses_nobody() -> None:
    assert kinds(kernel([], grid=(4, 10**6)), "gfx942") == []


def test_clusters() -> None:
    assert kinds(kernel([], cluster=(2, 8, 1))) == []
    assert only(kernel([], cluster=(2, 16, 1)), "cluster-over-limit").fields["blocks"] == 32


def test_a_function_that_launches_two_kernels() -> None:
    large, small = (Launch((8,), (threads, 1, 1), (), Place(FILE, line)) for threads, line in ((2048, 5), (64, 15)))
    assert only(kernel([], launches=(small, large)), "threads-over-limit").at == Place(FILE, 5)
    tile = buffer("f", (256, 256), "local.fragment")
    legal = dataclasses.replace(large, threads=(512,))
    assert kinds(kernel([tile], launches=(legal, small))) == []  # whose fragment it is, nobody says
