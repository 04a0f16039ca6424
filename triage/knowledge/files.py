"""Where the rule files lie. Imports next to nothing: `triage explain CODE` must answer at once."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tomli  # unlike tomllib it tells the line, and compiled it is three times as fast: rules are read at every start

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


class KnowledgeError(ValueError):
    """Something in the rules folder cannot be used; the message names the file, the line where there is one, and why."""

    advice = "`triage rules check` says all that is wrong with the rules and their tables"


class NoRulesError(KnowledgeError):
    """There is no rules folder."""

    advice = "install triage again"


class FileError(KnowledgeError):
    """A file that cannot be read as what it should be: `why`, and at which `line`, counted from 1, if that can be said."""

    def __init__(self, path: Path, line: int | None, why: str) -> None:
        super().__init__(f"{path}:{line}: {why}" if line else f"{path}: {why}")
        self.line, self.why = line, why


def rules_root() -> Path:
    """The `rules/` folder: inside the installed package, or at the top of a checkout."""
    package = Path(__file__).resolve().parent.parent
    installed = package / "_rules"
    return installed if installed.is_dir() else package.parent / "rules"


def require(root: Path) -> None:
    """Raises `NoRulesError` where there is no rules folder at `root`."""
    if not root.is_dir():
        raise NoRulesError(f"there is no rules folder at {root}")


def rule_files(root: Path) -> list[Path]:
    """The rule files below `root`, in the order of their codes. Raises `NoRulesError`."""
    require(root)
    found = [path for category in CATEGORY_LETTERS for path in (root / category).glob("*.toml")]
    return sorted(found, key=lambda path: path.name)


def file_of(code: str, root: Path) -> Path | None:
    """The file of one code; None if it is no code or has no file."""
    if not CODE.fullmatch(code):
        return None
    category = next(name for name, letter in CATEGORY_LETTERS.items() if letter == code[2])
    return next(iter(sorted((root / category).glob(f"{code}-*.toml"))), None)


def read_table(path: Path) -> dict[str, Any]:
    """A TOML file as plain data. Raises `FileError`."""
    return parse(read_text(path), path)


def read_text(path: Path) -> str:
    """The text of a file, its line ends as they are. Raises `FileError`."""
    try:
        return path.read_bytes().decode("utf-8")
    except OSError as error:
        raise FileError(path, None, f"cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise FileError(path, line, f"not UTF-8: byte {error.object[error.start]:#04x}, {error.reason}") from None


def parse(text: str, path: Path) -> dict[str, Any]:
    """The data of a TOML text, which stands in the file `path`. Raises `FileError`."""
    try:
        return tomli.loads(text)
    except tomli.TOMLDecodeError as error:
        raise FileError(path, error.lineno, f"not TOML: {error}") from None
    except RecursionError:
        raise FileError(path, None, "cannot be read: nested too deep") from None


@contextmanager
def taken_apart(path: Path, line: int | None = None) -> Iterator[None]:
    """Makes what fails while the data of a file are taken apart a `FileError`: a missing key, a value of another type."""
    try:
        yield
    except KnowledgeError:
        raise
    except KeyError as error:
        raise FileError(path, line, f"the key {error} is missing") from None
    except re.error as error:
        raise FileError(path, line, f"{error.pattern!r} is no regular expression: {error}") from None
    except (ValueError, TypeError, AttributeError) as error:
        raise FileError(path, line, str(error)) from None
