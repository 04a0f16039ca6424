"""The values of a kernel's tiles after each of its statements, on the device and on the twin, for one launch with the same arguments.

The program is changed: behind each statement that writes an on-chip buffer a loop copies that buffer to a tensor of its own, which the
kernel takes as a further parameter. What stands in a loop is copied in each of its rounds, and the last one stays. The changed program
runs on the device and on the twin, and both copies are compared: `segment` events tell, in the order of the program, what came out.

The device is asked for more than it was before, so that a fault which depends on timing or layouts may go; the comparisons of the script say
whether it is still there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from . import tir, units

#: buffers that are copied, and elements of a copy
MOST, ELEMENTS = 16, 1 << 22
#: what every thread of a block has one of
SHARED = ("shared", "shared.dyn", "local.fragment")
#: relative to the element and to the rms of all: more than two right programs are apart, by the bits of a type
APART = {8: 0.3, 16: 0.05}
APART_OF_WIDE = 0.02


@dataclass(frozen=True)
class Segment:
    """A copy of `buffer` behind the statement `text`. `shape` begins with the blocks of the launch."""

    buffer: str
    text: str
    place: dict[str, Any] | None
    shape: tuple[int, ...]
    dtype: str


@dataclass
class Segments:
    """The copies of one kernel; `func` is the program that makes them, with one more parameter for each."""

    func: Any
    made: list[Segment] = field(default_factory=list)


def instrument(func: Any, is_user: Callable[[str], bool], pipelined: bool) -> Segments:
    """The program with copies. `pipelined` False leaves out what stands in pipelined loops, whose schedule copies would change."""
    from tvm import tirx

    at = {path: statement for path, _, statement in units.walk(func.body)}
    blocks = list(blocks_of(at.values(), tirx))
    if any(extent is None for _, extent in blocks):
        return Segments(func)
    found = Segments(func)
    edits: dict[str, list[tuple[str, list[str], Any]]] = {}
    buffers: list[Any] = []
    for path, buffer, unit in _written(func, at, is_user, tirx):
        shape = [extent for _, extent in blocks] + [_constant(extent) for extent in buffer.shape]
        behind_pipeline = any(_is_pipelined(at[outer], tirx) for outer in _outer(path) if outer in at)
        if None in shape or math.prod(shape) > ELEMENTS or len(buffers) == MOST or (behind_pipeline and not pipelined):
            continue
        copy = tirx.decl_buffer(shape, buffer.dtype, f"triage_{len(buffers)}", strides=_strides(shape))
        edits.setdefault(path, []).append(("after", [], _copy(copy, buffer, [var for var, _ in blocks], tirx)))
        buffers.append(copy)
        found.made.append(Segment(str(buffer.name), unit["text"], unit["span"], tuple(shape), str(buffer.dtype)))
    if not buffers:
        return found
    handles = [tirx.Var(f"{buffer.name}_handle", "handle") for buffer in buffers]
    body = tir.Editor(tirx, edits).rewrite(func.body, "0")
    known = {**dict(func.buffer_map.items()), **dict(zip(handles, buffers, strict=True))}
    found.func = tirx.PrimFunc([*func.params, *handles], body, func.ret_type, known, func.attrs)
    return found


def _written(
    func: Any, at: dict[str, Any], is_user: Callable[[str], bool], tirx: Any
) -> Iterator[tuple[str, Any, Any]]:
    """(path behind which to copy, buffer, unit) of what statements write, each buffer once behind one path."""
    declared: dict[str, list[Any]] = {}
    threads = 1
    for statement in at.values():
        if isinstance(statement, tirx.SBlock):
            for buffer in statement.alloc_buffers:
                declared.setdefault(str(buffer.name), []).append(buffer)
            for extent in statement.annotations.get(tir.LAUNCH, ()):
                threads *= int(extent)
    scopes = (*SHARED, "local") if threads == 1 else SHARED
    seen: set[tuple[str, str]] = set()
    for unit in units.Reader(func, is_user).read():
        if unit["kind"] != "statement":
            continue
        path = next((o for o in _outer(unit["path"]) if _is_parallel(at.get(o), tirx)), unit["path"])
        for name in unit["writes"]:
            known = declared.get(name, ())
            if len(known) == 1 and str(known[0].scope()) in scopes and (path, name) not in seen:
                seen.add((path, name))
                yield path, known[0], unit


def _outer(path: str) -> Iterator[str]:
    """The paths of the statements around, the outermost first."""
    parts = path.split(".")
    return (".".join(parts[:count]) for count in range(1, len(parts)))


def _is_parallel(statement: Any, tirx: Any) -> bool:
    kinds = (tirx.ForKind.PARALLEL, tirx.ForKind.VECTORIZED)
    return isinstance(statement, tirx.For) and statement.kind in kinds


def _is_pipelined(statement: Any, tirx: Any) -> bool:
    return isinstance(statement, tirx.For) and "num_stages" in statement.annotations


def blocks_of(statements: Any, tirx: Any) -> Iterator[tuple[Any, int | None]]:
    """The variables that number the blocks of a launch, the outermost loop first, each with how many there are if that is constant."""
    for statement in statements:
        binding = statement.thread_binding if isinstance(statement, tirx.For) else None
        if binding is not None and str(binding.thread_tag).startswith("blockIdx"):
            yield statement.loop_var, _constant(statement.extent)


def _constant(extent: Any) -> int | None:
    value = getattr(extent, "value", extent)
    return int(value) if isinstance(value, int) else None


def _strides(shape: list[int]) -> list[int]:
    return [math.prod(shape[number + 1 :]) for number in range(len(shape))]


def _copy(copy: Any, buffer: Any, blocks: list[Any], tirx: Any) -> Any:
    loops = [tirx.Var(f"triage_i{number}", "int32") for number in range(len(buffer.shape))]
    body = tirx.BufferStore(copy, tirx.BufferLoad(buffer, loops), [*blocks, *loops])
    own = str(buffer.scope()) == "local"  # a thread's own is spread over nobody
    kind = tirx.ForKind.SERIAL if own else tirx.ForKind.PARALLEL
    for var, extent in reversed(list(zip(loops, buffer.shape, strict=True))):
        body = tirx.For(var, 0, extent, kind, body)
    return body


# ---------------------------------------------------------------------------------------------------------- the launch


class Launch:
    """One launch of a changed kernel: what it takes besides its arguments, and what came out on either side."""

    def __init__(self, segments: Segments, outputs: list[int], args: tuple[Any, ...]) -> None:
        import torch

        from .virtual.computed import copied

        self.segments, self.outputs = segments, outputs
        tensors = [a for a in args if isinstance(a, torch.Tensor)]
        device = tensors[0].device if tensors else torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.before = copied(args)
        self.copies = [_fresh(made, device) for made in segments.made]

    def compare(self, result: Any) -> Iterator[dict[str, Any]]:
        """What came out, segment by segment. Raises `twin.Unsupported` or `computed.NotComputed` where the twin cannot say."""
        import torch

        from .outputs import returned
        from .virtual.computed import as_arrays, on_twin
        from .virtual.signature import signature

        known = signature(self.segments.func, self.outputs)
        mine = [_fresh(made, torch.device("cpu")) for made in self.segments.made]
        fresh = [torch.empty_like(value, device="cpu") for value in returned(result)[: len(self.outputs)]]
        on_twin(self.segments.func, known, as_arrays(known, [*self.before, *mine], fresh))
        for number, (made, theirs, own) in enumerate(zip(self.segments.made, self.copies, mine, strict=True)):
            yield {
                "number": number, "buffer": made.buffer, "text": made.text, "at": made.place, **differing(own, theirs.cpu())
            }  # fmt: skip


def _fresh(made: Segment, device: Any) -> Any:
    """Memory that shows where nothing was written: NaN in floating-point numbers."""
    import tilelang.language as language
    import torch

    dtype = language.dtype(made.dtype).as_torch()
    if dtype.is_floating_point and dtype.itemsize > 1:
        return torch.full(made.shape, math.nan, dtype=dtype, device=device)
    return torch.zeros(made.shape, dtype=dtype, device=device)


def differing(own: Any, theirs: Any) -> dict[str, Any]:
    """How many elements of a copy the device has otherwise than the twin, of those that the twin has as numbers."""
    bits = own.element_size() * 8
    if not own.is_floating_point():
        wrong = own != theirs
        return {
            "wrong": int(wrong.sum()),
            "total": own.numel(),
            "most": float((own.double() - theirs.double()).abs().max()),
        }
    own, theirs = own.float().double(), theirs.float().double()
    known = own.isfinite()
    if not bool(known.any()):
        return {"wrong": 0, "total": 0, "most": 0.0}
    scale = own[known].square().mean().sqrt()
    error = (own - theirs).abs()
    allowed = APART.get(bits, APART_OF_WIDE) * own.abs().clamp(min=float(scale))
    wrong = known & ~(error <= allowed)
    finite = known & theirs.isfinite()
    return {
        "wrong": int(wrong.sum()),
        "total": int(known.sum()),
        "most": float(error[finite].max()) if bool(finite.any()) else math.nan,
    }
