from __future__ import annotations

import dataclasses
from typing import Any

from lint_kernels import buffer, kernel, kinds, loop, only, op, region, whole

from triage.model import KernelRecord, Place


def gemm(m: int, n: int, k: int, stages: int, **more: Any) -> KernelRecord:
    a = buffer("A", (1024, 1024), "global", "float16")
    a_s, b_s = buffer("A_s", (m, k), "shared.dyn", "float16", 6), buffer("B_s", (k, n), "shared.dyn", "float16", 7)
    c = buffer("C", (m, n), "local.fragment")
    tile = region("A", "read", (0, 960, m), (0, 960, k))
    body = (
        op("copy", tile, whole(a_s, "write")),
        op("copy", tile, whole(b_s, "write")),
        op("gemm", whole(a_s, "read"), whole(b_s, "read"), whole(c, "readwrite")),
    )
    clear = op("fill", whole(c, "write"))
    pipelined = loop("pipelined", 32, *body, line=20, num_stages=stages)
    return kernel([a, a_s, b_s, c], clear, pipelined, **more)


def test_a_pipeline_that_fits_is_not_mentioned() -> None:
    assert kinds(gemm(128, 128, 64, 4)) == []


def test_each_stage_has_its_own_tiles() -> None:
    hazard = only(gemm(128, 128, 64, 8), "shared-over-limit")
    assert hazard.fields["bytes"] == 8 * 2 * 128 * 64 * 2 and hazard.fields["limit"] == 232448
    assert hazard.fields["buffers"] == {"A_s": 131072, "B_s": 131072}
    assert (hazard.fields["num_stages"], hazard.fields["num_stages_that_fit"]) == (8, 7)
    assert hazard.at == Place("kernel.py", 20)  # the loop: a smaller depth would fit
    assert hazard.certainty == "certain"  # all tiles of one pipeline are alive together
    assert [label.line for label in hazard.labels] == [6, 7, 20]
    assert "8 stages" in hazard.labels[0].text


def test_what_lowering_measured_decides() -> None:
    assert kinds(gemm(128, 128, 64, 8, shared_bytes=200_000)) == []
    hazard = only(gemm(128, 128, 64, 4, shared_bytes=240_000), "shared-over-limit")
    assert hazard.fields["measured"] is True and hazard.fields["bytes"] == 240_000
    assert hazard.fields["num_stages_that_fit"] == 3


def test_a_tile_that_never_fits_is_the_place_to_look_at() -> None:
    hazard = only(gemm(1024, 128, 128, 2, threads=(1024,)), "shared-over-limit")
    assert hazard.fields["num_stages_that_fit"] is None
    assert hazard.at == Place("kernel.py", 6) and hazard.fields["largest"] == "A_s"


def test_a_pipeline_that_fits_only_without_overlap_has_tiles_too_large() -> None:
    hazard = only(gemm(512, 128, 128, 2, threads=(512,)), "shared-over-limit")
    assert hazard.fields["num_stages_that_fit"] == 1
    assert hazard.at == Place("kernel.py", 6) and hazard.labels[-1].line == 20
    assert "1 would fit" in hazard.labels[-1].text


def test_the_same_kernel_on_smaller_and_larger_devices() -> None:
    assert kinds(gemm(128, 128, 64, 3), "sm_89") == []
    assert kinds(gemm(128, 128, 64, 4), "sm_89") == ["shared-over-limit"]
    assert kinds(gemm(128, 128, 64, 4, target={"kind": "hip", "mcpu": "gfx942"}), "gfx942") == []  # not pipelined there


def test_buffers_that_can_share_memory_prove_nothing_before_lowering() -> None:
    first, second = buffer("s", (128, 256), "shared.dyn"), buffer("t", (128, 256), "shared.dyn")
    apart = (op("fill", whole(first, "write")), op("fill", whole(second, "write")))
    assert kinds(kernel([first, second], *apart)) == []
    together = op("copy", whole(first, "read"), whole(second, "write"))
    assert kinds(kernel([first, second], *apart, together)) == ["shared-over-limit"]
    assert kinds(kernel([first, second], *apart, shared_bytes=262144)) == ["shared-over-limit"]


def test_a_view_of_a_buffer_takes_no_memory_of_its_own() -> None:
    tile = buffer("s", (128, 256), "shared.dyn")
    view = dataclasses.replace(buffer("v", (256, 128), "shared.dyn"), alias_of="s")
    reshaped = op("copy", whole(view, "read"), whole(view, "write"))
    assert kinds(kernel([tile, view], op("fill", whole(tile, "write")), reshaped)) == []


def test_one_buffer_over_the_limit_is_certain() -> None:
    tile = buffer("s", (128, 1024), "shared.dyn", line=7)
    hazard = only(kernel([tile], op("fill", whole(tile, "write"))), "shared-over-limit")
    assert hazard.certainty == "certain" and hazard.at == Place("kernel.py", 7)
    assert hazard.fields["num_stages"] is None


def test_a_symbolic_extent_depends_on_the_arguments() -> None:
    tile = buffer("s", ("n",), "shared.dyn", line=7)
    hazard = only(kernel([tile]), "shared-extent-dynamic")
    assert hazard.certainty == "likely" and hazard.fields["extent"] == "n"
    assert (hazard.fields["limit"], hazard.fields["extent_that_fits"]) == (232448, 58112)
    assert kinds(kernel([buffer("A", ("n",), "global")])) == []
