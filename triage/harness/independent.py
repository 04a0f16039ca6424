"""What of a script does not depend on what its kernels compute: told by a fork in which results are made up.

The fork begins with the first launch. In it no launch is computed: what it would write counts as made up, so that the virtual device follows what
depends on it, and no comparison with it ends the script. What a launch is given, and what is compared, without being made up, is the same
whatever the kernels do; of that the fork keeps digests.
"""

from __future__ import annotations

import hashlib
import os
import select
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy

from . import record

#: of so many tensors the fork tells that they were compared
MOST_MET = 20_000
SIZE = hashlib.sha256().digest_size
#: how many bytes say which argument of which launch
PLACE = 8
MET, GIVEN = b"m", b"g"


class Fork:
    """In the fork: tells what it meets; `to` is a file that the process it came from reads."""

    def __init__(self, to: int) -> None:
        self._to = to
        self._met = 0

    def meets(self, operand: Any) -> None:
        """A tensor that is not made up is compared with something."""
        self._met += 1
        if self._met <= MOST_MET:
            os.write(self._to, MET + digest(operand))

    def is_given(self, number: int, position: int, value: Any) -> None:
        """A launch is given something that is not made up."""
        os.write(self._to, GIVEN + _place(number, position) + digest_of_argument(value))


class Told:
    """In the process that it came from: what the fork says. `reader` is closed when it ends."""

    def __init__(self, file: int, reader: int, pid: int) -> None:
        self._file, self._reader, self._pid = file, reader, pid
        self._met: set[bytes] = set()
        self._given: set[bytes] = set()
        self._waits = True

    def is_met(self, operand: Any, seconds: float) -> bool:
        """Whether a tensor is compared whatever the kernels compute."""
        self._wait(seconds)
        return digest(operand) in self._met

    def is_given(self, number: int, position: int, value: Any, seconds: float) -> bool:
        """Whether a launch is given this whatever the kernels compute."""
        self._wait(seconds)
        return _place(number, position) + digest_of_argument(value) in self._given

    def close(self) -> None:
        self._wait(0.0)

    def _wait(self, seconds: float) -> None:
        if not self._waits:
            return
        self._waits = False
        select.select([self._reader], [], [], seconds)
        os.close(self._reader)
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        said = os.pread(self._file, os.fstat(self._file).st_size, 0)
        os.close(self._file)
        at = 0
        while at < len(said):
            size = SIZE + (0 if said[at : at + 1] == MET else PLACE)
            (self._met if size == SIZE else self._given).add(said[at + 1 : at + 1 + size])
            at += 1 + size


def _place(number: int, position: int) -> bytes:
    return number.to_bytes(PLACE // 2, "little") + position.to_bytes(PLACE // 2, "little")


def digest(tensor: Any) -> bytes:
    """What a tensor holds, NaN among it."""
    values = tensor.detach().cpu().contiguous()
    octets = values.reshape(-1).view(sys.modules["torch"].uint8).numpy().tobytes()
    return hashlib.sha256(repr((tuple(values.shape), values.dtype)).encode() + octets).digest()


def digest_of_argument(value: Any) -> bytes:
    """What a launch is given: the bytes of an array, or a number."""
    if isinstance(value, numpy.ndarray):
        return hashlib.sha256(repr(value.shape).encode() + value.tobytes()).digest()
    return hashlib.sha256(repr(value).encode()).digest()


def written(func: Any, names: Sequence[str]) -> list[int]:
    """The positions of the parameters that a kernel writes."""
    stored = record.stored(func)
    return [position for position, name in enumerate(names) if name in stored]


def forked(fork: Callable[[], tuple[int, int]]) -> Fork | Told:
    """Fork with what makes one: (where its end is seen, its number), and 0 for that in the fork itself."""
    file = os.memfd_create("independent")
    reader, pid = fork()
    return Told(file, reader, pid) if pid else Fork(file)
