"""Copies of the working directory: lent again only where nothing in them changed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from triage.experiment.scratch import Copies, Scratch


def copies_of(root: Path, directory: Path) -> Copies:
    (root / "data").mkdir(parents=True)
    (root / "data" / "table.txt").write_text("1 2 3")
    (root / "run.sh").write_text("true")
    directory.mkdir()
    return Copies(Scratch.of(root, ()), directory)


def test_a_copy_that_nobody_changed_is_lent_again(tmp_path: Path) -> None:
    copies = copies_of(tmp_path / "home", tmp_path / "runs")
    copies.lend(tmp_path / "first")
    inode = (tmp_path / "first" / "run.sh").stat().st_ino
    copies.take_back(tmp_path / "first")
    copies.lend(tmp_path / "second")
    assert not (tmp_path / "first").exists()
    assert (tmp_path / "second" / "run.sh").stat().st_ino == inode
    assert (tmp_path / "second" / "data" / "table.txt").read_text() == "1 2 3"


def rewrite(folder: Path) -> None:
    file = folder / "run.sh"
    times = file.stat()
    file.write_text("fals")  # as long as it was, and with its old times
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))


CHANGES: dict[str, Callable[[Path], None]] = {
    "rewritten": rewrite,
    "added": lambda folder: (folder / "new.txt").write_text("") and None,
    "removed": lambda folder: (folder / "run.sh").unlink(),
    "folder": lambda folder: (folder / "empty").mkdir(),
    "mode": lambda folder: (folder / "data").chmod(0o700),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_copy_is_not(tmp_path: Path, change: str) -> None:
    copies = copies_of(tmp_path / "home", tmp_path / "runs")
    (tmp_path / "home" / "data").chmod(0o755)
    copies.lend(tmp_path / "first")
    CHANGES[change](tmp_path / "first")
    copies.take_back(tmp_path / "first")
    copies.lend(tmp_path / "second")
    names = {path.relative_to(tmp_path / "second").as_posix() for path in (tmp_path / "second").rglob("*")}
    assert names == {"data", "data/table.txt", "run.sh"}
    assert (tmp_path / "second" / "run.sh").read_text() == "true"


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    copies = copies_of(tmp_path / "home", tmp_path / "runs")
    copies.lend(tmp_path / "first")
    copies.take_back(tmp_path / "first")
    copies.close()
    assert not list((tmp_path / "runs").iterdir())
