"""What other libraries call a thing that tilelang calls otherwise, read from `rules/reference/nicknames.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

SCHEMA = "triage.nicknames/1"


class NicknameTableError(ValueError):
    """The table is not readable; the message names the file and what is wrong in it."""


@dataclass(frozen=True)
class Nicknames:
    """By a word in lower case the names that it may stand for: of data types, and of keywords."""

    dtypes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    keywords: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def of_dtype(self, word: str) -> tuple[str, ...]:
        """The data types that a word may stand for; none where it stands for none, or is the name of one."""
        return self.dtypes.get(word.lower().removesuffix("_t"), ())

    def of_keyword(self, word: str) -> tuple[str, ...]:
        return self.keywords.get(word.lower(), ())


def load_nicknames(path: Path) -> Nicknames:
    """Read the table. Raises `NicknameTableError`."""
    try:
        table = tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise NicknameTableError(f"{path}: {error}") from error
    if table.get("schema") != SCHEMA:
        raise NicknameTableError(f"{path}: schema is {table.get('schema')!r}, not {SCHEMA!r}")
    return Nicknames(_words(path, table, "dtypes"), _words(path, table, "keywords"))


def _words(path: Path, table: Mapping[str, object], name: str) -> Mapping[str, tuple[str, ...]]:
    words = table.get(name, {})
    if not isinstance(words, dict) or not all(
        isinstance(names, list) and names and all(isinstance(n, str) for n in names) for names in words.values()
    ):
        raise NicknameTableError(f"{path}: [{name}] maps a word to a list of names")
    return {word: tuple(names) for word, names in words.items()}
