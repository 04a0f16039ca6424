"""References of the user's: which inputs a kernel hands to them."""

from __future__ import annotations

import random


def kernel(harness, **more):
    fields = {
        "id": "k1", "name": "gemm.main", "symbol": "main_kernel", "inputs": ["A", "B", "C"], "returned": [], "written": ["C"],
        "reads": frozenset({"A", "B"}), "updates": frozenset(), "types": frozenset(), "defined_at": None,
    }  # fmt: skip
    return harness("references").Kernel(**(fields | more))


def forms(one):
    return [list(form) for form in one.forms(dict.fromkeys(one.inputs, 0))]


def test_what_a_kernel_only_writes_is_no_input(harness):
    assert forms(kernel(harness)) == [["A", "B"], ["A", "B"]]


def test_what_it_reads_and_writes_is_an_input(harness):
    in_place = kernel(harness, written=["A"], inputs=["A", "B"])
    assert forms(in_place) == [["A", "B"], ["A", "B"]]


def test_what_it_only_adds_to_may_be_left_out(harness):
    assert forms(kernel(harness, updates=frozenset({"C"}))) == [["A", "B", "C"], ["A", "B"]]


def test_a_kernel_goes_by_its_function_and_those_around_it(harness):
    one = kernel(harness)
    assert all(one.is_called(name) for name in ("main", "gemm", "gemm.main", "main_kernel"))
    assert not one.is_called("ma")


def test_random_numbers_drawn_by_a_reference_are_not_missing_afterwards(harness):
    import numpy
    import torch

    def drawn():
        return random.random(), float(numpy.random.rand()), float(torch.rand(()))

    random.seed(1)
    numpy.random.seed(1)
    torch.manual_seed(1)
    first = drawn()
    random.seed(1)
    numpy.random.seed(1)
    torch.manual_seed(1)
    with harness("seeds").kept(device=False):
        drawn()
    assert drawn() == first
