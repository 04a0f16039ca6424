"""Reading a text to be explained: bounded, in whatever encoding it was written, and no binary. Thin I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import BinaryIO

from triage.knowledge.decoding import decode

#: Bytes that are read from each end: an error stands at the end of a log, or near its beginning.
END = 8 << 20
#: Characters by which a binary is told, and the share of stray ones among them that no text has.
HEAD, STRANGE = 8192, 0.1
#: Control characters that logs have: tabs, line feeds, carriage returns, escapes, form feeds, backspaces.
USUAL = "\t\n\r\x1b\x0c\x08\x07"


class BinaryError(ValueError):
    """The bytes are no text; the message says so."""


@dataclass(frozen=True)
class Material:
    """The text of both ends, and the bytes between them that were left out."""

    text: str
    left_out: int = 0


def read_material(stream: BinaryIO) -> Material:
    """Read a stream to its end, keeping `END` bytes of each end. Raises `BinaryError`, `OSError`."""
    first = stream.read(END)
    kept, left_out = bytearray(), 0
    while piece := stream.read(1 << 20):
        kept += piece
        if len(kept) > 2 * END:
            left_out += len(kept) - END
            del kept[:-END]
    if len(kept) > END:
        left_out += len(kept) - END
        del kept[:-END]
    if left_out:
        text = f"{decode(first)}\n{decode(bytes(kept))}"
    else:
        text = decode(first + bytes(kept))
    _refuse_binary(text[:HEAD])
    return Material(text, left_out)


def _refuse_binary(head: str) -> None:
    strange = sum(letter == "\ufffd" or (letter < " " and letter not in USUAL) for letter in head)
    if strange > STRANGE * len(head):
        raise BinaryError("is binary, not a text")
