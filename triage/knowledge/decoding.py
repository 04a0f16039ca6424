"""Bytes of a log to text, in whatever encodings its writers used. Pure.

A shell of Windows writes UTF-16, and appends it to what others wrote as UTF-8: so a mark of UTF-16 may stand in the middle, and one
at the beginning need not hold to the end. A mark counts only where UTF-16 follows; elsewhere it is two stray bytes.
"""

from __future__ import annotations

import codecs
import re

#: marks of UTF-16, and how what follows is decoded
_MARKS = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_MARK = re.compile(b"\xff\xfe|\xfe\xff")
#: Bytes by which UTF-16 is told; random ones of that number are hardly ever valid UTF-16.
_SEEN = 512
#: So many bytes of plain text in a row are no UTF-16: its ASCII has a NUL in each pair, and other letters hardly ever look so.
_PLAIN = re.compile(rb"[\t\n\r\x20-\x7e]{16}")
#: Shares of NULs among the second (or first) bytes of pairs, and among the others, by which UTF-16 is told without a mark.
_MANY, _FEW = 0.4, 0.05


def decode(data: bytes) -> str:
    """The text; what no encoding explains becomes U+FFFD."""
    encoding = _unmarked(data)
    if encoding is not None:
        return _without_marks(data.decode(encoding, "replace"))
    parts, at = [], 0
    for mark in _MARK.finditer(data):
        encoding = _MARKS[mark[0]]
        if mark.start() < at or not _is_utf_16(data[mark.end() : mark.end() + _SEEN], encoding):
            continue
        plain = _PLAIN.search(data, mark.end())
        end = plain.start() if plain else len(data)
        end += (end - mark.end()) % 2  # of big-endian UTF-16 the last byte looks like plain text
        parts += [_utf_8(data[at : mark.start()]), _without_marks(data[mark.end() : end].decode(encoding, "replace"))]
        at = end
    return "".join([*parts, _utf_8(data[at:])])


def _utf_8(data: bytes) -> str:
    return data.removeprefix(codecs.BOM_UTF8).decode("utf-8", "replace")


def _without_marks(text: str) -> str:
    """Each program that appends begins with a mark of its own."""
    return text.replace("\ufeff", "")


def _is_utf_16(data: bytes, encoding: str) -> bool:
    """Whether the bytes behind a mark are UTF-16 in which a letter, a blank or a line feed of ASCII stands."""
    low = 1 if encoding == "utf-16-le" else 0
    if 0 not in data[low::2]:
        return False
    plain = _PLAIN.search(data)
    seen = data[: (plain.start() if plain else len(data)) // 2 * 2]
    try:
        seen.decode(encoding)
    except UnicodeDecodeError as error:
        if error.end < len(seen):  # else only the last character was cut
            return False
    return 0 in seen[low::2]


def _unmarked(data: bytes) -> str | None:
    """UTF-16 whose mark is missing, as in the end of a long log."""
    seen = data[:_SEEN]
    if len(seen) < 8 or _MARK.search(seen):  # with a mark, the text around it may be anything
        return None
    shares = [part.count(0) / len(part) for part in (seen[0::2], seen[1::2])]
    if max(shares) < _MANY or min(shares) > _FEW:
        return None
    return "utf-16-le" if shares[1] > shares[0] else "utf-16-be"
