"""Changes of a kernel's statements, many in one run: each is made to the PrimFunc (`rebuilt`) and computed, without running the whole script for it.

In twin mode with `spec["twin"]["screen"]`, `{"edits": [[number, parts], …], "seconds", "limit", "whole": bool}`, changes are looked at in their order and the
`screen` event tells with which of them the script's comparison agrees, with which it fails as before, of which nothing is known, and which cannot be made in this way. There are two ways:

- Where a comparing function such as `torch.testing.assert_close`, or the check with which the script ends, found wrong what the last launch before it wrote,
  that launch alone is computed again (`replay`): hundreds a second. A fork with other values in what the launch wrote shows first that what is expected does not
  depend on them, and that what is compared is these values as they are; and one in which what launches write counts as made up shows that this launch begins
  with nothing that an earlier one computed.
- Otherwise (`whole`) the process is forked where it launches its first kernel, and the fork goes on to the script's end with a changed kernel: dozens
  a second. Whatever the script does with results, and whatever it compares, it does itself.

Either happens in forks: the compiler dies of some changes that make no sense.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import os
import select
import signal
import stat
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import numpy

from . import keeper, rebuilt, replay

#: launches after which none is computed again: each is followed by a fork
LAUNCHES = 64
#: tensors of which the fork with other values tells that they were compared: what a pipe takes at once
MOST_MET = 100
#: forks may die so often before nobody is asked any more
DEATHS = 50
#: a changed script may take so many times as long as the unchanged one, and so many seconds at least
PATIENCE, SHORTEST = 6.0, 2.0
#: what a verdict is called
AGREES, DIFFERS, UNKNOWN, UNMADE = b"+", b"-", b"?", b"."


class Screening:
    """The looking at changes in one run."""

    def __init__(self, context: Any, asked: dict[str, Any]) -> None:
        self.context, self.asked = context, asked
        self.script = os.path.abspath(context.spec["script"])
        self.names = rebuilt.Names()
        self._launches = 0
        self._launch: replay.Launch | None = None
        self._funcs: list[Any] = []
        self._why = ""
        #: in a fork: what it changes, the lines that a launched kernel had of that, and where its verdict goes
        self._parts: Sequence[rebuilt.Part] | None = None
        self._met: set[int] = set()
        self._verdict_to = -1
        self._lost = False
        self._told = False
        #: where the fork with other values answers, and its number; whether this process is that fork, and digests of what was compared in it
        self._probe: tuple[int, int] | None = None
        self.scrambled = False
        self._met_there: set[bytes] = set()
        #: the same for the fork in which what launches write is made up; whether this process is that, and digests of what its launches begin with
        self._idle: tuple[int, int] | None = None
        self._idling = False
        self._begins: list[bytes] = []

    # --------------------------------------------------------------------------------------------- what the twin tells

    def launching(self, func: Any, arrays: Sequence[Any], fresh: Sequence[int]) -> Any:
        """A kernel is about to be computed on these arrays; the answer is what is to be computed."""
        if self.scrambled:
            self._leave_probe()
        self._launches += 1
        if threading.current_thread() is not threading.main_thread():
            self._why = self._why or "the kernel is launched in a thread, which forks do not have"
            return func
        if self._launches == 1 and self.asked["whole"]:
            self._look_at_scripts()
        if self._parts is not None:
            return self._changed(func)
        self._leave_behind()
        if self._launches == 1 and not self.asked["whole"]:
            self._idle = self._fork()
            self._idling = not self._idle[1]
        if self._idling:
            self._begins += [_begin(arrays, fresh)]
        self._funcs.append(func)
        if self._launches <= LAUNCHES and not self.asked["whole"] and not self._told:
            try:
                self._launch = replay.Launch(self._launches, func, arrays, fresh)
            except replay.NotReplayed as why:
                self._why = str(why)
        return func

    def launched(self, cost: float) -> Collection[int]:
        """It was computed. The answer is which of its arguments are to count as made up."""
        if self._idling:
            if self._launch is None:
                self._leave(b"".join(self._begins))
            return self._launch.written()
        if self._launch is not None:
            self._launch.cost = cost
            reader, pid = self._fork()
            if pid:
                self._probe = reader, pid
            else:
                self.scrambled = True
                self._launch.scramble()
        return ()

    def lost(self) -> None:
        """A launch was not computed: what follows from it says nothing."""
        if self.scrambled:
            self._leave_probe()
        self._lost, self._launch, self._why = True, None, "a launch was not computed"

    def compared(
        self, actual: Any, output: Any, expected: Any, rtol: float, atol: float, bounds: dict[str, Any], turned: bool,
        launch: replay.Launch | None = None,
    ) -> None:  # fmt: skip
        """The script found that `actual`, which comes of `output` of a launch, the last one if no other is named, differs from what is expected."""
        if self.scrambled:
            self.meets(expected)
        launch = launch or self._launch
        if self.asked["whole"] or self._told or launch is None or self.scrambled:
            return
        began = time.monotonic()
        try:
            target = replay.compared(launch, actual, output, expected, rtol, atol, bounds, turned)
            if launch is self._launch:
                launch.met = _digests(self._answer("_probe", float(self.asked["limit"])))
            if _digest(expected) not in launch.met:
                raise replay.NotReplayed("what is expected depends on the result, or that is not compared as it is")
            kernel = rebuilt.Kernel(launch.func, self.names, self.script)
            edits = self._of_this_launch(launch, kernel)
            looking = replay.Replay(launch, kernel, target)
        except (replay.NotReplayed, rebuilt.NotRebuilt) as why:
            self._why = str(why)
            return
        until = began + float(self.asked["seconds"]) * len(edits) / len(self.asked["edits"])
        found: dict[bytes, list[Any]] = {AGREES: [], DIFFERS: [], UNKNOWN: [], UNMADE: []}
        seen = deaths = 0
        while seen < len(edits) and deaths < DEATHS and time.monotonic() < until:
            for verdict in self._in_fork(lambda start=seen: _verdicts(looking, edits[start:], until)):  # type: ignore[misc]
                found[verdict].append(edits[seen][0])
                seen += 1
            if seen < len(edits) and time.monotonic() < until:
                deaths, seen = deaths + 1, seen + 1
        self._tell(found, seen, time.monotonic() - began, left=len(self.asked["edits"]) - len(edits))

    def _of_this_launch(self, launch: replay.Launch, kernel: rebuilt.Kernel) -> Sequence[Any]:
        """The changes that no launch before this one has a part in: all, where it begins with nothing that an earlier one computed, else those
        of statements that no kernel launched earlier has. Raises `NotReplayed` if there are none."""
        edits: Sequence[Any] = self.asked["edits"]
        begin = _begin(launch.begin(), launch.fresh)
        if launch.number == 1 or begin in _digests(self._answer("_idle", float(self.asked["limit"]))):
            return edits
        before = [rebuilt.Kernel(func, self.names, self.script) for func in self._funcs[: launch.number - 1]]
        lines = {line for line in {part["line"] for _, parts in edits for part in parts} if kernel.has(line)}
        lines -= {line for line in lines if any(one.has(line) for one in before)}
        ours = [edit for edit in edits if all(part["line"] in lines for part in edit[1])]
        if not ours:
            raise replay.NotReplayed("the launch begins with what an earlier one of the same kernel computed")
        return ours

    def differs(self) -> replay.Launch | None:
        """The script subtracts something of the last launch, and there is a difference: it may come to be computed again, also after others."""
        if self._launch is not None:
            self._launch.differs = True
        return self._launch

    def _leave_behind(self) -> None:
        """Another launch follows: of the last one only what the fork with other values says is kept, and only if that may be asked for."""
        waits = self._launch is not None and self._launch.differs
        said = self._answer("_probe", float(self.asked["limit"]) if waits else 0.0)
        if self._launch is not None:
            self._launch.met = _digests(said)
        self._launch = None

    def meets(self, operand: Any) -> None:
        """In the fork with other values, the script compares this tensor."""
        with contextlib.suppress(TypeError, RuntimeError):
            self._met_there.add(_digest(operand))

    def ended(self, error: BaseException | None) -> None:
        """The script came to its end. A fork says what that means, and is done."""
        if not self.asked["whole"] and not self._told and error is not None:
            # which comes to `compared` with what the script's own check looked at
            self.context.comparisons.of_error(error)
        if self.scrambled:
            self._leave_probe()
        if self._idling:
            self._leave(b"".join(self._begins))
        if self._parts is not None:
            self._leave(self._end(error))

    def _end(self, error: BaseException | None) -> bytes:
        """What the end of a fork's script says of its changes."""
        assert self._parts is not None
        if self._lost:
            return UNKNOWN
        if any(part["line"] not in self._met for part in self._parts):
            return UNMADE
        if error is None or (isinstance(error, SystemExit) and not error.code):
            return AGREES
        return DIFFERS + type(error).__name__.encode()

    def close(self) -> None:
        """Nothing more will be compared: if nothing could be looked at, say why."""
        self._answer("_probe", 0.0)
        self._answer("_idle", 0.0)
        if not self._told:
            why = self._why or "nothing found the result of the last launch before it wrong"
            self.context.emit(
                "screen", agrees=[], differs=[], unknown=[], unmade=[], seen=0, left=0, why=why, seconds=0.0
            )

    def _answer(self, which: str, seconds: float) -> bytes:
        """What the fork with other values, or that in which results are made up, says within a time; it is done then."""
        asked = getattr(self, which)
        setattr(self, which, None)
        return b"" if asked is None else _read(*asked, seconds)

    def _leave_probe(self) -> None:
        self._leave(b"".join(sorted(self._met_there)[:MOST_MET]))

    def _tell(self, found: dict[bytes, list[Any]], seen: int, seconds: float, left: int = 0) -> None:
        """`left`: changes that were not for this way to look at."""
        self._told = True
        self.context.emit(
            "screen", agrees=found[AGREES], differs=found[DIFFERS], unknown=found[UNKNOWN], unmade=found[UNMADE], seen=seen, left=left,
            seconds=round(seconds, 3),
        )  # fmt: skip

    # ------------------------------------------------------------------------------------------------- one launch alone

    def _in_fork(self, work: Callable[[], Iterator[bytes]]) -> Iterator[bytes]:
        """The bytes that a fork comes up with, until it is done or dies."""
        reader, pid = self._fork()
        if pid == 0:
            try:
                for byte in work():
                    os.write(self._verdict_to, byte)
            finally:
                os._exit(0)
        try:
            while chunk := os.read(reader, 1 << 16):
                yield from (chunk[n : n + 1] for n in range(len(chunk)))
        finally:
            os.close(reader)
            os.waitpid(pid, 0)

    def _fork(self) -> tuple[int, int]:
        """Fork: (where the verdicts of the fork are read, its number), and 0 for that in the fork itself."""
        reader, writer = os.pipe()
        pid = os.fork()
        if pid:
            os.close(writer)
            return reader, pid
        os.close(reader)
        keeper.prctl(keeper.PR_SET_PDEATHSIG, signal.SIGKILL)
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        self._verdict_to = writer
        self.context.emit = lambda type, **fields: None  # what happens here did not happen in the script
        return reader, 0

    # ------------------------------------------------------------------------------------------------- the whole script

    def _look_at_scripts(self) -> None:
        """Have a fork for each change go on from here; in such a fork this returns."""
        began = time.monotonic()
        until = began + float(self.asked["seconds"])
        gc.freeze()  # a collection in a fork would copy every page it looks at
        unchanged = self._go_on_with([], float(self.asked["limit"]))
        if self._parts is not None:
            return
        found: dict[bytes, list[Any]] = {AGREES: [], DIFFERS: [], UNKNOWN: [], UNMADE: []}
        seen = 0
        if not unchanged.startswith(DIFFERS):
            self._why = "run again, the script does not fail"
            return
        limit = max(SHORTEST, PATIENCE * (time.monotonic() - began))
        for number, parts in self.asked["edits"]:
            if time.monotonic() > until:
                break
            said = self._go_on_with(parts, limit)
            if self._parts is not None:
                return
            found[said if said in (AGREES, UNMADE) else DIFFERS if said == unchanged else UNKNOWN].append(number)
            seen += 1
        again = self._go_on_with([], limit)
        if self._parts is not None:
            return
        if again != unchanged:  # what forks leave behind, in files or elsewhere, has a part in how they end
            found[UNKNOWN], found[DIFFERS] = found[UNKNOWN] + found[DIFFERS], []
        self._tell(found, seen, time.monotonic() - began)

    def _go_on_with(self, parts: Sequence[rebuilt.Part], seconds: float) -> bytes:
        """What comes of a change, within a time; in the fork that makes it this returns, too."""
        offsets = _offsets()
        reader, pid = self._fork()
        if pid == 0:
            self._parts = parts
            gc.disable()
            self.context.comparisons.unwatched().__enter__()  # to tell of them would take longer than all else
            return UNKNOWN
        said = _read(reader, pid, seconds)
        for fd, offset in offsets.items():  # which a fork has in common with this process
            os.lseek(fd, offset, os.SEEK_SET)
        return said or UNKNOWN

    def _changed(self, func: Any) -> Any:
        """A kernel with those of the changes that are its own."""
        assert self._parts is not None
        try:
            kernel = rebuilt.Kernel(func, self.names, self.script)
            ours = [part for part in self._parts if kernel.has(part["line"])]
            self._met |= {part["line"] for part in ours}
            return kernel.with_parts(ours) if ours else func
        except rebuilt.NotRebuilt:
            self._leave(UNMADE)
        except Exception:  # noqa: BLE001 - whatever the frontend says of a text that makes no sense
            self._leave(UNKNOWN)

    def _leave(self, verdict: bytes) -> None:
        os.write(self._verdict_to, verdict)
        os._exit(0)


