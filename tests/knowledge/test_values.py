"""Errors that no value of a tensor brings about, told by the messages that Python and PyTorch really write."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch

from triage.knowledge.values import is_about_shapes, is_independent
from triage.model import ErrorRecord, Frame

USER = Frame("/home/user/kernels/k.py", 9, "main", "y = f(a)", user=True)
TORCH = Frame("/home/user/venv/lib/python3.11/site-packages/torch/functional.py", 372, "einsum", user=False)
OTHER = Frame("/home/user/venv/lib/python3.11/site-packages/numpy/core.py", 3, "dot", user=False)


def raised(act: Callable[[], object], *frames: Frame) -> ErrorRecord:
    with pytest.raises(Exception) as caught:
        act()
    error = caught.value
    return ErrorRecord("exception", type(error).__name__, str(error), frames or (USER,))


def ones(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.ones(shape, dtype=dtype)


def takes_one(a: int) -> int:
    return a


SHAPES: list[Callable[[], object]] = [
    lambda: torch.einsum("bk,bk->b", ones(2, 3), ones(2, 4)),
    lambda: ones(2, 3) @ ones(2, 3),
    lambda: ones(2, 3) + ones(2, 4),
    lambda: ones(2, 3).view(5),
    lambda: ones(2, 3).expand(4, 3),
    lambda: torch.cat([ones(2, 3), ones(2, 4)], 0),
    lambda: torch.stack([ones(2), ones(3)]),
    lambda: ones(2, 3).t().view(6),
    lambda: ones(2, 3).sum(4),
    lambda: torch.bmm(ones(2, 3, 4), ones(2, 3, 4)),
    lambda: ones(2, 3) @ ones(3, 2, dtype=torch.float16),
    lambda: ones(2, 3).permute(0, 1, 2),
    lambda: ones(6).split([2, 2]),
    lambda: ones(2)[0, 0],
    lambda: torch.nn.functional.layer_norm(ones(2, 3), (4,)),
    lambda: ones(3).copy_(ones(4)),
]


@pytest.mark.parametrize("act", SHAPES)
def test_shapes_that_pytorch_refuses_are_no_matter_of_values(act: Callable[[], object]) -> None:
    assert is_about_shapes(raised(act)) and is_independent(raised(act, USER, TORCH))
    assert not is_independent(raised(act, USER, OTHER)), "raised elsewhere, it is another's text"


@pytest.mark.parametrize(
    "act",
    [
        lambda: torch.nn.functional.cosine_simularity,
        lambda: torch.Tensor.foo,
        lambda: ones(1).foo,
        lambda: takes_one(),  # type: ignore[call-arg]
        lambda: takes_one(1, 2),  # type: ignore[call-arg]
        lambda: takes_one(b=1),  # type: ignore[call-arg]
    ],
)
def test_missing_names_and_wrong_calls_are_no_matter_of_values(act: Callable[[], object]) -> None:
    assert is_independent(raised(act)) and not is_about_shapes(raised(act))


@pytest.mark.parametrize(
    "act",
    [
        lambda: {}["k"],
        lambda: [][3],
        lambda: None.shape,  # type: ignore[attr-defined]
        lambda: 1 / 0,
        lambda: math.sqrt(-1.0),
        lambda: ones(2).item(),
        lambda: torch.linalg.inv(torch.zeros(2, 2)),
        lambda: None + 1,  # type: ignore[operator]
    ],
)
def test_what_values_may_bring_about_is_not_independent(act: Callable[[], object]) -> None:
    assert not is_independent(raised(act))


def test_how_many_a_star_passes_nobody_can_read_off_the_call() -> None:
    starred = Frame(USER.file, 9, "main", "y = takes_one(*some)", user=True)
    assert not is_independent(raised(lambda: takes_one(), starred))  # type: ignore[call-arg]


def test_a_key_written_out_where_it_is_looked_up_is_no_matter_of_values() -> None:
    for line, expected in (('n = cfg["inter"]', True), ("n = cfg['inter']", True), ("n = cfg[name]", False)):
        frame = Frame(USER.file, 9, "main", line, user=True)
        assert is_independent(raised(lambda: {}["inter"], frame)) is expected
