"""Small kernel records, written the way the recorder writes them, for the tests of the detectors."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

from triage.lints import Hazard, inspect, load_devices
from triage.model import Access, BufferInfo, KernelRecord, Launch, Loop, Place, Statement, TileOp

DEVICES = load_devices(Path(__file__).parents[2] / "rules" / "reference" / "devices.toml")
BITS = {"float16": 16, "bfloat16": 16, "float32": 32, "int32": 32, "float8_e4m3fn": 8, "int8": 8}
FILE = "kernel.py"
_ids = itertools.count()


def buffer(name: str, shape: tuple[int | str, ...], scope: str, dtype: str = "float32", line: int = 1) -> BufferInfo:
    count = 1
    for extent in shape:
        count = count * extent if isinstance(extent, int) else 0
    known = all(isinstance(extent, int) for extent in shape)
    bits = BITS[dtype]
    size = count * bits // 8 if known else None
    return BufferInfo(name, scope, dtype, shape, bits, size, param=scope == "global", at=Place(FILE, line))


def region(name: str, mode: str, *dims: tuple[int | None, int | None, int | None], **more: Any) -> Access:
    """Dimensions as (low, high, extent); the printed index is the constant, or `i` where it varies."""
    index = tuple(str(low) if low == high and low is not None else "i" for low, high, _ in dims)
    return Access(
        name,
        index,
        tuple(extent for _, _, extent in dims),
        tuple(low for low, _, _ in dims),
        tuple(high for _, high, _ in dims),
        exact=more.pop("exact", True),
        mode=mode,
        **more,
    )


def whole(of: BufferInfo, mode: str) -> Access:
    return region(of.name, mode, *((0, 0, extent if isinstance(extent, int) else None) for extent in of.shape))


def op(name: str, *accesses: Access, line: int = 10, **params: Any) -> Statement:
    text = f"{name}({', '.join(a.buffer for a in accesses)})"
    call = TileOp(name, tuple(f"{a.buffer}[…]" for a in accesses), params)
    return Statement(str(next(_ids)), "op", Place(FILE, line), text, op=call, accesses=accesses)


def store(*accesses: Access, line: int = 10) -> Statement:
    text = " = ".join(f"{a.buffer}[…]" for a in accesses)
    return Statement(str(next(_ids)), "store", Place(FILE, line), text, accesses=accesses)


def loop(kind: str, extent: int | str, *body: Statement, line: int = 9, **annotations: Any) -> Statement:
    head = Loop("i", kind, 0, extent, annotations)
    return Statement(str(next(_ids)), "for", Place(FILE, line), f"for i in {kind}({extent})", loop=head, body=body)


def branch(condition: str, *body: Statement, divergent: bool | None = None, line: int = 9, **more: Any) -> Statement:
    return Statement(
        str(next(_ids)),
        "if",
        Place(FILE, line),
        f"if {condition}:",
        condition=condition,
        divergent=divergent,
        body=body,
        **more,
    )


def call(text: str, line: int = 10) -> Statement:
    return Statement(str(next(_ids)), "call", Place(FILE, line), text)


def kernel(buffers: list[BufferInfo], *statements: Statement, **more: Any) -> KernelRecord:
    launch = Launch(more.pop("grid", (8,)), more.pop("threads", (128,)), more.pop("cluster", ()), Place(FILE, 5))
    target = more.pop("target", {"kind": "cuda", "arch": "sm_90a"})
    return KernelRecord("main", target, buffers=tuple(buffers), launch=launch, statements=statements, **more)


def found(record: KernelRecord, arch: str = "sm_90a", source: str | None = None) -> list[Hazard]:
    return list(inspect(record, DEVICES[arch], source))


def only(record: KernelRecord, kind: str, arch: str = "sm_90a", source: str | None = None) -> Hazard:
    hazards = found(record, arch, source)
    assert [hazard.kind for hazard in hazards] == [kind]
    return hazards[0]


def kinds(record: KernelRecord, arch: str = "sm_90a", source: str | None = None) -> list[str]:
    return [hazard.kind for hazard in found(record, arch, source)]
