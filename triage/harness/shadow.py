"""The script's floating-point arithmetic once more in float64, so that a reference can be held against what it should be.

Every operator of PyTorch on floating-point tensors is also run on their *shadows*: tensors in float64 that hold what would be
there if no operator had rounded. Ints and bools, and with them every index, mask and condition, are shared with the script.

What has no shadow of its own is a *leaf*, and stands for its value exactly: random and constant tensors, what came from NumPy
or from a file, and whatever a kernel was given or has written. So a reference in float64 reads the inputs as the kernel reads
them. For the same reason a cast that the script writes rounds the shadow where it makes new, coarser data: where the type is
narrower than every type that the value comes from. Quantized inputs and emulated roundings of a kernel stay as they are
written. A cast back to a type that the value came from is only how a result is stored (float16 inputs, a float32 sum, a float16
result); it rounds nothing, and so does none that autocast made. Neither TF32 nor the order of atomics matters in float64.

Shadows belong to memory, not to tensors: views share them. Memory that somebody else wrote (another thread, NumPy, an
extension) is found out by its fingerprint and becomes a leaf. Where an operator has no float64, chooses by values, or would go
above the limit of bytes, what it makes is unknown, and all that follows from it.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode

aten = torch.ops.aten

#: bytes of all shadows that are alive, on a CPU; on a GPU they may have a part of what is free there
LIMIT = 1 << 30
PART_OF_GPU = 4
#: shadows of memory that is gone are looked for when as many bytes came anew
SWEEP = 64 << 20
#: elements of a comparison that are looked at together
CHUNK = 1 << 22
#: an error is clearly smaller than another from this factor on, where no tolerance is known
CLEAR = 4.0

#: operators that draw their results: what they are given is no value that they compute with
RANDOM = frozenset(
    {"bernoulli", "normal", "uniform", "random", "exponential", "cauchy", "log_normal", "geometric", "poisson"}
)
#: operators that only move, repeat or choose values; of leaves they make leaves
MOVES = frozenset(
    {"clone", "_to_copy", "copy", "cat", "stack", "index", "index_select", "index_put", "_index_put_impl", "gather", "scatter"}
    | {"repeat", "flip", "roll", "constant_pad_nd", "masked_fill", "masked_scatter", "masked_select", "where", "tril", "triu"}
    | {"fill", "zero", "embedding", "take", "slice_scatter", "select_scatter", "index_copy", "index_fill", "_pin_memory"}
    | {"diag_embed", "diagonal_scatter", "as_strided_scatter", "block_diag", "unfold_copy", "repeat_interleave"}
)  # fmt: skip
#: operators that choose elements along an axis: (values, indices) and the positions of `dim` and `keepdim`
CHOOSING = {"sort": (1, None), "topk": (2, None), "max": (1, 2), "min": (1, 2), "median": (1, 2), "nanmedian": (1, 2)}
CHOOSING |= {"kthvalue": (2, 3), "mode": (1, 2), "cummax": (1, None), "cummin": (1, None)}
#: what fused attention is called; in float64 it is computed by its formula
ATTENTION = frozenset(
    {"_scaled_dot_product_flash_attention", "_scaled_dot_product_flash_attention_for_cpu"}
    | {"_scaled_dot_product_efficient_attention", "_scaled_dot_product_cudnn_attention"}
)  # fmt: skip
#: of these, those with a bias and a switch before the rate of dropout
WITH_BIAS = frozenset({"_scaled_dot_product_efficient_attention", "_scaled_dot_product_cudnn_attention"})
FUNCTIONS_OF_HALVES = frozenset({"_softmax", "_log_softmax"})
AUTOCAST = {"cpu": torch._C.DispatchKey.AutocastCPU, "cuda": torch._C.DispatchKey.AutocastCUDA}


class Unknown(Exception):
    """Why a value has no shadow."""


@dataclass
class Memory:
    """The shadow of one allocation: as many elements as it holds in `dtype`, or None where they are unknown (`why`).

    `digits`: significant bits of the narrowest type that its values come from. `fingerprint` is of the bytes that belong to it.
    """

    weak: StorageWeakRef
    address: int
    dtype: torch.dtype
    flat: torch.Tensor | None
    digits: float
    fingerprint: int | None
    why: str = ""

    @property
    def bytes(self) -> int:
        return self.flat.numel() * self.flat.element_size() if self.flat is not None else 0


@dataclass
class Given:
    """The arguments of an operator as shadows, made before it ran. `why`: no shadow can come of them."""

    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] | None = None
    written: tuple[torch.Tensor, ...] = ()
    #: the memory of all arguments, and of their shadows: what lies there is no new result
    memories: frozenset[int] = frozenset()
    digits: float = math.inf
    why: str | None = None


class Operator:
    """What the schema of an operator says about it."""

    def __init__(self, func: Any) -> None:
        schema = func._schema
        namespace, _, name = schema.name.partition("::")
        self.name = name.rstrip("_")
        self.known = namespace in ("aten", "prims")
        self.writes = tuple(
            (i, a.name, a.kwarg_only)
            for i, a in enumerate(schema.arguments)
            if a.alias_info is not None and a.alias_info.is_write
        )
        self.is_view = any(r.alias_info is not None and not r.alias_info.is_write for r in schema.returns)
        self.reshapes = torch.Tag.inplace_view in func.tags
        self.random = self.name in RANDOM
        self.seeded = torch.Tag.nondeterministic_seeded in func.tags and self.name not in ATTENTION
        self.moves = self.name in MOVES
        self.casts = self.name in ("_to_copy", "copy")
        self.fresh = self.name.startswith(("new_", "empty")) or self.name.endswith("_like")

    def written(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[torch.Tensor]:
        found = []
        for index, name, keyword in self.writes:
            found += tensors(kwargs.get(name) if keyword or index >= len(args) else args[index])
        return found


describe = functools.cache(Operator)


class Shadow(TorchDispatchMode):
    """Follows one thread once entered; `watch_threads` has the others followed, too."""

    def __init__(self, context: Any) -> None:
        super().__init__()
        self.context = context
        options = context.spec["shadow"]
        self._limit = options.get("bytes")
        #: operators, by their number, whose results are leaves: they made what a kernel was given later
        self.leaves = frozenset(options.get("leaves", ()))
        self._numbers = itertools.count(1)
        self._local = threading.local()
        self._known: dict[int, Memory] = {}
        self._makers: dict[int, int] = {}
        self._bytes = 0
        self._sweep_at = SWEEP
        self._lock = threading.RLock()
        #: of the launches so far, the operators that made what they were given by arithmetic of their own
        self.inputs_made_by: set[int] = set()

    def watch_threads(self) -> None:
        """Enter for every thread that begins from now on."""
        original = threading.Thread.run

        def run(thread: threading.Thread) -> None:
            with self:
                original(thread)

        threading.Thread.run = run  # type: ignore[method-assign]

    def watch_autocast(self) -> None:
        """Note where the script turns autocast on: PyTorch does not tell its casts from those of the script."""
        original = torch.set_autocast_enabled

        @functools.wraps(original)
        def set_autocast_enabled(*args: Any) -> None:
            original(*args)
            device, enabled = args if len(args) == 2 else ("cuda", *args)
            self._local.autocast = {**getattr(self._local, "autocast", {}), device: bool(enabled)}

        torch.set_autocast_enabled = set_autocast_enabled

    def watch_launches(self, kernel: type) -> None:
        """From a launch on, what the kernel was given and what it gave are leaves."""
        original = kernel.__call__

        @functools.wraps(original)
        def __call__(self_: Any, *args: Any, **options: Any) -> Any:
            with self.context.guarded("look at the inputs of a launch"), self.paused(), computing():
                self._given(args)
            with self.paused():
                result = original(self_, *args, **options)
            with self.context.guarded("take what a launch wrote for what it is"):
                self.forget(*args, *options.values(), result)
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

    # ------------------------------------------------------------------------------------------------ following

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if getattr(self._local, "paused", False) or not isinstance(func, torch._ops.OpOverload):
            return func(*args, **kwargs)
        operator = describe(func)
        if (operator.is_view and not operator.writes) or operator.reshapes:
            return func(*args, **kwargs)
        number = next(self._numbers)
        given = None
        with self._lock, self.context.guarded(f"shadow the arguments of {operator.name}"), computing():
            given = self._prepare(operator, args, kwargs)
        try:
            result = func(*args, **kwargs)
        except BaseException:
            for tensor in given.written if given is not None else ():  # some of it may have been written
                self._lose(tensor, f"{operator.name} failed")
            raise
        if given is not None:
            with self._lock, self.context.guarded(f"shadow {operator.name}"), computing():
                self._follow(func, operator, given, result, number)
        return result

    def _prepare(self, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Given | None:
        """The arguments as shadows; None where what the operator makes are leaves, and needs nothing done."""
        written = tuple(t for t in operator.written(args, kwargs))
        inputs = [t for t in tensors((args, kwargs)) if is_float(t)]
        if not inputs or operator.fresh:
            return None if not written else Given(written=written, why="only an integer is known of it")
        if not operator.known:
            return Given(written=written, why=f"{operator.name} is no operator of PyTorch")
        if operator.random:
            return Given(written=written)
        if operator.moves and not any(self._memory(t) for t in inputs) and not self._autocasts(operator):
            return None
        if operator.seeded:
            return Given(written=written, why=f"{operator.name} draws random numbers")
        try:
            for tensor in written:
                if is_float(tensor):
                    self._begin(tensor)
            ids = {id(t) for t in written}
            digits = min(self._digits(t) for t in inputs)
            shadow = functools.partial(self._argument, written=ids)
            given = mapped(shadow, args), {k: mapped(shadow, v) for k, v in kwargs.items()}
            memories = frozenset(t.untyped_storage()._cdata for t in (*map(plain, inputs), *tensors(given)))
            return Given(*given, written, memories, digits)
        except (Unknown, RuntimeError, NotImplementedError) as why:
            return Given(written=written, why=str(why))

    def _argument(self, value: Any, written: set[int]) -> Any:
        if isinstance(value, torch.Tensor):
            shadow = self._shadow(value)
            return shadow.clone() if id(value) in written and not is_float(value) else shadow
        if isinstance(value, torch.dtype):
            return wide(value) if value.is_floating_point or value.is_complex else value
        if isinstance(value, torch.device) and self.context.mode == "virtual":
            return torch.device("cpu")
        return value

    def _follow(self, func: Any, operator: Operator, given: Given, result: Any, number: int) -> None:
        made = [t for t in tensors(result) if is_float(t) and not any(t is w for w in given.written)]
        if given.kwargs is None and given.why is None:  # drawn: its values are what they are
            self._refresh(given.written)
            return
        try:
            if given.why is not None:
                raise Unknown(given.why)
            if number in self.leaves:
                self._refresh(given.written)
                return
            if not made and not any(is_float(t) for t in given.written):
                return
            self._make_room(sum(t.numel() for t in made) * 8)
            made = [t for t in made if cdata(t) not in given.memories]
            self._keep(operator, given, made, self._compute(func, operator, given, result), number)
        except (Unknown, RuntimeError, NotImplementedError, IndexError, TypeError, ValueError) as why:
            for tensor in (*made, *given.written):
                self._lose(tensor, str(why))

    def _compute(self, func: Any, operator: Operator, given: Given, result: Any) -> list[torch.Tensor]:
        """The floating-point results of an operator on shadows. Raises where there is none."""
        args, kwargs = given.args, dict(given.kwargs or {})
        values = list(tensors(result))
        indices = [t for t in values if not is_float(t)]
        if operator.name in CHOOSING and len(values) == 2 and len(indices) == 1 and not operator.writes:
            return [_chosen(operator.name, args, kwargs, plain(indices[0]))]
        if operator.name in ATTENTION:
            return [_attention(operator.name, args, kwargs)]
        if indices and not operator.writes:
            raise Unknown(f"{operator.name} chooses by values")
        if operator.name in FUNCTIONS_OF_HALVES and len(args) > 2:
            args = (*args[:2], False)
        written = {id(t) for t in tensors((args, kwargs)) if operator.writes}
        return [t for t in tensors(func(*args, **kwargs)) if is_float(t) and id(t) not in written]

    def _keep(
        self, operator: Operator, given: Given, made: list[torch.Tensor], shadows: list[torch.Tensor], number: int
    ) -> None:
        autocast = self._autocasts(operator)
        for tensor in made[len(shadows) :]:
            self._lose(tensor, f"{operator.name} is computed again only in part")
        for tensor, shadow in zip(made, shadows, strict=False):
            if shadow.shape != tensor.shape:
                raise Unknown(f"{operator.name} chooses a shape by values")
            digits = given.digits
            if operator.casts and not autocast and significand(tensor.dtype) < digits:
                shadow, digits = rounded(shadow, plain(tensor)), significand(tensor.dtype)
            self._set(tensor, shadow, digits, given.memories)
            self._makers[cdata(tensor)] = number
        for tensor in given.written:
            if not is_float(tensor):
                self._drop(tensor)
                continue
            memory = self._known.get(cdata(tensor))
            if memory is None or memory.flat is None:
                continue
            memory.digits = min(memory.digits, given.digits)
            if operator.casts and significand(tensor.dtype) < given.digits:
                there = self._seen(memory, plain(tensor))
                there.copy_(rounded(there, plain(tensor)))
                memory.digits = significand(tensor.dtype)
            memory.fingerprint = fingerprint(plain(tensor))
            self._makers[cdata(tensor)] = number

    def _autocasts(self, operator: Operator) -> bool:
        """Whether it is autocast that casts, and not the script."""
        enabled = getattr(self._local, "autocast", {})  # while its own casts run, autocast itself is off
        return operator.name == "_to_copy" and any(
            enabled.get(device) and torch._C._dispatch_tls_is_dispatch_key_excluded(key)
            for device, key in AUTOCAST.items()
        )

    # --------------------------------------------------------------------------------------------------- memory

    def _memory(self, tensor: torch.Tensor) -> Memory | None:
        """What is known of a tensor's memory, None for a leaf."""
        try:
            memory = self._known.get(cdata(tensor))
        except Unknown:
            return None
        if memory is None or memory.fingerprint is None:
            return memory
        if memory.fingerprint != fingerprint(plain(tensor)):
            self._drop(tensor)  # somebody wrote there unseen
            return None
        return memory

    def _shadow(self, tensor: torch.Tensor) -> torch.Tensor:
        """The shadow of a tensor; of ints and bools themselves. Raises `Unknown`."""
        value = plain(tensor)
        if not is_float(value):
            return value
        memory = self._memory(value)
        if memory is None:
            return value.to(wide(value.dtype))
        return self._seen(memory, value)

    def _seen(self, memory: Memory, value: torch.Tensor) -> torch.Tensor:
        """The part of a memory's shadow that belongs to a tensor."""
        if memory.flat is None:
            raise Unknown(memory.why)
        flat = memory.flat
        if memory.dtype != value.dtype:
            parts = {wide(memory.dtype), wide(value.dtype)}
            halves = memory.dtype.itemsize * (1 if memory.dtype.is_complex else 2)
            whole = value.dtype.itemsize * (1 if value.dtype.is_complex else 2)
            if parts != {torch.float64, torch.complex128} or halves != whole:
                raise Unknown(f"memory of {memory.dtype} is read as {value.dtype}")
            flat = flat.view(wide(value.dtype))
        if flat.numel() != value.untyped_storage().nbytes() // value.element_size():
            raise Unknown("the memory was resized")
        seen = flat.as_strided(value.shape, value.stride(), value.storage_offset())
        seen = seen.conj() if value.is_conj() else seen
        return seen._neg_view() if value.is_neg() else seen

    def _digits(self, tensor: torch.Tensor) -> float:
        memory = self._known.get(cdata(tensor))
        return significand(tensor.dtype) if memory is None else memory.digits

    def _begin(self, tensor: torch.Tensor) -> None:
        """Give a leaf that is about to be changed a shadow of what it holds now."""
        value = plain(tensor)
        if self._memory(value) is not None:
            return
        count = value.untyped_storage().nbytes() // value.element_size()
        self._make_room(count * wide(value.dtype).itemsize)
        whole = value.as_strided((count,), (1,), 0)
        self._put(value, whole.to(wide(value.dtype), copy=True), significand(value.dtype))

    def _set(self, tensor: torch.Tensor, shadow: torch.Tensor, digits: float, others: frozenset[int]) -> None:
        """Remember the shadow of a new tensor; `others` is memory that is not to be shared."""
        value = plain(tensor)
        count = value.untyped_storage().nbytes() // value.element_size()
        shadow = shadow.to(wide(value.dtype)).resolve_conj().resolve_neg()
        storage = shadow.untyped_storage()
        alone = storage.nbytes() == count * shadow.element_size() and storage._cdata not in others
        if alone and shadow.storage_offset() == value.storage_offset() == 0 and shadow.stride() == value.stride():
            flat = shadow.as_strided((count,), (1,), 0)
        else:
            flat = torch.empty(count, dtype=shadow.dtype, device=shadow.device)
            flat.as_strided(value.shape, value.stride(), value.storage_offset()).copy_(shadow)
        self._put(value, flat, digits)

    def _put(self, value: torch.Tensor, flat: torch.Tensor | None, digits: float, why: str = "") -> None:
        storage = value.untyped_storage()
        self._forget(storage._cdata)
        mark = fingerprint(value) if flat is not None else None
        memory = Memory(StorageWeakRef(storage), storage.data_ptr(), value.dtype, flat, digits, mark, why)
        self._known[storage._cdata] = memory
        self._bytes += memory.bytes

    def _refresh(self, written: tuple[torch.Tensor, ...]) -> None:
        """What was written is what it is: in its place the shadow holds the values themselves."""
        for tensor in written:
            value = plain(tensor)
            memory = self._known.get(cdata(value))
            if memory is not None and memory.flat is not None and is_float(value):
                self._seen(memory, value).copy_(value)
                memory.fingerprint = fingerprint(value)
            elif memory is not None and covers(value):
                self._drop(value)

    def _lose(self, tensor: torch.Tensor, why: str) -> None:
        """From now on nothing is known of a tensor's memory."""
        with contextlib.suppress(Unknown):
            value = plain(tensor)
            self._drop(value)
            if is_float(value):
                self._put(value, None, 0.0, why)

    def _drop(self, tensor: torch.Tensor) -> None:
        with contextlib.suppress(Unknown):
            self._forget(cdata(tensor))

    def _forget(self, key: int) -> None:
        memory = self._known.pop(key, None)
        self._makers.pop(key, None)
        self._bytes -= memory.bytes if memory is not None else 0

    def forget(self, *values: Any) -> None:
        """These tensors are leaves from now on."""
        with self._lock:
            for tensor in tensors(values):
                self._drop(tensor)

    def _given(self, args: Any) -> None:
        """A kernel is launched with these: note who made what is no leaf yet, and has been read unrounded until now."""
        for tensor in tensors(args):
            with contextlib.suppress(Unknown):
                number = self._makers.get(cdata(tensor))
                if number is not None and self._memory(tensor) is not None:
                    self.inputs_made_by.add(number)

    def _make_room(self, more: int) -> None:
        """Raises `Unknown` where so many bytes more are above the limit."""
        if self._bytes + more > min(self._sweep_at, self._limit or LIMIT):
            for key in [key for key, memory in self._known.items() if memory.weak.expired()]:
                self._forget(key)
            self._sweep_at = self._bytes + SWEEP
        if self._bytes + more > (self._limit or LIMIT) and self._bytes + more > self._room():
            raise Unknown(f"shadows of more than {self._room() >> 20} MiB")

    def _room(self) -> int:
        """Bytes that all shadows may have."""
        if self._limit or self.context.mode == "virtual" or not torch.cuda.is_initialized():
            return int(self._limit or LIMIT)
        return int(torch.cuda.mem_get_info()[0]) // PART_OF_GPU

    # ------------------------------------------------------------------------------------------------- measuring

    def against(
        self,
        actual: torch.Tensor,
        expected: torch.Tensor,
        wrong: torch.Tensor | None,
        rtol: float | None,
        atol: float | None,
    ) -> dict[str, Any]:
        """Both sides of a comparison against the float64 value of the expected one.

        `known` is the share of elements that have one; 0 where the expected side was not computed by operators that were
        followed. Errors are absolute: `rms` and `max` of the finite ones, `nonfinite` counts the others, `outside` those above
        `atol + rtol * |float64 value|`, None without a tolerance. `wrong` counts, of the elements that the comparison calls
        wrong, those where only one side agrees with float64, both, or none of them.
        """
        from . import mismatch

        with self._lock, self.paused(), computing():
            try:
                exact = self._exact(expected)
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
            return measured.told() | {"inputs_made_by": sorted(self.inputs_made_by)}

    def _exact(self, expected: torch.Tensor) -> torch.Tensor:
        """The float64 value of what is expected. Raises `Unknown` for a leaf, too: nothing was computed again."""
        if not is_float(expected):
            raise Unknown("what is expected is no floating-point tensor")
        memory = self._memory(expected) or self._by_address(expected)
        if memory is None:
            raise Unknown("what is expected was not computed by operators of PyTorch")
        return self._seen(memory, plain(expected))

    def _by_address(self, tensor: torch.Tensor) -> Memory | None:
        """The memory that a NumPy array looks at."""
        address = tensor.untyped_storage().data_ptr()
        for memory in self._known.values():
            if memory.address == address and address and not memory.weak.expired() and memory.dtype == tensor.dtype:
                same = memory.fingerprint is not None and memory.fingerprint == fingerprint(tensor)
                return memory if same else None
        return None


