from __future__ import annotations

import pytest
from lint_kernels import FILE, branch, kernel, kinds, only, region, store

from triage.model import Place, Statement

TX = Statement("t", "bind", None, "tx = launch_thread_idx(0)")
TY = Statement("t", "bind", None, "ty = launch_thread_idx(1)")
MARK = Statement("a", "attr", Place(FILE, 9), "attr warp_specialize = 1")
STORE = store(region("Y", "write", (0, 255, 1)))


def group(condition: str, *body: Statement) -> Statement:
    return branch(condition, MARK, *body, divergent=True, line=9)


@pytest.mark.parametrize("condition", ["tx >= -128 and tx < 0", "tx >= 256 and tx < 384", "ty * 256 + tx >= 256"])
def test_a_region_for_nobody(condition: str) -> None:
    hazard = only(kernel([], TX, TY, group(condition, STORE), threads=(256,)), "warp-group-without-threads")
    assert hazard.at == Place(FILE, 9) and hazard.certainty == "certain"
    assert hazard.fields == {"condition": condition, "threads": 256}


@pytest.mark.parametrize(
    ("statement", "threads"),
    [
        (group("tx >= 128 and tx < 256", STORE), (256,)),
        (group("tx >= -128 and tx < 128", STORE), (128,)),  # T.ws(-1, 0) is group 0
        (group("ty * 128 + tx >= 128", STORE), (128, 2)),
        (group("tx >= 256"), (256,)),  # nothing in it
        (branch("tx >= 256", STORE, divergent=True), (256,)),  # a plain branch may be one case of several
        (group("tx >= 256", STORE), ("n",)),
        (group("tx >= lanes[0]", STORE), (256,)),
        (group("warp >= 256", STORE), (256,)),
    ],
)
def test_regions_that_have_threads_or_may_have(statement: Statement, threads: tuple[int | str, ...]) -> None:
    assert kinds(kernel([], TX, TY, statement, threads=threads)) == []


def test_a_name_that_means_two_things() -> None:
    other = Statement("b", "bind", None, "tx = s[3]")
    assert kinds(kernel([], TX, other, group("tx >= 256", STORE), threads=(256,))) == []
