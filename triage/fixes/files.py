"""The user's files as they are on disk: read with their encoding, and written back only if nobody changed them meanwhile."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import tempfile
import tokenize
from dataclasses import dataclass
from pathlib import Path


class FileChangedError(Exception):
    """A file is not what it was when the fix was tried, or cannot be written; the message says which and why."""


@dataclass(frozen=True)
class UserFile:
    """A Python file: its text with its own line ends, how it is encoded, and the SHA-256 of its bytes."""

    path: str
    text: str
    encoding: str
    sha256: str


def read(path: str) -> UserFile | None:
    """None for a file that cannot be read or decoded as Python would."""
    try:
        data = Path(path).read_bytes()
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        return UserFile(path, data.decode(encoding), encoding, hashlib.sha256(data).hexdigest())
    except (OSError, SyntaxError, UnicodeDecodeError, LookupError):
        return None


def unchanged(path: str, sha256: str) -> bool:
    """Whether a file still holds what has this SHA-256."""
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest() == sha256
    except OSError:
        return False


def replace_all(files: list[tuple[str, str, bytes]]) -> None:
    """Write files in place: each a path, the SHA-256 that it must still have, and its new content. Modes are kept.

    Raises `FileChangedError` before anything is written if one of them changed.
    """
    changed = [path for path, before, _ in files if not unchanged(path, before)]
    if changed:
        raise FileChangedError(f"{', '.join(changed)} changed since the fix was tried")
    for path, _, content in files:
        _replace(Path(os.path.realpath(path)), content)


def _replace(path: Path, content: bytes) -> None:
    """Whole or not at all."""
    try:
        number, partial = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with os.fdopen(number, "wb") as file:
            file.write(content)
        shutil.copymode(path, partial)
        os.replace(partial, path)
    except OSError as error:
        raise FileChangedError(f"{path} cannot be written: {error.strerror}") from None
