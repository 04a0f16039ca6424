"""One-line errors of programs around the script: pip, the interpreter's own start, the shell."""

from __future__ import annotations

import re

from triage.model import ErrorRecord
from triage.readers.lines import Line, quote

_PATTERNS: tuple[tuple[str, str, re.Pattern[str]], ...] = (
    ("check", "pip", re.compile(r"ERROR: (?P<message>(?:No matching distribution found|Invalid wheel filename|Invalid requirement|Could not (?:find|install|build|open)|Failed (?:to|building)|Cannot install|ResolutionImpossible|Ignored the following|Package .* requires a different Python|THESE PACKAGES|pip's dependency resolver).*)")),
    ("check", "pip", re.compile(r"error: (?P<message>(?:subprocess-exited-with-error|metadata-generation-failed|externally-managed-environment|legacy-install-failure).*)")),
    ("check", "uv", re.compile(r"\s*[×x] (?P<message>No solution found when resolving dependencies.*)")),
    ("exception", "ModuleNotFoundError", re.compile(r"\S*python[\d.]*(?:\.exe)?: (?P<message>(?:Error while finding module specification for .*|No module named \S+.*))")),
    ("exception", "FileNotFoundError", re.compile(r"\S*python[\d.]*(?:\.exe)?: (?P<message>can't open file .*)")),
    ("check", "pip", re.compile(r"WARNING: (?P<message>Requirement '.*' looks like a filename, but the file does not exist)")),
    ("check", "cmake", re.compile(r"CMake Error(?: at (?P<place>\S+))?.*?: ?(?P<message>.*)")),
    ("check", "cmake", re.compile(r"\s*(?P<message>Could (?:NOT|not) find (?:a package configuration file provided by )?\S+.*)")),
    ("check", "command not found", re.compile(r"(?:\S+: )?(?:line )?(?:\d+: )?(?P<message>[\w./+-]+: (?:command )?not found)$")),
    ("check", "device assertion", re.compile(r"\S*:\d+: .*: block: \[[\d, ]+\], thread: \[[\d, ]+\] (?P<message>Assertion .* failed\.?)")),
    ("check", "dynamic linker", re.compile(r"\S+: (?P<message>(?:error while loading shared libraries: .*|symbol lookup error: .*))")),
)  # fmt: skip
_HINT = re.compile(
    "ERROR: |error: |WARNING: Requirement|CMake Error|Could (?:NOT|not) find |Assertion |No solution|No module named|can't open file|not found|shared libraries|symbol lookup"
    "|module specification"
)


def read_tool_line(line: Line, artifact: str | None) -> ErrorRecord | None:
    if _HINT.search(line.view) is None:
        return None
    for kind, name, pattern in _PATTERNS:
        match = pattern.match(line.view)
        if match is not None:
            return ErrorRecord(kind=kind, type=name, message=match["message"], quote=quote(line, artifact))
    return None
