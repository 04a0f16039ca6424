"""Where the rule files lie. Imports next to nothing: `triage explain CODE` must answer at once."""

from __future__ import annotations

import re
from pathlib import Path

CATEGORY_LETTERS = {
    "generation": "G",
    "correctness": "C",
    "performance": "P",
    "intermittent": "I",
    "environment": "E",
}
CODE = re.compile(r"TL([GCPIE])\d{3}")
#: A capture or a field in the texts of a rule: `{k_a}`, `{hazard.limit}`. Other braces are plain text.
PLACEHOLDER = re.compile(r"\{([A-Za-z_][\w.]*)\}")


def rules_root() -> Path:
    """The `rules/` folder: inside the installed package, or at the top of a checkout."""
    package = Path(__file__).resolve().parent.parent
    installed = package / "_rules"
    return installed if installed.is_dir() else package.parent / "rules"


def rule_files(root: Path) -> list[Path]:
    """The rule files below `root`, in the order of their codes."""
    found = [path for category in CATEGORY_LETTERS for path in (root / category).glob("*.toml")]
    return sorted(found, key=lambda path: path.name)


def file_of(code: str, root: Path) -> Path | None:
    """The file of one code; None if it is no code or has no file."""
    if not CODE.fullmatch(code):
        return None
    category = next(name for name, letter in CATEGORY_LETTERS.items() if letter == code[2])
    return next(iter(sorted((root / category).glob(f"{code}-*.toml"))), None)
