"""`tilelang.autodd`, the reducer that comes with tilelang, driven by triage's oracle.

autodd runs each of its candidates as `python3 FILE` and looks for a text in what that prints. Here the `python3` it finds is
a few lines that ask triage; triage runs the candidate as any other and says whether it shows the same
fault, and only then is the text printed. So autodd proposes, and cannot slip.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import socket
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from triage.experiment import process
from triage.experiment.minimal import OutOfBudget
from triage.experiment.reduce import Found

#: what autodd looks for
SAME = "triage: the same fault"
#: of the shim, which must start fast and needs nothing but the standard library
ASK = """
import socket, sys
with socket.socket(socket.AF_UNIX) as way:
    way.connect(sys.argv[1])
    way.sendall(sys.argv[2].encode() + b"\\n")
    sys.stdout.write(way.makefile().read())
"""
#: after so many seconds without a question, see whether autodd has ended
QUIET = 0.2


class NotInstalledError(Exception):
    """The reducer does not run in that interpreter; the message says why."""


def reduce(
    source: str, first: Callable[[Iterable[str]], Found | None], keep: Callable[[str], None], *, python: str
) -> tuple[str, bool]:
    """The smallest text that autodd came to, and whether it ended by itself.

    `first` says whether a text shows the fault, and raises `OutOfBudget` when the time is over. Raises `NotInstalledError`.
    """
    best = source
    with tempfile.TemporaryDirectory(prefix="triage-autodd-") as name, socket.socket(socket.AF_UNIX) as door:
        folder = Path(name)
        door.bind(str(folder / "door"))
        door.listen(16)
        door.settimeout(QUIET)

        def answer(seconds: float) -> None:
            """Answer as long as questions come; without one, see to the time."""
            nonlocal best
            first([])  # which raises `OutOfBudget`
            with contextlib.suppress(TimeoutError):
                while True:
                    way, _ = door.accept()
                    with way:
                        text = _asked(way)
                        same = text is not None and (text == source or first([text]) is not None)
                        way.sendall(SAME.encode() if same else b"")
                    if same and text is not None and len(text) < len(best):
                        best = text
                        keep(best)

        try:
            ended = _run(source, folder, python, answer)
        except OutOfBudget:
            return best, False
        if best == source and ended.code != 0:
            raise NotInstalledError(f"python -m tilelang.autodd does not run: {ended.error or _last_line(folder)}")
    return best, True


def _run(source: str, folder: Path, python: str, answer: Callable[[float], None]) -> process.Exit:
    """Run autodd, and answer meanwhile."""
    (folder / "source.py").write_text(source, encoding="utf-8")
    (folder / "ask.py").write_text(ASK, encoding="utf-8")
    shim = folder / "bin" / "python3"
    shim.parent.mkdir()
    words = [sys.executable, "-I", "-S", str(folder / "ask.py"), str(folder / "door")]
    shim.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$1"\n', encoding="utf-8")
    shim.chmod(0o700)
    command = [python, "-m", "tilelang.autodd", "source.py", "--err-msg", SAME, "--backend", "subproc"]
    path = f"{shim.parent}{os.pathsep}{os.environ.get('PATH', '')}"
    return process.run_command(
        [*command, "-o", "reduced.py"], folder / "autodd", cwd=folder, env={"PATH": path}, tick=answer
    )


def _asked(way: socket.socket) -> str | None:
    """The text of the file that the shim was called with."""
    path = way.makefile().readline().rstrip("\n")
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def _last_line(folder: Path) -> str:
    said = (folder / "autodd" / "stderr").read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return said[-1] if said else "it said nothing"
