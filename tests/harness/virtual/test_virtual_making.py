"""Tensors made on the virtual device have the shape and the values a real device would give them."""

from __future__ import annotations

import textwrap

import pytest

from triage.experiment.process import Subject, run_subject

pytestmark = pytest.mark.tilelang

SCRIPT = """
    import torch

    made = [
        lambda d: torch.arange(8, device=d),
        lambda d: torch.arange(1, 9, dtype=torch.float32, device=d),
        lambda d: torch.arange(0, 16, 3, device=d),
        lambda d: torch.linspace(0, 1, 5, device=d),
        lambda d: torch.randperm(8, device=d),
        lambda d: torch.eye(3, 4, device=d),
        lambda d: torch.mm(torch.ones(2, 3, device=d), torch.ones(3, 4, device=d), out=torch.empty(0, device=d)),
        lambda d: torch.empty(0, device=d).resize_(2, 3),
        lambda d: torch.ones(2, 3, device=d).t_(),
        lambda d: torch.ones(1, 3, device=d).squeeze_(0),
        lambda d: torch.meshgrid(torch.arange(2, device=d), torch.arange(3, device=d), indexing="ij")[0],
    ]
    for number, make in enumerate(made):
        here, there = make("cpu"), make("cuda")
        assert there.is_cuda
        same = (here.shape, here.stride(), here.numel()) == (there.shape, there.stride(), there.numel())
        print(number, same, tuple(here.shape), tuple(there.shape))
"""


VALUES = """
    import numpy, torch

    made = [
        lambda d: torch.tensor([1, 2], device=d),
        lambda d: torch.tensor(3.5, device=d, requires_grad=True),
        lambda d: torch.as_tensor([[1, 2], [3, 4]], dtype=torch.int32, device=d),
        lambda d: torch.asarray(numpy.arange(3), device=d),
        lambda d: torch.tensor(torch.ones(2), device=d),
        lambda d: torch.bincount(torch.tensor([1, 2, 2], device=d)),
        lambda d: torch.full((2,), 7, device=d),
    ]
    for number, make in enumerate(made):
        here, there = make("cpu"), make("cuda")
        assert there.is_cuda and there.requires_grad == here.requires_grad
        print(number, here.tolist() == there.tolist() and here.dtype == there.dtype, there.tolist())
    torch.set_default_device("cuda")
    default = torch.tensor([5, 6])
    assert default.is_cuda
    print(7, default.tolist() == [5, 6], default.tolist())
    print(8, torch.tensor([5, 6], device="cpu").device.type == "cpu")
"""


def test_values_given_as_numbers_arrive(tmp_path):
    script = tmp_path / "values.py"
    script.write_text(textwrap.dedent(VALUES))
    run = run_subject(Subject(script=script), tmp_path / "step", tmp_path / "blobs", timeout=120)
    assert run.exit.status == "succeeded", run.stderr.read_text()
    lines = run.stdout.read_text().splitlines()
    assert len(lines) == 9
    assert [line for line in lines if "True" not in line] == []


def test_shapes_agree_with_the_cpu(tmp_path):
    script = tmp_path / "shapes.py"
    script.write_text(textwrap.dedent(SCRIPT))
    run = run_subject(Subject(script=script), tmp_path / "step", tmp_path / "blobs", timeout=120)
    assert run.exit.status == "succeeded", run.stderr.read_text()
    lines = run.stdout.read_text().splitlines()
    assert len(lines) == 11
    assert [line for line in lines if "True" not in line] == []
