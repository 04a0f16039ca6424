"""The event log, and whose a file is."""

from __future__ import annotations

import json
import os
import sys
import sysconfig
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st


def test_events_are_whole_lines_in_order(context, events):
    for number in range(5):
        context.emit("tick", number=number, text="a\nb")
    told = events("tick")
    assert [event["number"] for event in told] == list(range(5))
    assert [event["seq"] for event in told] == sorted({event["seq"] for event in told})
    assert {event["pid"] for event in told} == {os.getpid()}


def test_large_values_become_blobs(context, harness):
    limit = harness("events").INLINE_LIMIT
    context.emit("big", small="x" * 100, large="y" * (limit + 1))
    line = next(Path(context.log.directory).glob("events-*.jsonl")).read_text()
    event = json.loads(line)
    assert event["small"] == "x" * 100
    stored = Path(context.log.blobs, event["large"]["blob"]).read_text()
    assert json.loads(stored) == "y" * (limit + 1)
    assert context.blob(stored) == event["large"]["blob"]


def test_a_directory_that_is_gone_loses_events_and_nothing_else(harness, tmp_path):
    log = harness("events").EventLog(str(tmp_path / "gone"), str(tmp_path / "blobs"))
    log.emit("x")
    assert log.lost == 1


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(value=JSON)
@settings(max_examples=60, deadline=None)
def test_what_is_emitted_is_what_is_read(harness, tmp_path_factory, value):
    directory = tmp_path_factory.mktemp("log")
    harness("events").EventLog(str(directory), str(directory)).emit("x", value=value)
    (line,) = next(directory.glob("events-*.jsonl")).read_text().split("\n")[:-1]
    assert json.loads(line)["value"] == value


def test_whose_file_it_is(harness, context, tmp_path):
    mine = tmp_path / "lib" / "helper.py"
    mine.parent.mkdir()
    mine.write_text("")
    assert context.is_user(str(mine))
    assert not context.is_user(json.__file__)
    assert not context.is_user(pytest.__file__)
    assert not context.is_user(harness("events").__file__)
    assert not context.is_user("<string>")
    assert not context.is_user("<frozen importlib._bootstrap>")
    assert not context.is_user("/project/src/op/copy.cc")
    assert not context.is_user(os.path.join(sysconfig.get_path("stdlib"), "ast.py"))


def test_an_editable_package_is_not_the_users_but_a_file_of_its_name_is(harness, context, tmp_path, monkeypatch):
    package = tmp_path / "checkout" / "tilelang_like" / "__init__.py"
    package.parent.mkdir(parents=True)
    package.write_text("")
    beside = tmp_path / "checkout" / "examples.py"
    beside.write_text("")
    module = type(sys)("tilelang_like")
    module.__file__ = str(package)
    monkeypatch.setitem(sys.modules, "tilelang_like", module)
    context.files.exclude("tilelang_like")
    assert not context.is_user(str(package)) and context.is_user(str(beside))
    module.__file__ = str(beside)  # a single file that only has the name
    context.files.exclude("tilelang_like")
    assert context.is_user(str(beside))


def test_a_guarded_failure_is_told(context, events):
    with context.guarded("do it", kernel="k1"):
        raise KeyError("broken")
    (event,) = events("warning")
    assert event["text"].startswith("capture-failed: could not do it") and "broken" in event["text"]
    assert (event["origin"], event["kernel"]) == ("triage", "k1")


def test_an_error_seen_twice_is_told_twice_only_if_it_ends_the_script(context, events):
    error = ValueError("x")
    context.report_error(error, "lower", "k1", handled=True)
    context.report_error(error, None, None, handled=True)
    assert len(events("error")) == 1
    context.report_error(error, None, None, handled=False)
    first, last = events("error")
    assert (last["supersedes"], last["phase"], last["kernel"], last["handled"]) == ([first["id"]], "lower", "k1", False)
    context.report_error(error, None, None, handled=False)
    assert len(events("error")) == 2


def raised(error: Exception) -> Exception:
    try:
        raise error
    except Exception as caught:  # noqa: BLE001 - with its traceback
        return caught


def test_errors_after_a_failure_that_the_script_depends_on_are_suspect(context, events):
    with context.guarded("wrap the kernel", "k1", needed=True):
        raise KeyError("x")
    with context.guarded("describe the kernel", "k2"):
        raise KeyError("y")
    for kernel, phase in (("k1", "call"), ("k1", "lower"), ("k2", "call"), (None, None)):
        context.report_error(raised(RuntimeError("z")), phase, kernel, handled=True)
    assert [event.get("suspect") for event in events("error")] == ["triage could not wrap the kernel: KeyError: 'x'", None, None, None]  # fmt: skip


def test_without_the_device_every_error_that_meets_it_is_suspect(context, events):
    with context.guarded("attach the virtual device to torch", needed=True):
        raise KeyError("x")
    for kernel, phase in (("k1", "call"), (None, None), (None, "import"), ("k1", "codegen")):
        context.report_error(raised(RuntimeError("z")), phase, kernel, handled=True)
    assert [bool(event.get("suspect")) for event in events("error")] == [True, True, False, False]


def test_what_made_an_error_suspect_is_said_again_where_it_ends_the_script(context, harness, events):
    error = raised(RuntimeError("z"))
    setattr(error, harness("errors").SUSPECT, "limit of the virtual device: sort")
    context.report_error(error, None, None, handled=True)
    context.report_error(error, None, None, handled=False)
    assert [event["suspect"] for event in events("error")] == ["limit of the virtual device: sort"] * 2
    assert events("error")[1]["supersedes"] == [events("error")[0]["id"]]
