"""Changes of a kernel's statements, many in one run: each is made to the PrimFunc (`rebuilt`) and computed, without running the whole script for it.

In twin mode with `spec["twin"]["screen"]`, `{"edits": [[number, parts], …], "seconds", "limit", "whole": bool}`, changes are looked at in their order and the
`screen` event tells with which of them the script's comparison agrees, with which it fails as before, of which nothing is known, and which cannot be made in this way. There are two ways:

- Where a comparing function such as `torch.testing.assert_close`, or the check with which the script ends, found wrong what a launch wrote, or what PyTorch
  computed of that, only the steps that lead to it are computed again (`trail`, `replay`): up to hundreds a second. A fork in which results are made up
  shows first that what is expected, and what else these steps begin with, is the same whatever the kernels compute (`independent`).
- Otherwise (`whole`) the process is forked where it launches its first kernel, and the fork goes on to the script's end with a changed kernel: dozens
  a second. Whatever the script does with results, and whatever it compares, it does itself.

Either happens in forks: the compiler dies of some changes that make no sense.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
import stat
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from . import independent, keeper, rebuilt, replay, trail

#: so many launches, the first ones, can be computed again
LAUNCHES = 200
#: forks may die so often before nobody is asked any more
DEATHS = 50
#: a changed script may take so many times as long as the unchanged one, and so many seconds at least
PATIENCE, SHORTEST = 6.0, 2.0
#: what a verdict is called
AGREES, STRAYS, DIFFERS, UNKNOWN, UNMADE = b"+", b"~", b"-", b"?", b"."


class Screening:
    """The looking at changes in one run."""

    def __init__(self, context: Any, asked: dict[str, Any]) -> None:
        self.context, self.asked = context, asked
        self.script = os.path.abspath(context.spec["script"])
        self.names = rebuilt.Names()
        self._launches = 0
        self._trail = trail.Trail()
        self._launch: trail.Launch | None = None
        self._why = ""
        #: in a fork: what it changes, the lines that a launched kernel had of that, and where its verdict goes
        self._parts: Sequence[rebuilt.Part] | None = None
        self._met: set[int] = set()
        self._verdict_to = -1
        self._lost = False
        self._told = False
        #: what the fork says in which results are made up; whether this process is that fork
        self._told_by: independent.Told | None = None
        self._fork_tells: independent.Fork | None = None

    @property
    def is_supposing(self) -> bool:
        """Whether this process is the fork in which no launch is computed, and results are made up."""
        return self._fork_tells is not None

    # --------------------------------------------------------------------------------------------- what the twin tells

    def begins(self) -> None:
        """A kernel is launched."""
        self._launches += 1
        if self._launches == 1 and not self.asked["whole"]:
            told = independent.forked(self._fork)
            self._told_by = told if isinstance(told, independent.Told) else None
            self._fork_tells = told if isinstance(told, independent.Fork) else None

    def supposes(self, func: Any, names: Sequence[str], arguments: Sequence[Any], fresh: Collection[int]) -> list[int]:
        """In that fork, a kernel would be computed on these arguments, None in the place of what is made up. The answer is which of its
        parameters are to count as made up."""
        assert self._fork_tells is not None
        for position, value in enumerate(arguments):
            if value is not None and position not in fresh:
                self._fork_tells.is_given(self._launches, position, value)
        return independent.written(func, names)

    def launching(self, func: Any, names: Sequence[str], arrays: Sequence[Any], fresh: Sequence[int]) -> Any:
        """A kernel is about to be computed on these arrays; the answer is what is to be computed."""
        if threading.current_thread() is not threading.main_thread():
            self._why = self._why or "the kernel is launched in a thread, which forks do not have"
            return func
        if self._launches == 1 and self.asked["whole"]:
            self._look_at_scripts()
        if self._parts is not None:
            return self._changed(func)
        self._launch = None
        if self._launches <= LAUNCHES and not self.asked["whole"] and not self._told:
            try:
                self._launch = trail.Launch(self._launches, func, arrays, fresh, independent.written(func, names))
                self._trail.add(self._launch)
            except trail.NotFollowed as why:
                self._why = str(why)
        return func

    def launched(self, cost: float) -> None:
        """It was computed."""
        if self._launch is not None:
            self._launch.done(cost)
            self._trail.done(self._launch)

    @property
    def follows(self) -> bool:
        """Whether operators on results are followed here."""
        alone = threading.current_thread() is threading.main_thread()
        return alone and not self.asked["whole"] and not self._told and self._parts is None and self._launches > 0

    def supposes_run(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """In the fork in which results are made up, an operator is run on these arguments, None in the place of what is made up."""
        assert self._fork_tells is not None
        self._fork_tells.runs(func, args, kwargs)

    def running(
        self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], tensors: Sequence[Any], written: Sequence[Any]
    ) -> trail.Operation | None:  # fmt: skip
        """An operator is about to be run on plain `tensors` among its arguments; the answer is to be told what came of it (`ran`), None if no launch had
        a part in any of them."""
        storages = (tensor.untyped_storage() for tensor in tensors)
        if not any(self._trail.led(int(one.data_ptr()), int(one.nbytes())) for one in storages):
            return None
        try:
            step = trail.Operation(func, args, kwargs, written)
        except trail.NotFollowed as why:
            self._why = str(why)
            return None
        self._trail.add(step)
        return step

    def ran(self, step: trail.Operation, result: Any) -> None:
        """It came to this."""
        step.done(result)
        self._trail.done(step)

    def derives(self, tensor: Any) -> bool:
        """Whether a plain tensor comes of what launches wrote."""
        storage = tensor.untyped_storage()
        return self._trail.led(int(storage.data_ptr()), int(storage.nbytes()))

    def lost(self) -> None:
        """A launch was not computed: what follows from it says nothing."""
        self._lost, self._why = True, "a launch was not computed"

    def meets(self, *operands: Any) -> None:
        """In the fork in which results are made up, the script compares these tensors."""
        if self._fork_tells is not None:
            for operand in operands:
                with contextlib.suppress(
                    TypeError, RuntimeError, AttributeError
                ):  # what is no tensor, or has no values
                    self._fork_tells.meets(operand)

    def compared(
        self, actual: Any, output: Any, expected: Any, rtol: float, atol: float, bounds: dict[str, Any], turned: bool,
        measured: Sequence[float] | None = None,
    ) -> None:  # fmt: skip
        """The script found that `actual`, a copy of `output` of a launch if that is known, differs from what is expected."""
        if self.asked["whole"] or self._told or self._told_by is None:
            return
        began = time.monotonic()
        limit = float(self.asked["limit"])
        try:
            spared, nan = float(bounds.get("max_mismatched_ratio") or 0.0), bool(bounds.get("equal_nan"))
            asked = replay.Asked(rtol, atol, nan, turned, spared, None if measured is None else tuple(measured))
            if not self._told_by.is_met(expected, limit):
                raise trail.NotFollowed("what is expected depends on a result, or is not compared whatever that is")
            looking = self._looking_at(replay.compared(self._trail, actual, output, expected, asked), limit)
        except (trail.NotFollowed, rebuilt.NotRebuilt) as why:
            self._why = str(why)
            return
        edits = self.asked["edits"]
        until = began + float(self.asked["seconds"])
        found: dict[bytes, list[Any]] = {verdict: [] for verdict in (AGREES, STRAYS, DIFFERS, UNKNOWN, UNMADE)}
        seen = deaths = 0
        while seen < len(edits) and deaths < DEATHS and time.monotonic() < until:
            for verdict in self._in_fork(lambda start=seen: _verdicts(looking, edits[start:], until)):  # type: ignore[misc]
                found[verdict].append(edits[seen][0])
                seen += 1
            if seen < len(edits) and time.monotonic() < until:
                deaths, seen = deaths + 1, seen + 1
        self._tell(found, seen, time.monotonic() - began)

    def _looking_at(self, targets: Iterator[replay.Compared], limit: float) -> replay.Replay:
        """What can be computed again of the first target of which that is known. Raises `NotFollowed` or `NotRebuilt` of the last."""
        assert self._told_by is not None
        why: Exception = trail.NotFollowed("nothing tells how the compared tensor comes of what launches wrote")
        for target in targets:
            try:
                steps = trail.leading_to(target.link, self._told_by, limit)
                funcs = {id(step.func): step.func for step in steps if isinstance(step, trail.Launch)}
                kernels = [rebuilt.Kernel(func, self.names, self.script) for func in funcs.values()]
                return replay.Replay(steps, kernels, target)
            except (trail.NotFollowed, rebuilt.NotRebuilt) as error:
                why = error
        raise why

    def ended(self, error: BaseException | None) -> None:
        """The script came to its end. A fork says what that means, and is done."""
        if not self.asked["whole"] and not self._told and error is not None and not self.is_supposing:
            # which comes to `compared` with what the script's own check looked at
            self.context.comparisons.of_error(error)
        if self.is_supposing:
            os._exit(0)
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
        if self._told_by is not None:
            self._told_by.close()
        if not self._told:
            why = self._why or "nothing found the result of a launch wrong"
            self.context.emit(
                "screen", agrees=[], strays=[], differs=[], unknown=[], unmade=[], seen=0, why=why, seconds=0.0
            )

    def _tell(self, found: dict[bytes, list[Any]], seen: int, seconds: float) -> None:
        self._told = True
        self.context.emit(
            "screen", agrees=found[AGREES] + found[STRAYS], strays=found[STRAYS], differs=found[DIFFERS], unknown=found[UNKNOWN],
            unmade=found[UNMADE], seen=seen, seconds=round(seconds, 3),
        )  # fmt: skip

    # ------------------------------------------------------------------------------------------------- launches alone

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
        found: dict[bytes, list[Any]] = {verdict: [] for verdict in (AGREES, STRAYS, DIFFERS, UNKNOWN, UNMADE)}
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


def _verdicts(looking: replay.Replay, edits: Sequence[Any], until: float) -> Iterator[bytes]:
    for _, parts in edits:
        if time.monotonic() > until:
            return
        try:
            verdict = {True: AGREES, False: DIFFERS, None: UNKNOWN}[looking.agrees(parts)]
            yield STRAYS if verdict == AGREES and looking.strays else verdict
        except rebuilt.NotRebuilt:
            yield UNMADE
