"""What all commands share: their exit statuses, and how they write to the standard streams.

Exit status: 0 healthy, 1 a fault was found, 2 bad usage, 3 a fault that stays unknown, 4 triage itself failed.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Mapping
from typing import TextIO

HEALTHY, FAULT, USAGE, UNKNOWN, BROKEN, INTERRUPTED = 0, 1, 2, 3, 4, 130
#: Why a stream or a file takes no more, which is nobody's bug: no room on the device or for the user, or the terminal is gone.
NOT_TAKEN = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})


def replace_closed_streams() -> None:
    """Give the process the standard streams that it was started without, so that nobody has to ask for each."""
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115 - as long as the process
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - as long as the process


def discard(stream: TextIO) -> None:
    """Send what a standard stream still holds, and all to come, nowhere: it cannot be written, and its end must not fail."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def say(text: str) -> None:
    """Say something on standard error; where that cannot be written, the exit status has to do."""
    from triage.report.text import defuse, encodable, visible

    try:
        print(encodable(defuse(f"triage: {visible(text)}"), sys.stderr.encoding or "utf-8"), file=sys.stderr)
    except OSError:
        discard(sys.stderr)


def show(page: str, styles: Mapping[str, str] | None = None) -> None:
    """Write a page to standard output, on a terminal with what the expressions of `styles` match set off.

    A page may hold the words of a log or of a rule: a terminal or a CI system must show them, not obey them.
    """
    from triage.report.text import defuse, encodable, visible

    safe = encodable(defuse(visible(page)), sys.stdout.encoding or "utf-8")
    if not styles or not _colored():
        sys.stdout.write(safe)
        return
    from rich.console import Console
    from rich.text import Text

    text = Text(safe)
    for expression, style in styles.items():
        text.highlight_regex(expression, style)
    Console(soft_wrap=True).print(text, end="")


def _colored() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")
