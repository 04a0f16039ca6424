"""The working directory of a candidate: a copy of the user's, because changed code may write anywhere in it."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import stat
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


class Copies:
    """Copies of a folder for candidates, lent again where nobody changed anything in them: most candidates only look."""

    def __init__(self, scratch: Scratch, directory: Path) -> None:
        self.scratch = scratch
        self._directory = directory
        self._numbers = itertools.count()
        self._lent: dict[Path, State] = {}
        self._spare: list[Path] = []

    def lend(self, folder: Path) -> None:
        """Have a copy at `folder`, which does not exist yet."""
        if self._spare:
            self._spare.pop().rename(folder)
        else:
            self.scratch.make(folder)
        self._lent[folder] = _state(folder)

    def take_back(self, folder: Path) -> None:
        """The candidate has ended: keep its copy for another if it is as it was, else remove it."""
        before = self._lent.pop(folder, None)
        if before is None or _state(folder) != before:
            shutil.rmtree(folder, ignore_errors=True)
            return
        spare = self._directory / f"copy-{os.getpid()}-{next(self._numbers)}"
        folder.rename(spare)
        self._spare.append(spare)

    def close(self) -> None:
        for folder in self._spare:
            shutil.rmtree(folder, ignore_errors=True)
        self._spare.clear()


#: of every entry its path below the folder, and of a file what no write leaves as it was
State = frozenset[tuple[str, int, int, int, int]]


def _state(folder: Path) -> State:
    """Changes when anything below the folder does. The time of the last change of an inode cannot be set by a program."""
    found = set()
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = os.path.join(parent, name)
            entry = os.lstat(path)
            plain = stat.S_ISREG(entry.st_mode)
            size, changed = (entry.st_size, entry.st_ctime_ns) if plain else (0, 0)
            found.add((os.path.relpath(path, folder), entry.st_mode, entry.st_ino, size, changed))
    return frozenset(found)


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return []
