"""The GPUs that a script may use, and a lock for each: two runs never measure, or break, the same one at once.

A GPU is known by its UUID as the driver tells it in `/proc/driver/nvidia`, in the order of the bus; where there is none
(WSL, some containers), by its index. The locks are files in the folder for temporary files, shared by all users.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

DRIVER = Path("/proc/driver/nvidia/gpus")
VISIBLE = "CUDA_VISIBLE_DEVICES"


def visible(environ: Mapping[str, str] = os.environ, driver: Path = DRIVER, devices: Path = Path("/dev")) -> list[str]:
    """The names of the GPUs that a process in this environment sees, each a UUID or `index-N`; none if all are hidden."""
    present = _present(driver, devices)
    asked = environ.get(VISIBLE)
    if asked is None:
        return present or ["index-0"]
    found: list[str] = []
    for word in (part.strip() for part in asked.split(",")):
        if word.isdigit():
            found.append(present[int(word)] if int(word) < len(present) else f"index-{word}")
        elif word.startswith(("GPU-", "MIG-")):  # a beginning that only one has is enough
            found.append(next((name for name in present if name.startswith(word)), word))
        else:  # CUDA, too, reads no further than to the first word that names no device
            break
    return list(dict.fromkeys(found))


def _present(driver: Path, devices: Path) -> list[str]:
    """The UUIDs of the GPUs whose device node is there; a container sees the driver's list, and some of the nodes."""
    found: list[str] = []
    for path in sorted(driver.glob("*/information")):
        with contextlib.suppress(OSError):
            told = dict(
                re.findall(r"^([\w ]+):[ \t]*(\S.*?)[ \t]*$", path.read_text(encoding="utf-8", errors="replace"), re.M)
            )
            minor = told.get("Device Minor")
            if minor is None or (devices / f"nvidia{minor}").exists():
                uuid = told.get("GPU UUID", "")
                found.append(uuid if uuid.startswith("GPU-") and "?" not in uuid else f"index-{len(found)}")
    return found


@contextlib.contextmanager
def held(names: Sequence[str], folder: Path | None = None) -> Iterator[None]:
    """Hold the locks of some GPUs, waiting for who holds them now. All take them in the same order, so none waits for ever."""
    with contextlib.ExitStack() as locks:
        for name in sorted(set(names)):
            file = _lock_file(folder or Path(tempfile.gettempdir()), name)
            if file is not None:
                locks.callback(os.close, file)
                fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _lock_file(folder: Path, name: str) -> int | None:
    """The open lock file of a GPU; None where it can neither be opened nor made, and nothing can be locked.

    It is opened for reading: in a folder for all users the system refuses to write a file that another user made.
    """
    path = folder / f"triage-{re.sub(r'[^A-Za-z0-9.-]', '_', name)}.lock"
    for flags in (os.O_RDONLY, os.O_RDONLY | os.O_CREAT):
        with contextlib.suppress(OSError):
            return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    return None
