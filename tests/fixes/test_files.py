"""Fixes written into the user's files: whole or not at all, with mode, encoding and line ends as they were."""

from __future__ import annotations

import hashlib

import pytest

from triage.fixes.files import FileChangedError, read, replace_all


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize(
    "data",
    [
        b"a = 1\r\nb = 2\r\n",
        b"\xef\xbb\xbfa = 1\n",
        "# -*- coding: latin-1 -*-\na = '\u00e9'\n".encode("latin-1"),
        b"a = 1",
    ],
    ids=["crlf", "mark", "latin-1", "no-end"],
)
def test_a_file_comes_back_as_it_was(tmp_path, data):
    path = tmp_path / "k.py"
    path.write_bytes(data)
    file = read(str(path))
    assert file is not None
    assert (file.text.encode(file.encoding), file.sha256) == (data, digest(data))


@pytest.mark.parametrize("data", [b"\xff\xfe\x00", b"# coding: no-such\n"])
def test_a_file_that_python_cannot_decode_is_not_read(tmp_path, data):
    path = tmp_path / "k.py"
    path.write_bytes(data)
    assert read(str(path)) is None


def test_mode_and_link_stay(tmp_path):
    path, link = tmp_path / "k.py", tmp_path / "link.py"
    path.write_bytes(b"old")
    path.chmod(0o750)
    link.symlink_to(path)
    replace_all([(str(link), digest(b"old"), b"new")])
    assert (path.read_bytes(), path.stat().st_mode & 0o777, link.is_symlink()) == (b"new", 0o750, True)


def test_nothing_is_written_if_one_of_the_files_changed(tmp_path):
    one, other = tmp_path / "one.py", tmp_path / "other.py"
    one.write_bytes(b"one")
    other.write_bytes(b"changed")
    with pytest.raises(FileChangedError, match=r"other\.py changed"):
        replace_all([(str(one), digest(b"one"), b"new"), (str(other), digest(b"other"), b"new")])
    assert one.read_bytes() == b"one"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.py", "other.py"]
