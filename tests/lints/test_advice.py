"""Detectors whose findings work, only not as the author hoped: register pressure, idle stages, split vectors."""

from __future__ import annotations

import pytest
from lint_kernels import buffer, kernel, kinds, loop, only, op, region, store, whole

from triage.model import KernelRecord, Place

A = buffer("A", (1024,), "global")


def test_a_fragment_larger_than_the_register_file() -> None:
    big = buffer("f", (512, 512), "local.fragment", line=7)
    hazard = only(kernel([big], op("fill", whole(big, "write"))), "fragment-over-registers")
    assert hazard.at == Place("kernel.py", 7) and hazard.certainty == "likely"
    assert (hazard.fields["registers"], hazard.fields["limit"]) == (2048, 255)
    assert kinds(kernel([big], threads=("n",))) == []


@pytest.mark.parametrize(("shape", "threads"), [((128, 128), 128), ((256, 128), 256), ((64, 512), 128)])
def test_fragments_that_fit(shape: tuple[int, int], threads: int) -> None:
    assert kinds(kernel([buffer("f", shape, "local.fragment")], threads=(threads,))) == []


def test_more_stages_than_iterations() -> None:
    hazard = only(kernel([], loop("pipelined", 2, num_stages=4)), "pipeline-deeper-than-loop")
    assert (hazard.fields["num_stages"], hazard.fields["extent"]) == (4, 2)
    for legal in (loop("pipelined", 4, num_stages=4), loop("pipelined", "n", num_stages=4), loop("serial", 2)):
        assert kinds(kernel([], legal)) == []


def vectorized(extent: int, dtype: str = "float32") -> KernelRecord:
    b = buffer("B", (1024,), "global", dtype)
    body = store(region("B", "write", (0, 1000, 1)), region("A", "read", (0, 1000, 1)))
    return kernel([A, b], loop("vectorized", extent, body))


@pytest.mark.parametrize(
    ("extent", "dtype", "arch"),
    [
        (4, "float32", "sm_90a"),
        (8, "float16", "sm_90a"),
        (16, "int8", "sm_90a"),
        (8, "float32", "sm_100a"),
        (1, "float32", "sm_90a"),
    ],
)
def test_vectors_an_access_can_be(extent: int, dtype: str, arch: str) -> None:
    assert kinds(vectorized(extent, dtype), arch) == []


@pytest.mark.parametrize(("extent", "dtype"), [(64, "float32"), (3, "float32"), (16, "float16")])
def test_vectors_it_cannot(extent: int, dtype: str) -> None:
    hazard = only(vectorized(extent, dtype), "vector-extent")
    assert hazard.fields["extent"] == extent and hazard.fields["lanes"] in (4, 8)


def test_half_of_a_manual_schedule() -> None:
    hazard = only(kernel([], loop("pipelined", 8, tl_pipeline_order=[0, 1], num_stages=2)), "pipeline-schedule-ignored")
    assert (hazard.fields["given"], hazard.fields["missing"], hazard.fields["num_stages"]) == ("order", "stage", 2)
    both = loop("pipelined", 8, tl_pipeline_order=[0, 1], tl_pipeline_stage=[0, 1])
    assert kinds(kernel([], both)) == []
