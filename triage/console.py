"""What all commands share: their exit statuses, and how they write to standard output.

Exit status: 0 healthy, 1 a fault was found, 2 bad usage, 3 a fault that stays unknown, 4 triage itself failed.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence

HEALTHY, FAULT, USAGE, UNKNOWN, BROKEN, INTERRUPTED = 0, 1, 2, 3, 4, 130


def show(page: str, headings: Sequence[str]) -> None:
    """Write a page, on a terminal with its headings and marks set off."""
    if not colored():
        from triage.report.text import encodable

        sys.stdout.write(encodable(page, sys.stdout.encoding or "utf-8"))
        return
    from rich.console import Console
    from rich.text import Text

    text = Text(page)
    text.highlight_regex(rf"(?m)^(?:{'|'.join(map(re.escape, headings))})$", "bold")
    text.highlight_regex(r"(?m)^ *\^+$", "bold red")
    text.highlight_regex(r"\bTL[GCPIE]\d{3}\b", "cyan")
    Console(soft_wrap=True).print(text, end="")


def colored() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")
