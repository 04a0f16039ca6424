from __future__ import annotations

import dataclasses

from lint_kernels import FILE, branch, buffer, call, kernel, kinds, loop, only, region

from triage.model import Place, Statement

X = buffer("X", (16,), "global")
S = buffer("s", (16,), "shared.dyn")


def printed(name: str = "X", extent: int | str = 16, line: int = 12) -> Statement:
    text = f"call_extern('debug_print_buffer_value', '', '{name}', i, {name}[i % 16])"
    one = dataclasses.replace(call(text, line), accesses=(region(name, "read", (0, 15, 1)),))
    return loop("serial", extent, one, line=line)


def test_a_tensor_that_all_threads_print() -> None:
    hazard = only(kernel([X], printed(), grid=(4, 2)), "print-by-every-thread")
    assert hazard.at == Place(FILE, 12) and hazard.about == "X"
    assert hazard.fields == {"buffer": "X", "threads": 128, "blocks": 8, "elements": 16, "lines": 16384}
    unknown = only(kernel([X], printed(extent="n"), grid=("n",)), "print-by-every-thread")
    assert (unknown.fields["blocks"], unknown.fields["elements"], unknown.fields["lines"]) == (None, None, None)


def test_one_thread_prints() -> None:
    for divergent in (True, None):
        assert kinds(kernel([X], branch("tx == 0", printed(), divergent=divergent))) == ["debugging-left"]
    assert kinds(kernel([X], branch("bx == 0", printed(), divergent=False))) == ["print-by-every-thread"]


def test_all_that_is_left_is_told_once() -> None:
    value = call("call_extern('debug_print_var', 'expr<i>', i)", 14)
    check = call("device_assert_with_msg(c, '\\n at kernel.py:15')", 15)
    shared = branch("tx == 0", printed("s", line=13), divergent=True, line=13)
    hazard = only(kernel([X, S], shared, value, check, value), "debugging-left")
    assert hazard.at == Place(FILE, 13) and hazard.fields == {"prints": 2, "asserts": 1}
    assert [(label.line, label.text) for label in hazard.labels] == [(14, "another print"), (15, "another assert")]


def test_what_all_print_is_not_told_again() -> None:
    assert kinds(kernel([X], printed())) == ["print-by-every-thread"]
    assert kinds(kernel([X], printed(), printed(line=20))) == ["print-by-every-thread"] * 2


def test_other_external_functions() -> None:
    assert kinds(kernel([X], call("call_extern('decode', access_ptr(X[0], 16, 1))"))) == []
