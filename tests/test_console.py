"""Standard streams that are closed, full or read no more: nobody's bug, so no command may call it one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from triage import console

ROOT = Path(__file__).resolve().parent.parent
FULL = Path("/dev/full")
COMMANDS = ("explain TLG014", "explain --json TLG014", "rules list", "explain 'no such words'")


def shell(line: str, cwd: Path) -> tuple[int, str, str]:
    """Run a line of bash in which `triage` is the program; the status of the program, standard output and error."""
    script = f'triage() {{ "{sys.executable}" -m triage "$@"; }}\n{line}\nexit ${{PIPESTATUS[0]}}\n'
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(["bash", "-c", script], cwd=cwd, env=env, capture_output=True, text=True, timeout=120)
    assert "Traceback" not in done.stderr and "Exception ignored" not in done.stderr and "a bug" not in done.stderr
    return done.returncode, done.stdout, done.stderr


@pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")
@pytest.mark.parametrize("command", COMMANDS)
def test_a_full_disk_is_told_and_is_no_bug(command: str, tmp_path: Path) -> None:
    status, _, said = shell(f"triage {command} > /dev/full", tmp_path)
    assert status == console.USAGE and "the output cannot be written: No space left on device" in said


@pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")
def test_the_verdict_stands_where_the_report_cannot_be_shown(tmp_path: Path) -> None:
    (tmp_path / "kernel.py").write_text("raise KeyError('a')\n")
    status, _, said = shell("triage run kernel.py > /dev/full", tmp_path)
    assert status == console.UNKNOWN and "the report cannot be shown (No space left on device)" in said
    status, out, _ = shell("triage run --json - kernel.py 2> /dev/full", tmp_path)
    assert status == console.UNKNOWN and out.rstrip().endswith("}")


@pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")
def test_what_cannot_be_said_leaves_the_exit_status_as_it_is(tmp_path: Path) -> None:
    assert shell("triage explain TLG999 2> /dev/full", tmp_path)[0] == console.UNKNOWN
    assert shell("triage explain 2> /dev/full", tmp_path)[0] == console.USAGE


@pytest.mark.parametrize("command", COMMANDS)
def test_a_reader_who_has_seen_enough_ends_the_command_quietly(command: str, tmp_path: Path) -> None:
    status, _, said = shell(f"triage {command} | true", tmp_path)
    # the text of no known error ends in its own status where the page was written before the reader left
    assert status in (console.HEALTHY, console.UNKNOWN) and "cannot" not in said


def test_closed_streams_are_no_bug(tmp_path: Path) -> None:
    assert shell("triage explain TLG014 >&-", tmp_path)[0] == console.HEALTHY
    assert shell("triage explain TLG999 2>&-", tmp_path)[0] == console.UNKNOWN
    status, _, said = shell("triage explain - <&-", tmp_path)
    assert status == console.USAGE and "there is no text to explain" in said


@pytest.mark.parametrize(
    ("foreign", "shown"),
    [
        ("red \x1b[31mtext\x07", r"red \x1b[31mtext\x07"),
        ("over\rwritten \u202etxt", r"over\x0dwritten \u202etxt"),
        ("::error::stop\n", "\\::error::stop\n"),
        (" ##[command]x", r" ##\[command]x"),
    ],
)
def test_foreign_text_is_shown_and_not_obeyed(
    foreign: str, shown: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    console.show(foreign)
    assert capsys.readouterr().out == shown
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    console.show(foreign, {"e": "bold red"})
    assert capsys.readouterr().out.replace("\x1b[1;31m", "").replace("\x1b[0m", "") == shown
    console.say(f"x\n{foreign}")
    assert capsys.readouterr().err == f"triage: x\n{shown}\n"
