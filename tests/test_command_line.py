"""The commands as a user runs them: real processes, real exit statuses, hostile and plain bad scripts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
ENV = {**os.environ, "PYTHONPATH": str(ROOT)}


def triage(*words: str, cwd: Path, stdin: str | None = None, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "triage", *words], cwd=cwd, env=ENV, input=stdin, capture_output=True, text=True,
        timeout=timeout,
    )  # fmt: skip
    assert "Traceback (most recent call last)" not in done.stderr
    return done


def run_script(text: str, folder: Path, *options: str) -> tuple[int, dict[str, Any]]:
    """Run a script; the exit status and the verdict."""
    (folder / "kernel.py").write_text(text, encoding="utf-8")
    done = triage("run", "kernel.py", "--json", "report.json", *options, cwd=folder)
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    return done.returncode, report


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda p: None, "no such file"),
        (lambda p: p.mkdir(), "is a directory"),
        (lambda p: p.write_bytes(b"\x7fELF\0\0\1"), "is a binary file"),
    ],
)
def test_what_cannot_be_run_is_bad_usage(make: Any, complaint: str, tmp_path: Path) -> None:
    make(tmp_path / "kernel.py")
    done = triage("run", "kernel.py", cwd=tmp_path)
    assert done.returncode == 2
    assert complaint in done.stderr
    assert not (tmp_path / ".triage").exists()


@pytest.mark.parametrize(
    "words",
    [
        ["run"],
        ["run", "-m"],
        ["run", "--timeout", "soon", "x.py"],
        ["fly"],
        ["kernel.py"],
        ["report"],
        ["resume"],
    ],
)
def test_bad_usage_says_what_to_do(words: list[str], tmp_path: Path) -> None:
    done = triage(*words, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("triage: ")


def test_a_syntax_error_is_a_fault_of_the_script(tmp_path: Path) -> None:
    status, report = run_script("x = 1\nfor in range(3):\n    pass\n", tmp_path)
    assert status == 1
    assert (report["verdict"]["state"], report["verdict"]["location"]["line"]) == ("localized", 2)


def test_a_missing_package_is_a_fault_of_the_environment(tmp_path: Path) -> None:
    status, report = run_script("import os\nimport no_such_package_at_all\n", tmp_path)
    assert status == 1
    assert report["verdict"]["category"] == "environment"
    assert report["verdict"]["location"]["line"] == 2


def test_without_tilelang_the_report_says_so(tmp_path: Path) -> None:
    bare = Path(sys.base_prefix) / "bin" / "python3"
    if not bare.exists() or subprocess.run([bare, "-c", "import tilelang"], capture_output=True).returncode == 0:
        pytest.skip("needs an interpreter without tilelang")
    status, report = run_script("import tilelang\n", tmp_path, "--python", str(bare))
    assert status == 1
    assert report["verdict"]["category"] == "environment"
    assert "tilelang" in report["verdict"]["summary"]


def test_a_script_without_kernels_is_healthy_and_says_that_nothing_was_checked(tmp_path: Path) -> None:
    status, report = run_script("print('hello')\n", tmp_path)
    assert status == 0
    assert report["verdict"]["title"] == "The script ran, but it built no kernel"


def test_an_exit_status_alone_stays_unknown(tmp_path: Path) -> None:
    status, report = run_script("import sys\nsys.exit(5)\n", tmp_path)
    assert status == 3
    assert report["verdict"]["state"] == "unknown"


def test_exit_zero_keeps_the_verdict(tmp_path: Path) -> None:
    status, report = run_script("raise ValueError('x')\n", tmp_path, "--exit-zero")
    assert status == 0
    assert report["verdict"]["state"] != "healthy"


def test_words_of_the_users_own_raise_are_not_a_tilelang_error(tmp_path: Path) -> None:
    text = "raise AssertionError('T.gemm K shape check failed: K_A = 32, K_B = 64')\n"
    _, report = run_script(text, tmp_path)
    assert report["verdict"]["rule"] != "TLG014"


def test_printed_words_are_not_an_error(tmp_path: Path) -> None:
    text = "print('Traceback (most recent call last):')\nprint('AssertionError: T.gemm K shape check failed: K_A = 1, K_B = 2')\n"
    status, report = run_script(text, tmp_path)
    assert (status, report["verdict"]["state"]) == (0, "healthy")


@pytest.mark.parametrize(
    ("text", "options", "status", "word"),
    [
        ("import ctypes\nctypes.string_at(0)\n", (), 3, "SIGSEGV"),
        ("import time\nwhile True: time.sleep(0.1)\n", ("--timeout", "3"), None, "3 s"),
        ("import os, signal\nos.killpg(os.getpgid(os.getppid()), signal.SIGKILL)\n", (), 3, "killed"),
        ("import os, time\nif os.fork() == 0: time.sleep(60)\nraise SystemExit(4)\n", (), 3, "4"),
    ],
)
def test_whatever_the_script_does_there_is_a_report(
    text: str, options: tuple[str, ...], status: int | None, word: str, tmp_path: Path
) -> None:
    code, report = run_script(text, tmp_path, *options)
    assert code in ((status,) if status is not None else (1, 3))
    assert word in json.dumps(report["verdict"]) + json.dumps(report["facts"])


def test_endless_output_is_bounded_and_the_cut_is_stated(tmp_path: Path) -> None:
    run_script("for _ in range(3_000_000): print('0123456789')\n", tmp_path)
    kept = next((tmp_path / ".triage").glob("*/steps/1/stdout"))
    assert kept.stat().st_size < 10 << 20
    assert json.loads((kept.parent / "exit.json").read_text())["cut"]["stdout"] > 0


def test_json_on_standard_output_is_alone_there(tmp_path: Path) -> None:
    (tmp_path / "kernel.py").write_text("print('noise')\n", encoding="utf-8")
    done = triage("run", "--json", "-", "kernel.py", cwd=tmp_path)
    assert json.loads(done.stdout)["schema"] == "triage.report/1"


def test_arguments_reach_the_script(tmp_path: Path) -> None:
    text = "import sys\nassert sys.argv[1:] == ['--size', '3', '--json'], sys.argv\n"
    status, _ = run_script(text, tmp_path, "--", "--size", "3", "--json")
    assert status == 0


def test_a_module_runs_as_python_does(tmp_path: Path) -> None:
    (tmp_path / "tool.py").write_text("import sys\nassert sys.argv[1] == 'x' and __name__ == '__main__'\n")
    done = triage("run", "-m", "tool", "x", cwd=tmp_path)
    assert done.returncode == 0


def test_the_report_can_be_drawn_again_and_is_the_same(tmp_path: Path) -> None:
    _, report = run_script("raise KeyError('a')\n", tmp_path)
    again = triage("report", "--format", "json", cwd=tmp_path)
    assert json.loads(again.stdout) == report
    assert triage("report", cwd=tmp_path).stdout == triage("report", cwd=tmp_path).stdout
    assert "KeyError" in triage("report", "--format", "md", cwd=tmp_path).stdout


def test_after_a_kill_there_is_a_report_and_resume_goes_on(tmp_path: Path) -> None:
    (tmp_path / "kernel.py").write_text("import time\nprint('begun', flush=True)\ntime.sleep(4)\n", encoding="utf-8")
    running = subprocess.Popen(
        [sys.executable, "-m", "triage", "run", "kernel.py"], cwd=tmp_path, env=ENV, stdout=subprocess.PIPE
    )
    wait_for(lambda: any((tmp_path / ".triage").glob("*/steps/1/events-*.jsonl")))
    running.send_signal(signal.SIGKILL)
    running.wait()
    shown = triage("report", cwd=tmp_path)
    assert shown.returncode == 0 and "was stopped while the step" in " ".join(shown.stdout.split())
    resumed = triage("resume", cwd=tmp_path)
    assert resumed.returncode == 0
    assert "built no kernel" in resumed.stdout


def wait_for(condition: Any, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.05)


def test_a_changed_script_is_not_resumed(tmp_path: Path) -> None:
    run_script("print(1)\n", tmp_path)
    (tmp_path / "kernel.py").write_text("print(2)\n", encoding="utf-8")
    done = triage("resume", cwd=tmp_path)
    assert done.returncode == 2 and "has changed" in done.stderr


def test_a_case_from_elsewhere_is_not_resumed_unasked(tmp_path: Path) -> None:
    run_script("print(1)\n", tmp_path)
    case = next((tmp_path / ".triage").glob("*-1"))
    case.rename(case.with_name("moved"))
    done = triage("resume", str(case.with_name("moved")), cwd=tmp_path)
    assert done.returncode == 2 and "comes from elsewhere" in done.stderr
    assert triage("resume", str(case.with_name("moved")), "--yes", cwd=tmp_path).returncode == 0


def test_cases_keep_out_of_git_and_can_be_cleaned(tmp_path: Path) -> None:
    run_script("print(1)\n", tmp_path)
    assert (tmp_path / ".triage" / ".gitignore").read_text() == "*\n"
    assert triage("clean", cwd=tmp_path).stdout == "removed 1 case\n"


def test_a_file_beside_the_script_is_not_imported_by_triage(tmp_path: Path) -> None:
    (tmp_path / "regex.py").write_text("raise RuntimeError('imported a file of the subject')\n")
    (tmp_path / "json.py").write_text("raise RuntimeError('imported a file of the subject')\n")
    done = triage("explain", "TLG014", cwd=tmp_path)
    assert done.returncode == 0


def test_a_removed_or_unwritable_working_directory_still_gives_a_report(tmp_path: Path) -> None:
    (tmp_path / "kernel.py").write_text(
        "import shutil\nshutil.rmtree('.triage')\nraise KeyError('a')\n", encoding="utf-8"
    )
    done = triage("run", "kernel.py", "--json", "report.json", cwd=tmp_path)
    assert done.returncode in (1, 3)  # the events went with the folder, the streams may have
    assert json.loads((tmp_path / "report.json").read_text())["verdict"]["state"] != "healthy"
    (tmp_path / "file").mkdir()
    (tmp_path / "file" / ".triage").write_text("in the way")
    done = triage("run", "../kernel.py", cwd=tmp_path / "file")
    assert done.returncode in (1, 3) and "REPORT" in done.stdout


def test_what_is_no_interpreter_is_a_fault_of_the_environment(tmp_path: Path) -> None:
    status, report = run_script("print(1)\n", tmp_path, "--python", "/bin/cat")
    assert (status, report["verdict"]["category"]) == (1, "environment")


def test_a_request_to_stop_writes_what_is_known(tmp_path: Path) -> None:
    (tmp_path / "kernel.py").write_text("import time\ntime.sleep(60)\n", encoding="utf-8")
    running = subprocess.Popen(
        [sys.executable, "-m", "triage", "run", "kernel.py", "--json", "report.json"],
        cwd=tmp_path, env=ENV, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    wait_for(lambda: any((tmp_path / ".triage").glob("*/steps/1/events-*.jsonl")))
    running.send_signal(signal.SIGTERM)
    running.communicate(timeout=60)
    verdict = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))["verdict"]
    assert running.returncode == 130
    assert "was stopped while the step 'observe' was running" in verdict["summary"]


def test_another_graph_is_walked_and_a_broken_one_refused(tmp_path: Path) -> None:
    text = (ROOT / "rules" / "graph.toml").read_text(encoding="utf-8")
    (tmp_path / "short.toml").write_text(text.replace('then = "twin",      needs = ["tilelang"]}', 'then = "report",    needs = ["tilelang"]}'))  # fmt: skip
    _, report = run_script("print(1)\n", tmp_path, "--graph", "short.toml")
    assert [s["node"] for s in report["walk"]] == ["observe", "static", "lower"]
    (tmp_path / "broken.toml").write_text(text.replace('then = "static"', 'then = "nowhere"'))
    done = triage("run", "kernel.py", "--graph", "broken.toml", cwd=tmp_path)
    assert done.returncode == 2 and "nowhere" in done.stderr


@pytest.mark.parametrize("name", ["run.log", "./out/run", "/nowhere/of/x"])
def test_explain_takes_no_name_of_a_missing_file_for_a_text(tmp_path: Path, name: str) -> None:
    done = triage("explain", name, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"there is no file {name}" in done.stderr


def test_explain_reads_text_and_says_when_nothing_fits(tmp_path: Path) -> None:
    done = triage("explain", "-", cwd=tmp_path, stdin="Check failed: (has_best) is false: no available layout found")
    assert done.returncode == 0 and "TLG001" in done.stdout
    assert triage("explain", "the weather is fine", cwd=tmp_path).returncode == 3
    assert triage("explain", "TLG999", cwd=tmp_path).returncode == 3


def test_the_shipped_rules_and_graph_pass_their_checks(tmp_path: Path) -> None:
    assert triage("rules", "check", cwd=tmp_path).returncode == 0
    assert triage("graph", "--format", "svg", cwd=tmp_path).stdout.startswith("<svg")


def test_one_step_can_be_run_again_alone_and_the_case_stays_as_it_is(tmp_path: Path) -> None:
    _, report = run_script("raise KeyError('a')\n", tmp_path)
    case = next((tmp_path / ".triage").glob("*-1"))
    log = (case / "case.jsonl").read_bytes()
    ran = [step for step in report["walk"] if step["status"] == "ran"]
    assert len(ran) >= 2
    for step in ran:
        assert step["command"].endswith(f"--step {step['number']}")
        done = triage(*step["command"].split()[1:], cwd=tmp_path)
        assert done.stdout.startswith(f"step {step['number']}: {step['node']} ({step['tool']})")
    assert "KeyError" in done.stdout and done.returncode == 3
    assert (case / "case.jsonl").read_bytes() == log


def test_a_step_that_was_not_run_cannot_be_run_again(tmp_path: Path) -> None:
    run_script("print(1)\n", tmp_path)
    done = triage("resume", "--step", "99", cwd=tmp_path)
    assert done.returncode == 2 and "has no step 99 that was run; those that were: 1" in done.stderr