# ------------------------------------------------------------------------------------------------------------- tensors


@contextlib.contextmanager
def computing() -> Iterator[None]:
    """Tensors that are made inside can be changed anywhere, and have no history."""
    with torch.inference_mode(False), torch.no_grad():
        yield


def tensors(value: Any) -> Iterator[torch.Tensor]:
    """The tensors in an argument or a result."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors(item)
    elif isinstance(value, dict):
        yield from tensors(list(value.values()))


def mapped(function: Callable[[Any], Any], value: Any) -> Any:
    if isinstance(value, (list, tuple)) and not isinstance(value, torch.Size):
        return type(value)(mapped(function, item) for item in value)
    return function(value)


def plain(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor that holds the values. Raises `Unknown` where there is none."""
    value = getattr(tensor, "payload", tensor)
    if value is not tensor and tensor.tainted:  # type: ignore[attr-defined]
        raise Unknown("its values are made up")
    if value.is_meta or value.layout != torch.strided or getattr(value, "_triage_made_up", False):
        raise Unknown("it has no values")
    return value


def cdata(tensor: torch.Tensor) -> int:
    try:
        return int(plain(tensor).untyped_storage()._cdata)
    except (NotImplementedError, RuntimeError) as why:
        raise Unknown(str(why)) from why


