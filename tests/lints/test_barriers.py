from __future__ import annotations

import pytest
from lint_kernels import branch, call, found, kernel, kinds, only

from triage.model import Place

SYNC = 'tvm_storage_sync("shared")'


def test_a_barrier_that_half_the_block_reaches() -> None:
    record = kernel([], branch("tx < 64", call(SYNC, 14), divergent=True, line=12))
    hazard = only(record, "divergent-barrier")
    assert hazard.at == Place("kernel.py", 14) and hazard.labels[0].line == 12
    assert hazard.fields["condition"] == "tx < 64" and hazard.certainty == "certain"


@pytest.mark.parametrize("condition", ["tx < 128", "tx >= 0", "tx == 500"])
def test_conditions_on_which_all_threads_agree(condition: str) -> None:
    assert kinds(kernel([], branch(condition, call(SYNC), divergent=True))) == []


def test_a_condition_that_is_not_plain_is_only_likely() -> None:
    record = kernel([], branch("tx % 2 == n", call(SYNC), divergent=True))
    assert only(record, "divergent-barrier").certainty == "likely"
    record = kernel([], branch("tx < 64", call(SYNC), divergent=True), threads=(64, 2, 1))
    assert only(record, "divergent-barrier").certainty == "likely"


def test_legal_barriers() -> None:
    for statement in (
        call(SYNC),
        branch("bx == 0", call(SYNC), divergent=False),
        branch("n == 0", call(SYNC)),
        branch("tx < 64", call('tvm_storage_sync("shared", 1, 64)'), divergent=True),
        branch("tx < 64", call('tvm_storage_sync("warp")'), divergent=True),
        branch("tx < 64", call(SYNC), divergent=True, orelse=(call(SYNC),)),
    ):
        assert kinds(kernel([], statement)) == []


def test_the_condition_may_lie_further_out() -> None:
    record = kernel([], branch("tx < 32", branch("n == 0", call(SYNC)), divergent=True))
    assert kinds(record) == ["divergent-barrier"]


def test_two_branches_that_may_complement_each_other() -> None:
    halves = [branch(condition, call(SYNC), divergent=True) for condition in ("tx < 64", "tx >= 64")]
    hazards = found(kernel([], *halves))
    assert [(h.kind, h.certainty) for h in hazards] == [("divergent-barrier", "likely")] * 2
