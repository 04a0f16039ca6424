"""Errors of harness events, completed from what was printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from triage.model import ErrorRecord, Frame, to_json
from triage.readers import decisive, from_event, read_output

LOGS = Path(__file__).parent / "logs"


def nobody(_: str) -> bool | None:
    return None


def event(error: ErrorRecord, **fields: object) -> dict[str, object]:
    return {
        "v": 1,
        "type": "error",
        "phase": "lower",
        "kernel": "k1",
        "handled": False,
        "error": to_json(error),
        **fields,
    }


def test_quote_is_where_the_traceback_names_it() -> None:
    text = (LOGS / "no-layout.log").read_text()
    seen = ErrorRecord(
        "exception", "tvm.error.InternalError", "Check failed: (has_best) is false: no available layout found\n"
    )
    error = from_event(event(seen), [read_output("", "stdout", nobody), read_output(text, "stderr", nobody)])
    assert error.quote is not None
    assert (error.quote.artifact, error.quote.line) == ("stderr", 61)
    assert text.split("\n")[60] == error.quote.text
    assert (error.origin, error.phase, error.kernel, error.handled) == ("event", "lower", "k1", False)


def test_the_scripts_own_words_do_not_replace_an_event() -> None:
    printed = "ValueError: T.gemm K shape check failed: K_A = 1, K_B = 2\n"
    error = from_event(event(ErrorRecord("exception", "KeyError", "'x'")), [read_output(printed, "stdout", nobody)])
    assert (error.type, error.message) == ("KeyError", "'x'")
    assert error.quote is not None
    assert (error.quote.text, error.quote.artifact, error.quote.line) == ("KeyError: 'x'", None, None)


def test_a_caught_error_is_found_where_the_script_printed_it() -> None:
    printed = "start\nfailed: see below\nM must be divisible by 16, but got 100\n"
    seen = ErrorRecord("exception", "InternalError", "M must be divisible by 16, but got 100")
    error = from_event(event(seen, handled=True), [read_output(printed, "stdout", nobody)])
    assert error.handled
    assert error.quote is not None
    assert error.quote.line == 3


def test_compiler_errors_are_read_out_of_the_message_and_found_in_the_stream() -> None:
    text = (LOGS / "nvcc-line-directive.log").read_text()
    printed = read_output(text, "stderr", nobody)
    message = printed.errors[0].message
    seen = ErrorRecord("compiler", "RuntimeError", message, frames=(Frame("nvcc.py", 214),))
    error = from_event(event(seen, phase="device"), [printed], user=lambda file: file.startswith("/home/user/kernels/"))
    found = decisive(error)
    assert (found.kind, found.type, found.kernel, found.origin) == ("compiler", "nvcc", "k1", "event")
    assert [place.line for place in found.named] == [8]
    assert found.quote is not None
    assert found.quote.line is not None
    assert text.split("\n")[found.quote.line - 1] == found.quote.text


def test_compiler_output_on_the_stream_itself_belongs_to_the_event() -> None:
    printed = read_output((LOGS / "cython-backend.log").read_text(), "stderr", nobody)
    seen = ErrorRecord("exception", "RuntimeError", printed.errors[0].message + "\n\n// tilelang target: c\nint f();")
    found = decisive(from_event(event(seen), [printed]))
    assert (found.kind, found.type) == ("compiler", "c++")
    assert found.quote is not None
    assert found.quote.line == 3


def test_chains_of_the_harness_without_relations() -> None:
    tile = Frame("/x/site-packages/tilelang/language/copy_op.py", 3, user=False)
    own = Frame("/home/me/k.py", 9, user=True)
    behind = ErrorRecord("exception", "ValueError", "shapes differ", frames=(own, tile))
    error = from_event(event(ErrorRecord("exception", "RuntimeError", "mine", frames=(own,), causes=(behind,))))
    assert decisive(error).message == "shapes differ"
    group = ErrorRecord("exception", "ExceptionGroup", "two (2 sub-exceptions)", frames=(own,), causes=(behind, behind))
    assert decisive(from_event(event(group))).message == "shapes differ"


def test_the_error_of_another_process_decides() -> None:
    remote = (LOGS / "python313-pool.log").read_text().partition("The above exception")[0].partition("\n")[2]
    behind = ErrorRecord("exception", "multiprocessing.pool.RemoteTraceback", "\n" + remote)
    parent = Frame("/usr/lib/python3.13/multiprocessing/pool.py", 774, "get", "raise self._value", user=False)
    seen = ErrorRecord("exception", "KeyError", "'b'", frames=(parent,), causes=(behind,))
    printed = read_output((LOGS / "python313-pool.log").read_text(), "stderr", nobody)
    found = decisive(from_event(event(seen), [printed], user=lambda file: file.startswith("/home/user/kernels/")))
    assert [f.line for f in found.frames if f.user] == [3]
    assert found.quote is not None
    assert found.quote.line == 12


@pytest.mark.parametrize(
    "error", [None, [], {}, {"kind": 3}, {"kind": "exception", "type": "X", "message": {"blob": "0"}}]
)
def test_events_without_a_record_say_so(error: object) -> None:
    with pytest.raises(ValueError, match="no error record"):
        from_event({"type": "error", "error": error})
