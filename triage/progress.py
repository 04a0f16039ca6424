"""One line about what goes on now, for anything over two seconds."""

from __future__ import annotations

import time
from types import TracebackType
from typing import TextIO

#: Nothing is shown before this many seconds: a short run stays silent.
PATIENCE = 2.0
#: On something that is no terminal a line is written at most this often, in seconds.
PERIOD = 10.0


class Progress:
    """Shows `tell` lines: rewritten in place on a terminal, now and then as whole lines elsewhere."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.live = stream.isatty()
        self.began = self.shown = time.monotonic()
        self.dirty = False

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.dirty:
            self.stream.write("\r\x1b[K")
            self.stream.flush()

    def tell(self, line: str) -> None:
        now = time.monotonic()
        if now - self.began < PATIENCE:
            return
        text = "triage: " + "".join(c if c.isprintable() else " " for c in line)[:100]
        if self.live:
            self.stream.write(f"\r\x1b[K{text}")
            self.stream.flush()
            self.dirty = True
        elif now - self.shown >= PERIOD:
            self.shown = now
            self.stream.write(text + "\n")
            self.stream.flush()
