"""Random inputs in a script's text, and simpler ones in their place."""

from __future__ import annotations

import ast

import pytest

from triage.experiment.inputs import KINDS, SMALL, filled, random_calls, seeded, unseeded
from triage.experiment.parts import numbers, with_numbers

torch = pytest.importorskip("torch")


def values(expression: str, kind: str) -> torch.Tensor:
    """What a random expression holds once it is filled with values of a kind."""
    source = f"import torch\n\nsize = (2, 3)\nlike = torch.zeros(2, 3, dtype=torch.float16)\nx = {expression}\n"
    calls = random_calls(source)
    assert len(calls) == 1
    text = filled(source, calls, kind)
    names: dict = {}
    exec(compile(text, "script", "exec"), names)
    again: dict = {}
    exec(compile(text, "script", "exec"), again)
    assert torch.equal(names["x"], again["x"]), "it is still random"
    return names["x"]


EXPRESSIONS = {
    "torch.randn(2, 3)": torch.float32,
    "torch.rand(size, dtype=torch.float64)": torch.float64,
    "torch.randn((2, 3), device='cpu', dtype=torch.bfloat16)": torch.bfloat16,
    "torch.randint(0, 9, (2, 3))": torch.int64,
    "torch.randint(9, size, dtype=torch.int8)": torch.int8,
    "torch.randint(low=0, high=9, size=(2, 3))": torch.int64,
    "torch.randn_like(like)": torch.float16,
    "torch.rand_like(like, dtype=torch.float32)": torch.float32,
    "torch.normal(0.0, 1.0, size=(2, 3))": torch.float32,
    "torch.normal(0.0, 1.0, (2, 3))": torch.float32,
    "torch.empty(2, 3).normal_()": torch.float32,
    "like.uniform_(-1, 1)": torch.float16,
    "torch.randn(2, 3, generator=torch.Generator())": torch.float32,
}


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_values_take_the_place_of_random_ones_in_shape_and_type(expression: str) -> None:
    expected = {
        "ones": [1, 1, 1, 1, 1, 1],
        "last-one": [0, 0, 0, 0, 0, 1],
        "first-one": [1, 0, 0, 0, 0, 0],
        "ramp": [0, 1, 2, 3, 4, 5],
        "small-integers": [-2, -1, 0, 1, 2, -2],
    }
    assert expected.keys() == KINDS.keys()
    for kind, numbers_ in expected.items():
        found = values(expression, kind)
        assert (tuple(found.shape), found.dtype) == ((2, 3), EXPRESSIONS[expression])
        assert found.flatten().tolist() == numbers_, kind


@pytest.mark.parametrize(
    "line",
    [
        "x = torch.randperm(4)",
        "x = random.randint(0, 4)",
        "x = np.random.randn(4)",
        "x = torch.randint(9)",
        "torch.manual_seed(0)",
        "x = mine.randn(4)",
    ],
)
def test_what_is_no_random_tensor_of_torch_stays(line: str) -> None:
    assert random_calls(f"import torch\n{line}\n") == []


def test_of_calls_in_each_other_the_outer_one_is_taken() -> None:
    source = (
        "import torch as t\nx = t.randn(int(t.rand(1)) + 2)\ny = (t.randn(\n    3,\n    4,\n) + 1); z = t.randn(5)\n"
    )
    calls = random_calls(source)
    assert [call.zeros for call in calls] == ["t.zeros(int(t.rand(1)) + 2)", "t.zeros(3, 4)", "t.zeros(5)"]
    text = filled(source, calls, "ramp")
    assert ast.parse(text) and "randn" not in text and text.count("def ramp") == 1 and "t.arange" in text


def test_a_function_is_put_behind_imports_and_a_docstring() -> None:
    source = '"""Doc."""\nfrom __future__ import annotations\nimport torch\nx = torch.rand(3)\n'
    body = ast.parse(filled(source, random_calls(source), "ramp")).body
    assert [type(node).__name__ for node in body] == ["Expr", "ImportFrom", "Import", "FunctionDef", "Assign"]


def test_columns_are_counted_in_bytes() -> None:
    source = "import torch\nnäme = ['ä', torch.rand(2), 'ö']\n"
    assert filled(source, random_calls(source), "ones") == "import torch\nnäme = ['ä', torch.ones(2), 'ö']\n"


def test_random_numbers_are_fixed_once_and_freed_again() -> None:
    source = "import os\nimport torch as t\nx = t.rand(3)\n"
    fixed = seeded(source)
    assert fixed == "import os\nimport torch as t\nt.manual_seed(0)\nx = t.rand(3)\n"
    assert seeded(fixed) is None and unseeded(fixed) == source and unseeded(source) is None
    assert seeded("from torch import rand\nx = rand(3)\n") is None


def test_numbers_are_told_from_the_largest() -> None:
    assert numbers("f(16, 4, 0, x=64, y=25.5, z=True)\ng(16, -8)\n", SMALL) == [64, 16, 8]


def test_the_numbers_of_what_acts_on_the_world_stay() -> None:
    source = "import os\nif os.getppid() > 64:\n    os.kill(os.getppid(), 64)\nf(64, '64', x=64)  # 64\n"
    assert with_numbers(source, {64: 2}).splitlines()[-1] == "f(2, '64', x=2)  # 64"
    assert with_numbers(source, {64: 2}).splitlines()[:-1] == source.splitlines()[:-1]


def test_a_text_that_does_not_parse_has_no_random_calls() -> None:
    assert random_calls("x = torch.rand(\n") == []
