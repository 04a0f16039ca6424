"""Reading a text to be explained: bounded, in whatever encoding it was written, and no binary. Thin I/O."""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from typing import BinaryIO

#: Bytes that are read from each end: an error stands at the end of a log, or near its beginning.
END = 8 << 20
#: Bytes by which a binary is told, and the share of them that no text has.
HEAD, STRANGE = 8192, 0.1
#: Control characters that logs have: tabs, line feeds, carriage returns, escapes, form feeds, backspaces.
USUAL = b"\t\n\r\x1b\x0c\x08\x07"
#: How files begin that are no UTF-8; a shell of Windows writes such logs.
MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))


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
    encoding = next((name for mark, name in MARKS if first.startswith(mark)), "utf-8")
    if encoding != "utf-16":
        _refuse_binary(first[:HEAD])
    between = b"\n" if left_out and encoding != "utf-16" else b""
    return Material((first + between + bytes(kept)).decode(encoding, "replace"), left_out)


def _refuse_binary(head: bytes) -> None:
    strange = sum(byte < 32 and byte not in USUAL for byte in head)
    undecoded = head.decode("utf-8", "replace").count("\ufffd")
    if head and max(strange, undecoded) > STRANGE * len(head):
        raise BinaryError("is binary, not a text")
