from __future__ import annotations

import dataclasses

import pytest
from lint_kernels import FILE, branch, buffer, kernel, kinds, only, op, region, store

from triage.model import Access, KernelRecord, Place, Statement

X, Y = buffer("X", ("m", 64), "global"), buffer("Y", ("m",), "global")
H = buffer("H", ("m // 2",), "global")
F = buffer("f", (128, 64), "local.fragment")


def access(name: str, *index: str, mode: str = "read", extent: int = 1) -> Access:
    none = (None,) * len(index)
    return Access(name, index, (extent,) * len(index), none, none, mode=mode)


def element(*accesses: Access, text: str = "", line: int = 13) -> Statement:
    return dataclasses.replace(store(*accesses, line=line), text=text)


def masked(condition: str, *body: Statement, **more: object) -> KernelRecord:
    return kernel([X, Y, H, F], branch(condition, *body, divergent=True, line=12, **more))


@pytest.mark.parametrize("condition", ["bx * 256 + i < m", "m > i + bx * 256", "j < 64 and bx * 256 + i < m"])
def test_a_mask_that_leaves_elements_out(condition: str) -> None:
    body = element(access("X", "bx * 128 + i", "0"), access("Y", "bx * 128 + i", mode="write"))
    hazard = only(masked(condition, body), "mask-of-other-tile")
    assert hazard.at == Place(FILE, 12) and hazard.labels[0].line == 13 and hazard.certainty == "likely"
    assert {key: hazard.fields[key] for key in ("name", "mask_tile", "tile", "skips")} == {
        "name": "bx",
        "mask_tile": 256,
        "tile": 128,
        "skips": True,
    }


def test_a_mask_that_lets_too_much_through() -> None:
    body = element(access("Y", "bx * 128 + i", mode="write"))
    assert only(masked("bx * 64 + i < m", body), "mask-of-other-tile").fields["skips"] is False


CHOICE = "{to} = if_then_else(bx * 64 + i < m, {of}, 0.0)"
COPY = op("copy", access("X", "bx * 128", "0", extent=128), region("f", "write", (0, 0, 128), (0, 0, 64)))


def test_choices_in_an_expression() -> None:
    load = element(text=CHOICE.format(to="v[0]", of="X[bx * 128 + i, 0] * 2.0"))
    assert only(kernel([X, F], load), "mask-of-other-tile").fields["skips"] is False
    tile = element(text=CHOICE.format(to="f[i, j]", of="f[i, j]"))
    assert only(kernel([X, F], COPY, tile), "mask-of-other-tile").fields["skips"] is False
    row = Statement("r", "bind", Place(FILE, 11), "row = bx * 64 + i")
    named = element(text="f[i, j] = if_then_else(row < m, f[i, j], 0.0)")
    assert kinds(kernel([X, F], COPY, row, named)) == ["mask-of-other-tile"]


@pytest.mark.parametrize(
    ("condition", "body"),
    [
        ("bx * 128 + i < m", element(access("Y", "bx * 128 + i"))),
        ("bx * 64 + i < m", element(access("Y", "bx * 64 + i"), access("X", "bx * 128 + i", "0"))),  # it guards Y
        ("bx * 64 + i < m // 2", element(access("X", "bx * 128 + 2 * i", "0"))),  # a dimension of another length
        ("bx * 64 + i < m", element(access("Y", "by * 128 + i"))),
        ("bx * 64 + i < m", element(access("Y", "bx + 128 * i"))),
        ("bx * 64 + i <= k", element(access("Y", "bx * 128 + i"))),  # causal: another kind of mask
        ("bx < m", element(access("Y", "bx * 128 + i"))),
        ("bx * 64 < m", element(access("Y", "bx * 128 + i"))),  # whole tiles
        ("bx * 64 + A[i] < m", element(access("Y", "bx * 128 + i"))),
    ],
)
def test_masks_of_their_own(condition: str, body: Statement) -> None:
    assert kinds(masked(condition, body)) == []


def test_a_branch_with_two_sides_is_no_mask() -> None:
    body = element(access("Y", "bx * 128 + i"))
    assert kinds(masked("bx * 256 + i < m", body, orelse=(body,))) == []


def test_another_access_in_tiles_of_the_mask() -> None:
    tile = element(text=CHOICE.format(to="f[i, j]", of="f[i, j]"))
    half = op("copy", access("X", "bx * 64", "0", extent=64), region("f", "write", (0, 0, 128), (0, 0, 64)))
    assert kinds(kernel([X, F], COPY, half, tile)) == []
