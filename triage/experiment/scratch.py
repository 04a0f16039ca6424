"""The working directory of a candidate: a copy of the user's, because changed code may write anywhere in it."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

#: a folder with more than this is copied in part, the shallow files first
FILES = 200
BYTES = 8 << 20


@dataclass(frozen=True)
class Scratch:
    """The files of a folder that every candidate gets a copy of, and how many there were no room for."""

    root: Path
    files: tuple[Path, ...]
    left_out: int = 0

    @staticmethod
    def of(root: Path, without: Collection[Path]) -> Scratch:
        """Look through a folder; hidden entries, links, caches and the paths of `without` are not the program's data."""
        found: list[Path] = []
        size = left_out = looked_at = 0
        level = [root]
        while level and looked_at <= 10 * FILES:  # somebody's home directory is not read to its end
            below: list[Path] = []
            for folder in level:
                for entry in _entries(folder):
                    looked_at += 1
                    path = Path(entry.path)
                    if entry.name.startswith(".") or entry.name == "__pycache__" or path in without:
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        below.append(path)
                    elif entry.is_file(follow_symlinks=False):
                        length = entry.stat().st_size
                        if len(found) < FILES and size + length <= BYTES:
                            found.append(path)
                            size += length
                        else:
                            left_out += 1
            level = below
        return Scratch(root, tuple(found), left_out)

    def make(self, folder: Path) -> None:
        """Copy the files below `folder`; one that has gone meanwhile is passed over."""
        folder.mkdir(parents=True)
        for path in self.files:
            copy = folder / path.relative_to(self.root)
            with contextlib.suppress(OSError):
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, copy)


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return []
