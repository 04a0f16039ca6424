"""Making foreign text safe to show: it may be looked at, never obeyed.

Kernel names, log lines and paths come from the subject. A terminal would obey escape sequences in them, a CI system
workflow commands, and a reader would be misled by characters that reorder a line.
"""

from __future__ import annotations

import re
import unicodedata

TAB = 4
#: stands for a blank that must not end a line; foreign text cannot hold it once it is `visible` (it is of category Co)
GLUE = "\ue000"

#: shown as escapes although they are not of category C: separators that break lines behind our back
_BREAKS = "\u0085\u2028\u2029"
_LIST = re.compile(r"[-*•] |\d+[.)] ")
_SGR = re.compile(r"\x1b\[[0-9;]*m")

#: stand-ins where the output encoding has only ASCII
_ASCII = str.maketrans(
    {"│": "|", "▶": ">", "·": "-", "…": "...", "✗": "x", "✓": "+", "?": "?", "•": "*", "–": "-", "—": "-"}
)


def visible(text: str) -> str:
    """`text` with every control, format and unassigned character written as an escape; newlines stay, tabs expand."""
    if text.isascii() and text.isprintable():
        return text
    return "\n".join(_visible_line(line) for line in re.split(r"\r\n|\n", text))


def one_line(text: str) -> str:
    """`visible` text on one line, runs of white space being one blank."""
    return visible(" ".join(text.split()))


def paragraphs(text: str) -> list[str]:
    """Prose that was wrapped for a file, as one `visible` line a paragraph; indented lines and lists stay as they are."""
    found: list[str] = []
    joining = False
    for line in visible(text).split("\n"):
        body = line.strip()
        own = line[:1].isspace() or _LIST.match(line) is not None
        if joining and body and not own:
            found[-1] += " " + body
        elif body:
            found.append(line.rstrip())
        joining = bool(body) and not line[:1].isspace()
    return found


def _visible_line(line: str) -> str:
    out: list[str] = []
    column = 0
    for char in line:
        piece = " " * (TAB - column % TAB) if char == "\t" else _visible_char(char)
        out.append(piece)
        column += len(piece)
    return "".join(out)


def _visible_char(char: str) -> str:
    if char not in _BREAKS and not unicodedata.category(char).startswith("C"):
        return char
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def defuse(output: str) -> str:
    """Finished output without workflow commands: `::` opening a line and `##[` anywhere get a backslash.

    CI systems read the standard output of their steps for these, after trimming each line.
    """
    lines = [_defuse_line(line) for line in output.replace("##[", "##\\[").split("\n")]
    return "\n".join(lines)


def _defuse_line(line: str) -> str:
    if not _SGR.sub("", line).lstrip().startswith("::"):
        return line
    at = line.index("::")
    return line[:at] + "\\" + line[at:]


def encodable(output: str, encoding: str) -> str:
    """`output` as the stream can take it: unchanged if it can, else with ASCII stand-ins and escapes."""
    try:
        output.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        plain = output.translate(_ASCII)
        return plain.encode("ascii", "backslashreplace").decode("ascii")
    return output