def is_float(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def wide(dtype: torch.dtype) -> torch.dtype:
    return torch.complex128 if dtype.is_complex else torch.float64


@functools.cache
def significand(dtype: torch.dtype) -> float:
    """Significant bits of a type, the hidden one included; infinite for integers, which round nothing here."""
    if not (dtype.is_floating_point or dtype.is_complex):
        return math.inf
    try:
        return 1.0 - math.log2(torch.finfo(dtype).eps)
    except (TypeError, RuntimeError):
        return 1.0  # types of four bits


def rounded(shadow: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """A shadow in the precision of a narrower type. Where the script's own value is a neighbour of it, that value: the
    kernel reads this one."""
    there = shadow.to(value.dtype).to(shadow.dtype)
    here = value.to(shadow.dtype)
    unit = 2.0 ** (1.0 - significand(value.dtype))
    return torch.where((here - there).abs() <= here.abs() * unit, here, there)


def covers(value: torch.Tensor) -> bool:
    return value.numel() * value.element_size() == value.untyped_storage().nbytes()


def fingerprint(tensor: torch.Tensor) -> int:
    """A number that changes, as good as always, with any byte of a tensor's memory."""
    storage = tensor.untyped_storage()
    whole = storage.nbytes() // 8
    data = torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)  # type: ignore[call-overload]
    words = data[: whole * 8].view(torch.int64)
    weights = torch.arange(1, 2 * whole + 1, 2, device=storage.device)  # odd: no word is lost to overflow
    rest = data[whole * 8 :].tolist()
    return int((words * weights).sum()) ^ hash(tuple(rest))


# ----------------------------------------------------------------------------------------------------------- operators


def _chosen(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], indices: torch.Tensor) -> torch.Tensor:
    """The elements that the script's operator chose."""
    at, keep = CHOOSING[name]
    values = args[0]
    dim = kwargs["dim"] if "dim" in kwargs else args[at] if len(args) > at else -1
    if not values.dim():
        return values.clone()
    keeps = keep is None or indices.dim() == values.dim()
    chosen = values.gather(dim, indices if keeps else indices.unsqueeze(dim))
    return chosen if keeps else chosen.squeeze(dim)