def _read(reader: int, pid: int, seconds: float) -> bytes:
    """What a fork says within a time; it is ended then."""
    try:
        ready, _, _ = select.select([reader], [], [], seconds)
        return os.read(reader, 1 << 12) if ready else b""
    finally:
        os.close(reader)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _offsets() -> dict[int, int]:
    """Where this process is in each regular file that it has open."""
    found = {}
    for fd in map(int, os.listdir("/proc/self/fd")):
        with contextlib.suppress(OSError):
            if stat.S_ISREG(os.fstat(fd).st_mode):
                found[fd] = os.lseek(fd, 0, os.SEEK_CUR)
    return found


def _digest(tensor: Any) -> bytes:
    """What a tensor holds, NaN among it."""
    values = tensor.detach().cpu().contiguous()
    octets = values.reshape(-1).view(sys.modules["torch"].uint8).numpy().tobytes()
    return hashlib.sha256(repr((tuple(values.shape), values.dtype)).encode() + octets).digest()


def _begin(arrays: Sequence[Any], fresh: Collection[int]) -> bytes:
    """What a launch is given, without what it has to fill."""
    found = hashlib.sha256()
    for position, value in enumerate(arrays):
        if position not in fresh:
            held = (value.shape, str(value.dtype), value.tobytes()) if isinstance(value, numpy.ndarray) else value
            found.update(repr(held).encode())
    return found.digest()


def _digests(said: bytes) -> set[bytes]:
    """The digests that the fork with other values wrote one after another."""
    size = hashlib.sha256().digest_size
    return {said[n : n + size] for n in range(0, len(said), size)}


def _verdicts(looking: replay.Replay, edits: Sequence[Any], until: float) -> Iterator[bytes]:
    for _, parts in edits:
        if time.monotonic() > until:
            return
        try:
            yield {True: AGREES, False: DIFFERS, None: UNKNOWN}[looking.agrees(parts)]
        except rebuilt.NotRebuilt:
            yield UNMADE
