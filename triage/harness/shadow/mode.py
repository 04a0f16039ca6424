"""Follows a script: every operator that PyTorch dispatches in its threads is run on the shadows, too."""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from .. import mismatch
from .measure import CHUNK, History, Measured, Place
from .memory import Memories
from .operators import Operator, compute, describe
from .values import Unknown, computing, covers, is_float, mapped, memory_of, plain, rounded, significand, tensors, wide

#: seconds that all operators and their shadows may take; a reference in Python loops may have millions
SECONDS = 90.0
#: methods by which a script casts itself
CASTING = ("to", "half", "bfloat16", "float", "double", "type", "type_as")


@dataclass
class Given:
    """What an operator was given, made before it ran: its arguments as shadows, or `why` no shadow can come of it."""

    written: tuple[torch.Tensor, ...]
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    #: the memory of all arguments, and of their shadows: what lies there is no new result
    memories: frozenset[int] = frozenset()
    digits: float = math.inf
    #: of the argument that was most off
    history: History = field(default_factory=History)
    why: str | None = None
    #: its results are leaves
    leaves: bool = False


class Shadow(TorchDispatchMode):
    """Follows one thread once entered; `watch_threads` has the others followed, too. `context.spec["shadow"]` holds `bytes`, a
    limit for all shadows, `seconds`, one for the time they take, and `leaves`, the numbers of operators whose results are to be taken as they are."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """To ask `torch._dynamo` for nothing: the first call would import it, which takes most of a second."""
        return False

    def __init__(self, context: Any) -> None:
        super().__init__()
        self.context = context
        options = context.spec["shadow"]
        self._leaves = frozenset(options.get("leaves", ()))
        self._seconds = float(options.get("seconds", SECONDS))
        self._spent = 0.0
        self._memories = Memories(options.get("bytes"), context.mode == "virtual")
        self._numbers = itertools.count(1)
        self._local = threading.local()
        self._lock = threading.RLock()
        #: of the launches so far, the operators that made what they were given by arithmetic of their own
        self.inputs_made_by: set[int] = set()

    # ------------------------------------------------------------------------------------------------ watching

    def watch_threads(self) -> None:
        """Enter for every thread that begins from now on."""
        original = threading.Thread.run

        def run(thread: threading.Thread) -> None:
            with self:
                original(thread)

        threading.Thread.run = run  # type: ignore[method-assign]

    def watch_autocast(self) -> None:
        """Note where the script turns autocast on, and where it casts itself: PyTorch dispatches both alike."""
        original = torch.set_autocast_enabled

        @functools.wraps(original)
        def set_autocast_enabled(*args: Any) -> None:
            original(*args)
            device, enabled = args if len(args) == 2 else ("cuda", *args)
            self._local.autocast = {**getattr(self._local, "autocast", {}), device: bool(enabled)}

        torch.set_autocast_enabled = set_autocast_enabled
        for name in CASTING:
            setattr(torch.Tensor, name, self._casting(getattr(torch.Tensor, name)))

    def _casting(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def cast(*args: Any, **kwargs: Any) -> Any:
            before = getattr(self._local, "casting", False)
            self._local.casting = True
            try:
                return original(*args, **kwargs)
            finally:
                self._local.casting = before

        return cast

    def watch_launches(self, kernel: type) -> None:
        """From a launch on, what the kernel was given and what it gave are leaves."""
        original = kernel.__call__

        @functools.wraps(original)
        def __call__(called: Any, *args: Any, **options: Any) -> Any:
            with self.context.guarded("look at the inputs of a launch"), self.paused(), computing():
                for tensor in tensors(args):
                    memory = self._memories.of(tensor)
                    if memory is not None and memory.maker is not None:
                        self.inputs_made_by.add(memory.maker)
            with self.paused():
                result = original(called, *args, **options)
            with self.context.guarded("take what a launch wrote for what it is"), self._lock:
                for tensor in tensors([*args, *options.values(), result]):
                    self._memories.drop(tensor)
            return result

        kernel.__call__ = __call__  # type: ignore[method-assign]

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """What this thread does inside is not followed."""
        before = getattr(self._local, "paused", False)
        self._local.paused = True
        try:
            yield
        finally:
            self._local.paused = before

    # ----------------------------------------------------------------------------------------------- following

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if not isinstance(func, torch._ops.OpOverload) or not self._follows():
            return func(*args, **kwargs)
        operator = describe(func)
        if (operator.is_view and not operator.writes) or operator.reshapes:
            return func(*args, **kwargs)
        number = next(self._numbers)
        given = None
        began = time.monotonic()
        with self._lock, self.context.guarded(f"shadow the arguments of {operator.name}"), computing():
            given = self._prepare(operator, args, kwargs)
        try:
            result = func(*args, **kwargs)
        except BaseException:
            for tensor in given.written if given is not None else ():  # some of it may have been written
                self._memories.lose(tensor, f"{operator.name} failed")
            raise
        if given is not None:
            with self._lock, self.context.guarded(f"shadow {operator.name}"), computing():
                self._follow(func, operator, given, result, number)
            self._spent += time.monotonic() - began
        return result

    def _follows(self) -> bool:
        """Whether what this thread does now is to be followed."""
        if getattr(self._local, "paused", False) or self._spent > self._seconds:
            return False
        # in a graph that is being captured nothing runs, and what waits for the device would end the capture
        return self.context.mode == "virtual" or not (
            torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()
        )

    def _prepare(self, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Given | None:
        """What an operator is given; None where what it makes are leaves, and nothing is to be done."""
        written = operator.written(args, kwargs)
        inputs = [t for t in tensors((args, kwargs)) if is_float(t)]
        if not inputs or operator.is_fresh:
            return Given(written, leaves=True) if written else None
        if not operator.is_known:
            return Given(written, why=f"{operator.name} is no operator of PyTorch")
        if operator.is_random:
            return Given(written, leaves=True)
        known = [memory for memory in map(self._memories.of, inputs) if memory is not None]
        if operator.moves and not known and not self._autocasts(operator):
            return None
        if operator.draws:
            return Given(written, why=f"{operator.name} draws random numbers")
        try:
            for tensor in written:
                if is_float(tensor):
                    self._memories.begin(tensor)
            shadow = functools.partial(self._argument, written={id(t) for t in written})
            given = mapped(shadow, args), {name: mapped(shadow, value) for name, value in kwargs.items()}
            lying = (*map(plain, inputs), *tensors(given))
            return Given(
                written,
                *given,
                memories=frozenset(t.untyped_storage()._cdata for t in lying),
                digits=min(map(self._memories.digits, inputs)),
                history=max((memory.history for memory in known), key=lambda one: one.error, default=History()),
            )
        except (Unknown, RuntimeError) as why:
            return Given(written, why=str(why))

    def _argument(self, value: Any, written: set[int]) -> Any:
        if isinstance(value, torch.Tensor):
            shadow = self._memories.shadow(value)
            return shadow.clone() if id(value) in written and not is_float(value) else shadow
        if isinstance(value, torch.dtype):
            return wide(value) if value.is_floating_point or value.is_complex else value
        if isinstance(value, torch.device) and self.context.mode == "virtual":
            return torch.device("cpu")
        return value

    def _follow(self, func: Any, operator: Operator, given: Given, result: Any, number: int) -> None:
        """Keep the shadows of what an operator made and wrote."""
        made = [t for t in tensors(result) if is_float(t) and not any(t is w for w in given.written)]
        try:
            if given.why is not None:
                raise Unknown(given.why)
            if given.leaves or number in self._leaves:
                for tensor in given.written:
                    self._memories.refresh(tensor)
                return
            if not made and not any(map(is_float, given.written)):
                return
            self._memories.make_room(sum(t.numel() for t in made) * 8)
            shadows = compute(func, operator, given.args, given.kwargs, result)
            made = [t for t in made if memory_of(t) not in given.memories]
            self._keep(operator, given, made, shadows, number)
        except (Unknown, RuntimeError, IndexError, TypeError, ValueError) as why:
            for tensor in (*made, *given.written):
                self._memories.lose(tensor, str(why))

    def _keep(
        self, operator: Operator, given: Given, made: list[torch.Tensor], shadows: list[torch.Tensor], number: int
    ) -> None:
        for tensor in made[len(shadows) :]:
            self._memories.lose(tensor, f"{operator.name} is computed again only in part")
        place = self._place(operator)
        casts = operator.casts and not self._autocasts(operator)
        for tensor, shadow in zip(made, shadows, strict=False):
            if shadow.shape != tensor.shape:
                raise Unknown(f"{operator.name} chooses a shape by values")
            value, digits = plain(tensor), given.digits
            if casts and significand(value.dtype) < digits:
                shadow, digits = rounded(shadow, value), significand(value.dtype)
            memory = self._memories.add(value, shadow, digits, given.memories)
            memory.maker = number
            memory.history = given.history.after(value, memory.part(value), place)
        for tensor in given.written:
            there = self._memories.written(tensor)
            if there is None:
                continue
            value = plain(tensor)
            part = there.part(value)
            there.digits = min(there.digits, given.digits)
            if casts and significand(value.dtype) < given.digits:
                part.copy_(rounded(part, value))
                there.digits = significand(value.dtype)
            history = given.history.after(value, part, place)
            if covers(value) or history.error >= there.history.error:
                there.history = history
            there.wrote(value, number)

    def _place(self, operator: Operator) -> Place | None:
        at = self.context.user_frame()
        return None if at is None else (at["file"], at["line"], operator.name)

    def _autocasts(self, operator: Operator) -> bool:
        """Whether it is autocast that casts, and not the script."""
        on = any(getattr(self._local, "autocast", {}).values())
        return operator.name == "_to_copy" and on and not getattr(self._local, "casting", False)

    # ----------------------------------------------------------------------------------------------- measuring

    def against(
        self,
        actual: torch.Tensor,
        expected: torch.Tensor,
        wrong: torch.Tensor | None,
        rtol: float | None,
        atol: float | None,
    ) -> dict[str, Any]:
        """Both sides of a comparison against the float64 value of the expected one, as `Measured` tells them.

        `known` is 0 where there is none, and `why` says so: the expected side was not computed by operators that were followed.
        `growth`: the lines where the error of the expected side grew most (`History`).
        """
        with self._lock, self.paused(), computing():
            try:
                exact, history = self._exact(expected)
            except (Unknown, RuntimeError) as why:
                return {"known": 0.0, "why": str(why)}
            sides = [side.detach() for side in mismatch.alike(actual, expected)]
            exact = exact.to(sides[0].device).expand_as(sides[0])
            measured = Measured(rtol, atol)
            mask = None if wrong is None else wrong.reshape(-1)
            flat = [t.reshape(-1) for t in (*sides, exact)]
            for start in range(0, exact.numel(), CHUNK):
                part = slice(start, start + CHUNK)
                measured.add(*(t[part] for t in flat), None if mask is None else mask[part])
            return measured.told() | {"growth": history.told(), "inputs_made_by": sorted(self.inputs_made_by)}

    def _exact(self, expected: torch.Tensor) -> tuple[torch.Tensor, History]:
        """The float64 value of what is expected. Raises `Unknown` for a leaf, too: nothing was computed again."""
        if self._spent > self._seconds:
            raise Unknown(f"the operators of the script and their shadows took more than {self._seconds:.0f} s")
        if not is_float(expected):
            raise Unknown("what is expected is no floating-point tensor")
        memory = self._memories.of(expected) or self._memories.of_array(expected)
        if memory is None:
            raise Unknown("what is expected is no result of arithmetic in PyTorch")
        return memory.part(plain(expected)), memory.history