def _attention(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor:
    """Attention by its formula: the fused operators have none in float64."""
    rest = [*args[3:], None, None, None, None][:4]
    bias = rest[0] if name in WITH_BIAS else kwargs.get("attn_mask")
    dropout, causal = rest[2:] if name in WITH_BIAS else rest[:2]
    if dropout or kwargs.get("dropout_p"):
        raise Unknown(f"{name} draws random numbers")
    causal = bool(causal or kwargs.get("is_causal"))
    found = aten._scaled_dot_product_attention_math(*args[:3], bias, 0.0, causal, scale=kwargs.get("scale"))
    return found[0]  # type: ignore[no-any-return]


# ----------------------------------------------------------------------------------------------------------- measuring


class Measured:
    """Errors of two sides against an exact value, gathered part by part."""

    SIDES = ("actual", "expected")

    def __init__(self, rtol: float | None, atol: float | None) -> None:
        self.tolerance = None if rtol is None or atol is None else (rtol, atol)
        self.count = self.known = 0
        self.square = 0.0
        self.finite = 0
        self.sides = {
            name: {"square": 0.0, "finite": 0, "max": 0.0, "nonfinite": 0, "outside": 0} for name in self.SIDES
        }
        self.wrong: dict[str, int] | None = None

    def add(
        self, actual: torch.Tensor, expected: torch.Tensor, exact: torch.Tensor, wrong: torch.Tensor | None
    ) -> None:
        """Take in some elements of all three, and of the mask of those that the comparison calls wrong."""
        sides = [side.to(wide(side.dtype)) for side in (actual, expected)]
        exact = exact.to(sides[0].dtype)
        known = exact.isnan().logical_not_()
        errors = [torch.where(side == exact, 0.0, (side - exact).abs()) for side in sides]
        self.count += known.numel()
        self.known += int(known.sum())
        size = exact.abs()
        finite = size[known & size.isfinite()]
        self.square += float(finite.square().sum())
        self.finite += finite.numel()
        bound = None if self.tolerance is None else size.mul(self.tolerance[0]).add_(self.tolerance[1])
        fits = _fitting(errors, bound)
        for name, error, fit in zip(self.SIDES, errors, fits, strict=True):
            side = self.sides[name]
            numbers = error[known & error.isfinite()]
            side["square"] += float(numbers.square().sum())
            side["finite"] += numbers.numel()
            side["max"] = max(side["max"], float(numbers.max()) if numbers.numel() else 0.0)
            side["nonfinite"] += int((known & error.isfinite().logical_not()).sum())
            side["outside"] += int((known & ~fit).sum())
        if wrong is not None:
            counts = _sides(wrong & known, *fits)
            self.wrong = {name: count + (self.wrong or {}).get(name, 0) for name, count in counts.items()}

    def told(self) -> dict[str, Any]:
        told: dict[str, Any] = {"known": self.known / self.count if self.count else 0.0}
        told["rms"] = math.sqrt(self.square / self.finite) if self.finite else 0.0
        for name, side in self.sides.items():
            rms = math.sqrt(side["square"] / side["finite"]) if side["finite"] else 0.0
            outside = None if self.tolerance is None else side["outside"]
            told[name] = {"rms": rms, "max": side["max"], "nonfinite": side["nonfinite"], "outside": outside}
        return told if self.wrong is None else told | {"wrong": self.wrong}


def _fitting(errors: list[torch.Tensor], bound: torch.Tensor | None) -> list[torch.Tensor]:
    """Where each side is right: inside the tolerance, or, without one, with an error clearly below that of the other."""
    if bound is not None:
        return [error <= bound for error in errors]
    one, other = errors
    return [one.isfinite() & ~(other <= one * CLEAR), other.isfinite() & ~(one <= other * CLEAR)]


def _sides(wrong: torch.Tensor, actual: torch.Tensor, expected: torch.Tensor) -> dict[str, int]:
    counts = {
        "count": wrong,
        "actual_right": wrong & actual & ~expected,
        "expected_right": wrong & expected & ~actual,
        "both": wrong & actual & expected,
        "none": wrong & ~actual & ~expected,
    }
    return {name: int(chosen.sum()) for name, chosen in counts.items()}
