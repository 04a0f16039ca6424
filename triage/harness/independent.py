"""What of a script does not depend on what its kernels compute: told by a fork in which results are made up.

The fork begins with the first launch. In it no launch is computed: what it would write counts as made up, so that the virtual device follows what
depends on it, and no comparison with it ends the script. What a launch or an operator on results is given, and what is compared, without being made
up, is the same whatever the kernels do; of that the fork keeps digests.
"""

from __future__ import annotations

import hashlib
import os
import select
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy

from . import record

#: of so many tensors the fork tells that they were compared, and of as many operators that they were run
MOST_MET = 20_000
SIZE = hashlib.sha256().digest_size
#: how many bytes say which argument of which launch
PLACE = 8
MET, GIVEN, RUN = b"m", b"g", b"r"


class Fork:
    """In the fork: tells what it meets; `to` is a file that the process it came from reads."""

    def __init__(self, to: int) -> None:
        self._to = to
        self._met = self._ran = 0

    def meets(self, operand: Any) -> None:
        """A tensor that is not made up is compared with something."""
        self._met += 1
        if self._met <= MOST_MET:
            os.write(self._to, MET + digest(operand))

    def runs(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """An operator is run on these arguments, None in the place of a tensor that is made up."""
        self._ran += 1
        if self._ran <= MOST_MET:
            os.write(self._to, RUN + digest_of_call(func, args, kwargs))

    def is_given(self, number: int, position: int, value: Any) -> None:
        """A launch is given something that is not made up."""
        os.write(self._to, GIVEN + _place(number, position) + digest_of_argument(value))


class Told:
    """In the process that it came from: what the fork says. `reader` is closed when it ends."""

    def __init__(self, file: int, reader: int, pid: int) -> None:
        self._file, self._reader, self._pid = file, reader, pid
        self._met: set[bytes] = set()
        self._given: set[bytes] = set()
        self._run: set[bytes] = set()
        self._waits = True

    def is_met(self, operand: Any, seconds: float) -> bool:
        """Whether a tensor is compared whatever the kernels compute."""
        self._wait(seconds)
        return digest(operand) in self._met

    def is_given(self, number: int, position: int, value: Any, seconds: float) -> bool:
        """Whether a launch is given this whatever the kernels compute."""
        self._wait(seconds)
        return _place(number, position) + digest_of_argument(value) in self._given

    def is_run(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], seconds: float) -> bool:
        """Whether an operator is run on these arguments whatever the kernels compute, but for tensors that come of that: None."""
        self._wait(seconds)
        return digest_of_call(func, args, kwargs) in self._run

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
            kind = said[at : at + 1]
            size = SIZE + (PLACE if kind == GIVEN else 0)
            {MET: self._met, GIVEN: self._given, RUN: self._run}[kind].add(said[at + 1 : at + 1 + size])
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


def digest_of_call(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bytes:
    """An operator with what it is given."""
    return hashlib.sha256(f"{func} {_said(tuple(args))} {_said(dict(kwargs))}".encode()).digest()


def _said(value: Any) -> str:
    if isinstance(value, sys.modules["torch"].Tensor):
        return digest(value).hex()
    if isinstance(value, dict):
        return str({key: _said(one) for key, one in value.items()})
    return str([_said(one) for one in value]) if isinstance(value, (list, tuple)) else repr(value)


def written(func: Any, names: Sequence[str]) -> list[int]:
    """The positions of the parameters that a kernel writes."""
    stored = record.stored(func)
    return [position for position, name in enumerate(names) if name in stored]


def forked(fork: Callable[[], tuple[int, int]]) -> Fork | Told:
    """Fork with what makes one: (where its end is seen, its number), and 0 for that in the fork itself."""
    file = os.memfd_create("independent")
    reader, pid = fork()
    return Told(file, reader, pid) if pid else Fork(file)
