"""The keeper survives whatever a script does, and `run_subject` always returns what was told until then."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triage.experiment import process
from triage.experiment.events import EventReader, final
from triage.experiment.process import Run, Subject, run_command, run_subject

LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="child subreapers and /proc are Linux's")


@pytest.fixture
def run(tmp_path):
    """Run the text of a script under observation."""

    def run(text: str, *argv: str, **options) -> Run:
        script = tmp_path / "script.py"
        script.write_text(textwrap.dedent(text))
        options.setdefault("timeout", 60)
        return run_subject(Subject(script=script, argv=argv), tmp_path / "step", tmp_path / "blobs", **options)

    return run


def of_type(run: Run, kind: str) -> list[dict]:
    return [event for event in run.events if event["type"] == kind]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def gone(pid: int) -> bool:
    """Whether a process ends; one that is being killed may need a moment."""
    for _ in range(200):
        if not alive(pid):
            return True
        time.sleep(0.05)
    return False


def test_a_script_that_returns(run):
    result = run("print('hello')")
    assert (result.exit.status, result.exit.code, result.exit.signal) == ("succeeded", 0, None)
    assert result.stdout.read_text() == "hello\n"
    assert of_type(result, "bye")[0]["how"] == "returned"
    assert result.exit.rusage["max_resident"] > 1 << 20


def test_an_exception_is_reported_and_printed_as_python_prints_it(run, tmp_path):
    result = run("def f(x):\n    return 1 / x\n\nf(0)\n")
    plain = subprocess.run([sys.executable, tmp_path / "script.py"], capture_output=True, text=True)
    assert (result.exit.status, result.exit.code) == ("failed", 1)
    assert result.stderr.read_text() == plain.stderr
    (event,) = of_type(result, "error")
    assert event["handled"] is False
    assert event["error"]["type"] == "ZeroDivisionError"
    assert [(f["line"], f["function"], f["user"]) for f in event["error"]["frames"]] == [
        (4, "<module>", True),
        (2, "f", True),
    ]
    assert (event["error"]["frames"][1]["column"], event["error"]["frames"][1]["end_column"]) == (12, 17)
    assert of_type(result, "bye")[0]["how"] == "raised"


@pytest.mark.parametrize(
    ("code", "status", "expected"), [("3", "failed", 3), ("0", "succeeded", 0), ("None", "succeeded", 0)]
)
def test_sys_exit(run, code, status, expected):
    result = run(f"import sys\nsys.exit({code})")
    assert (result.exit.status, result.exit.code) == (status, expected)
    assert of_type(result, "bye")[0] | {"how": "exited", "code": expected} == of_type(result, "bye")[0]


def test_sys_exit_with_a_text(run):
    result = run("import sys\nsys.exit('no good')")
    assert result.exit.code == 1
    assert result.stderr.read_text() == "no good\n"


def test_os_exit_leaves_no_bye(run):
    result = run("import os\nprint('x', flush=True)\nos._exit(7)")
    assert (result.exit.status, result.exit.code) == ("failed", 7)
    assert not of_type(result, "bye")
    assert result.stdout.read_text() == "x\n"


def test_a_segmentation_fault_leaves_its_stack(run):
    result = run("import ctypes\n\n\ndef crash():\n    ctypes.string_at(0)\n\n\ncrash()\n")
    assert (result.exit.status, result.exit.signal) == ("failed", signal.SIGSEGV)
    assert "line 5 in crash" in result.stacks.read_text()


def test_a_hang_is_ended_and_leaves_its_stacks(run):
    result = run("import time\n\n\ndef wait():\n    while True:\n        time.sleep(1)\n\n\nwait()\n", timeout=1.0)
    assert result.exit.status == "timed_out"
    assert "in wait" in result.stacks.read_text()


def test_a_hang_that_ignores_signals_is_ended(run):
    result = run(
        """
        import signal, time
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        while True:
            time.sleep(1)
        """,
        timeout=1.0,
    )
    assert (result.exit.status, result.exit.signal) == ("timed_out", signal.SIGKILL)


@LINUX
def test_children_left_behind_are_ended(run):
    result = run(
        """
        import os, time
        if os.fork() == 0:
            print("child", os.getpid(), flush=True)
            time.sleep(600)
        time.sleep(0.3)
        print("parent", flush=True)
        """
    )
    assert result.exit.status == "succeeded"
    assert result.exit.left_behind == 1
    child = int(result.stdout.read_text().split()[1])
    assert gone(child)


@LINUX
def test_a_daemon_in_its_own_session_is_ended(run):
    result = run(
        """
        import os, time
        reader, writer = os.pipe()
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                for fd in (0, 1, 2):
                    os.close(fd)
                os.write(writer, str(os.getpid()).encode())
                time.sleep(600)
            os._exit(0)
        print(os.read(reader, 20).decode())
        """
    )
    assert result.exit.status == "succeeded"
    assert gone(int(result.stdout.read_text()))


def test_a_forked_child_writes_its_own_events(run):
    result = run(
        "import os\npid = os.fork()\nif pid:\n    os.waitpid(pid, 0)\nelse:\n    raise KeyError('in the child')\n"
    )
    assert result.exit.status == "succeeded"
    hello = of_type(result, "hello")[0]
    (error,) = of_type(result, "error")
    assert error["pid"] != hello["pid"]
    assert error["error"]["type"] == "KeyError"


def test_endless_output_is_bounded_and_the_cut_is_stated(run):
    limit = 100_000
    result = run(
        "import sys\nfor i in range(100_000):\n    print(f'line {i}')\nsys.stderr.write('e' * 10)\n", output_limit=limit
    )
    text = result.stdout.read_bytes()
    total = result.exit.bytes_out["stdout"]
    assert total == sum(len(f"line {i}\n") for i in range(100_000))
    assert result.exit.cut["stdout"] == total - 2 * limit
    assert result.exit.cut_at["stdout"] == limit
    assert text.startswith(b"line 0\nline 1\n") and text.endswith(b"line 99999\n")
    assert b"%d bytes cut here" % result.exit.cut["stdout"] in text[limit : limit + 100]
    assert (result.exit.cut["stderr"], result.exit.cut_at["stderr"]) == (0, None)


def test_output_that_never_ends_ends_at_the_deadline(run):
    result = run("while True:\n    print('x' * 1000)\n", timeout=1.5, output_limit=10_000)
    assert result.exit.status == "timed_out"
    assert result.stdout.stat().st_size < 30_000


def test_closed_outputs_do_not_end_the_run(run):
    result = run("import os, time\nos.close(1)\nos.close(2)\ntime.sleep(0.5)\nos._exit(5)\n")
    assert (result.exit.status, result.exit.code) == ("failed", 5)


def test_closing_every_descriptor_loses_no_event(run):
    result = run("import os\nos.closerange(0, 256)\nos.open('/dev/null', os.O_RDWR)\nraise ValueError('still told')\n")
    assert of_type(result, "error")[0]["error"]["message"] == "still told"


def test_a_script_that_kills_its_own_group_kills_itself_only(run):
    result = run("import os, signal\nos.killpg(os.getpgrp(), signal.SIGKILL)\n")
    assert (result.exit.status, result.exit.signal, result.exit.reason) == ("failed", signal.SIGKILL, None)


@LINUX
@pytest.mark.parametrize("target", ["os.kill(os.getppid(), 9)", "os.killpg(os.getpgid(os.getppid()), 9)"])
def test_a_script_that_kills_its_parent_is_reported_and_ended(run, target):
    result = run(
        f"""
        import os, time
        print(os.getpid(), flush=True)
        if os.fork() == 0:
            os.setsid()
            print(os.getpid(), flush=True)
            time.sleep(600)
        time.sleep(0.5)
        {target}
        time.sleep(600)
        """
    )
    assert (result.exit.status, result.exit.reason) == ("killed", "keeper")
    pids = [int(word) for word in result.stdout.read_text().split()]
    assert len(pids) == 2
    assert all(gone(pid) for pid in pids)
    assert of_type(result, "hello")


def test_memory_is_limited(run):
    result = run(
        "x = []\nimport time\nwhile True:\n    x.append(b'x' * 10_000_000)\n    time.sleep(0.01)\n", memory=300 << 20
    )
    assert (result.exit.status, result.exit.reason) == ("killed", "memory")


@LINUX
def test_memory_of_children_counts(run):
    result = run(
        """
        import os, time
        for _ in range(4):
            if os.fork() == 0:
                x = os.urandom(100 << 20)
                time.sleep(600)
        time.sleep(600)
        """,
        memory=300 << 20,
    )
    assert (result.exit.status, result.exit.reason) == ("killed", "memory")


def test_a_command_that_does_not_exist(tmp_path):
    ended = run_command(["/nonexistent/program"], tmp_path / "step")
    assert (ended.status, ended.code) == ("failed", None)
    assert "FileNotFoundError" in (ended.error or "")


def test_a_failing_tick_ends_the_command(tmp_path):
    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_command([sys.executable, "-c", "import time; time.sleep(600)"], tmp_path / "step", tick=interrupt)
    assert json.loads((tmp_path / "step" / "exit.json").read_text())["reason"] == "parent"


@LINUX
def test_everything_ends_with_the_parent(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(600)\n")
    parent = tmp_path / "parent.py"
    parent.write_text(
        "import sys\nfrom pathlib import Path\nfrom triage.experiment.process import Subject, run_subject\n"
        f"d = Path({str(tmp_path)!r})\nrun_subject(Subject(script=d / 'script.py'), d / 'step', d / 'blobs')\n"
    )
    root = Path(process.__file__).parent.parent.parent
    started = subprocess.Popen([sys.executable, parent], env={**os.environ, "PYTHONPATH": str(root)})
    output = tmp_path / "step" / "stdout"
    for _ in range(400):
        if output.exists() and output.read_text().endswith("\n"):
            break
        time.sleep(0.05)
    pid = int(output.read_text())
    started.kill()
    started.wait()
    assert gone(pid)


def test_progress_hears_events_and_time(run):
    heard = []
    run("import time\ntime.sleep(0.5)\n", progress=lambda seconds, event: heard.append((seconds, event)))
    assert [e["type"] for _, e in heard if e is not None] == ["hello", "bye"]
    assert any(event is None for _, event in heard)


def test_a_script_sees_what_python_shows_it(tmp_path):
    script = tmp_path / "sub" / "script.py"
    script.parent.mkdir()
    (script.parent / "neighbour.py").write_text("value = 41\n")
    script.write_text(
        "import sys, os\nimport neighbour\n"
        "print(sys.argv, sys.path[0], sorted(globals()), __file__, __name__, os.getcwd(), __spec__, __package__)\n"
        "print(sys.modules['__main__'].__dict__ is globals(), 'boot' in sys.modules, 'record' in sys.modules)\n"
        "print(any('harness' in p for p in sys.path), sys.stdin.read(), __doc__, type(__loader__).__name__)\n"
    )
    plain = subprocess.run(
        [sys.executable, "sub/script.py", "-x", "1"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    subject = Subject(script=Path("sub/script.py"), argv=("-x", "1"), cwd=tmp_path)
    result = run_subject(subject, tmp_path / "step", tmp_path / "blobs", timeout=60)
    assert plain.returncode == 0
    assert result.stdout.read_text() == plain.stdout


def test_a_module_sees_what_python_shows_it(tmp_path):
    package = tmp_path / "pkg"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "tool.py").write_text(
        "import sys\nfrom . import other\nprint(sys.argv, sys.path[0], __name__, __spec__.name, __package__, __file__)\n"
    )
    (package / "other.py").write_text("")
    plain = subprocess.run([sys.executable, "-m", "pkg.tool", "a"], cwd=tmp_path, capture_output=True, text=True)
    subject = Subject(module="pkg.tool", argv=("a",), cwd=tmp_path)
    result = run_subject(subject, tmp_path / "step", tmp_path / "blobs", timeout=60)
    assert plain.returncode == 0
    assert result.stdout.read_text() == plain.stdout
    assert result.exit.status == "succeeded"


def test_a_syntax_error_names_its_line(run):
    result = run("x = 1\nif x = 2:\n    pass\n")
    (event,) = of_type(result, "error")
    assert (event["phase"], event["error"]["type"]) == ("import", "SyntaxError")
    assert (event["error"]["named"][0]["line"], event["error"]["named"][0]["snippet"]) == (2, "if x = 2:")


def test_the_reader_survives_torn_and_foreign_lines(tmp_path):
    whole = {"v": 1, "seq": 0, "t": 0.5, "pid": 1, "type": "hello"}
    (tmp_path / "events-1.jsonl").write_text(json.dumps(whole) + '\nnot json\n[1]\n{"type": "x"}\n{"v": 1, "seq"')
    reader = EventReader(tmp_path)
    assert reader.read() == [whole]
    events, torn = reader.finish()
    assert events == [whole]
    assert torn == 4


@given(st.binary(max_size=300))
def test_the_reader_takes_any_bytes(tmp_path_factory, data):
    directory = tmp_path_factory.mktemp("events")
    (directory / "events-9.jsonl").write_bytes(data)
    events, torn = EventReader(directory).finish()
    assert len(events) + torn == data.count(b"\n") + (not data.endswith(b"\n") and data != b"")


def test_a_superseded_error_is_told_once():
    def event(seq, id, supersedes):
        return {"v": 1, "seq": seq, "t": float(seq), "pid": 1, "type": "error", "id": id, "supersedes": supersedes}

    events = [event(0, "x1", []), event(1, "x2", []), event(2, "x3", ["x1"])]
    assert [e["id"] for e in final(events)] == ["x2", "x3"]
