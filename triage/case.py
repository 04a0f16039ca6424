"""The case directory: an append-only log of events, blobs by content, and one folder for each step.

Nothing is ever rewritten except `report.*`, which can be drawn again from the log at any time. A kill loses at most a
torn last line.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = ".triage"
LOG = "case.jsonl"


class CaseError(Exception):
    """A case that cannot be used; the message says which and what to do."""


def keep_out_of_git(folder: Path) -> None:
    """Make the folder of cases, with the `.gitignore` that keeps it out of git. Raises `OSError`."""
    folder.mkdir(parents=True, exist_ok=True)
    ignore = folder / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n", encoding="utf-8")


class Case:
    """One case directory. `create` makes a new one, `open` takes one that exists."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, root: Path, name: str) -> Case:
        """Make `root/.triage/<name>-<n>` with the first free n, and the `.gitignore` that keeps cases out of git."""
        parent = root / ROOT
        keep_out_of_git(parent)
        safe = "".join(c if c.isalnum() or c in "._-" else "-" for c in name)[:60].strip(".") or "case"
        for number in range(1, 1_000_000):
            path = parent / f"{safe}-{number}"
            try:
                path.mkdir()
            except FileExistsError:
                continue
            (path / "blobs").mkdir()
            (path / "steps").mkdir()
            return cls(path)
        raise CaseError(f"{parent} holds too many cases; run `triage clean`")

    @classmethod
    def open(cls, path: Path) -> Case:
        """Take an existing case. Raises `CaseError` for a folder that is none."""
        if not (path / LOG).is_file():
            raise CaseError(f"{path} is not a case: it has no {LOG}")
        return cls(path)

    @classmethod
    def latest(cls, root: Path) -> Case:
        """The newest case below `root/.triage`."""
        cases = [p for p in (root / ROOT).glob("*") if (p / LOG).is_file()]
        if not cases:
            raise CaseError(f"there is no case below {root / ROOT}; `triage run kernel.py` makes one")
        return cls(max(cases, key=lambda p: (p / LOG).stat().st_mtime_ns))

    @property
    def blobs(self) -> Path:
        return self.path / "blobs"

    def step_dir(self, number: int) -> Path:
        """The folder of a step, made where it does not exist. A step that is run again gets a folder of its own."""
        path = self.path / "steps" / str(number)
        again = 1
        while path.exists() and any(path.iterdir()):
            again += 1
            path = self.path / "steps" / f"{number}.{again}"
        path.mkdir(parents=True, exist_ok=True)
        return path

    def append(self, event: dict[str, Any]) -> None:
        """Add one event as a whole line, on disk before this returns; a torn line of a killed triage is closed first."""
        self.path.mkdir(parents=True, exist_ok=True)  # the script may have removed it
        line = json.dumps(event, ensure_ascii=True, separators=(",", ":")) + "\n"
        handle = os.open(self.path / LOG, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            size = os.fstat(handle).st_size
            torn = size > 0 and os.pread(handle, 1, size - 1) != b"\n"
            os.write(handle, b"\n" * torn + line.encode("ascii"))
            os.fsync(handle)
        finally:
            os.close(handle)

    def events(self) -> Iterator[dict[str, Any]]:
        """All events so far; a torn line, which a kill leaves behind, is passed over."""
        with open(self.path / LOG, encoding="utf-8", errors="replace") as log:
            for line in log:
                try:
                    event = json.loads(line)
                except ValueError:
                    continue
                if isinstance(event, dict):
                    yield event

    def put(self, data: bytes) -> str:
        """Keep bytes by their SHA-256; the name is returned."""
        digest = hashlib.sha256(data).hexdigest()
        self.blobs.mkdir(parents=True, exist_ok=True)  # the script may have removed it
        path = self.blobs / digest
        if not path.exists():
            partial = path.with_suffix(f".{os.getpid()}")
            partial.write_bytes(data)
            partial.rename(path)
        return digest

    def get(self, digest: str) -> bytes:
        """The bytes of a blob. Raises `CaseError` where it is missing."""
        if not (len(digest) == 64 and all(c in "0123456789abcdef" for c in digest)):
            raise CaseError(f"{digest!r} is not the name of a blob")
        try:
            return (self.blobs / digest).read_bytes()
        except OSError as error:
            raise CaseError(f"{self.path}: blob {digest[:12]}… cannot be read: {error.strerror}") from None


def experiments_folder(root: Path, what: str, asked: object) -> Path:
    """The folder below `root/.triage` for the experiments of one question: the same for the same question, so that a second
    call goes on with the first. Elsewhere, and new every time, where nothing can be written there."""
    name = f"{what}-{hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:12]}"
    parent = root / ROOT
    try:
        keep_out_of_git(parent)
        (parent / name).mkdir(exist_ok=True)
    except OSError:
        return Path(tempfile.mkdtemp(prefix=f"triage-{what}-"))
    return parent / name


def clean(root: Path) -> int:
    """Remove all cases below `root/.triage`; returns how many there were."""
    cases = [p for p in (root / ROOT).glob("*") if (p / LOG).is_file()]
    for path in cases:
        shutil.rmtree(path)
    return len(cases)
