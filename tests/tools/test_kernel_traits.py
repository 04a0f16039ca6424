"""What a captured kernel is, as far as it decides which faults of the compiler it can meet."""

from __future__ import annotations

from triage.experiment.kernels import Kernel
from triage.model import KernelRecord, Loop, Statement, TileOp
from triage.tools.static_checks import traits_of


def op(number: str, name: str) -> Statement:
    return Statement(number, "op", op=TileOp(name))


def test_operators_are_found_at_any_depth_and_configs_count_unless_false() -> None:
    inside = Statement("0.1", "for", loop=Loop("k", "pipelined", 0, 4), body=(op("0.1.0", "copy"), op("0.1.1", "gemm")))
    otherwise = Statement("0.2", "if", body=(op("0.2.0", "copy"),), orelse=(op("0.2.1", "fill"),))
    record = KernelRecord("main", statements=(Statement("0", "block", body=(inside, otherwise)),))
    kernel = Kernel(
        "k1", "main", target={"kind": "cuda", "arch": "sm_90a"},
        pass_configs={"tl.a": True, "tl.b": False, "tl.c": 64, "tl.emit_line_directives": True},
    )  # fmt: skip
    assert traits_of(kernel, record) == {
        "target": {"cuda"}, "arch": {"sm_90a"}, "ops": {"copy", "gemm", "fill"}, "configs": {"tl.a", "tl.c"},
    }  # fmt: skip


def test_a_target_that_was_not_seen_is_no_word() -> None:
    assert traits_of(Kernel("k1", "main"), KernelRecord("main"))["arch"] == set()
