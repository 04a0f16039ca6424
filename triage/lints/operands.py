"""Operands of tile operators: where they live and what they hold, against what the target's instructions take."""

from __future__ import annotations

from collections.abc import Iterator

from triage.lints.devices import Device
from triage.lints.hazard import Hazard, label
from triage.lints.program import Program, Visit, shown
from triage.model import BufferInfo

GEMMS = frozenset({"gemm", "wgmma_gemm", "tcgen05_gemm"})
#: the first architecture whose tensor cores TileLang gives every gemm to, by `mma` instructions
FIRST_MMA = 80


def scopes(program: Program, device: Device, source: str | None) -> Iterator[Hazard]:
    """A matrix of `T.gemm` in global memory, or an accumulator that is neither in registers nor in tensor memory."""
    if program.target_kind() != "cuda":
        return
    for visit, operands in _gemms(program):
        for role, buffer in operands.items():
            if buffer.scope == "global" or (role == "C" and buffer.scope in ("shared", "shared.dyn")):
                fields = {"op": _name(visit), "operand": role, "buffer": shown(buffer), "scope": buffer.scope}
                where = label(buffer.at, f"{shown(buffer)} lives in {buffer.scope}")
                yield Hazard("gemm-operand-scope", shown(buffer), visit.at, labels=where, fields=fields)


def fp8(program: Program, device: Device, source: str | None) -> Iterator[Hazard]:
    """`T.gemm` over 8-bit floats on tensor cores without them.

    The kernel compiles, and CUTLASS's instruction wrapper traps when it runs.
    """
    number = device.arch.removeprefix("sm_")
    if device.fp8_mma is not False or not number.isdigit() or int(number) < FIRST_MMA:
        return
    for visit, operands in _gemms(program):
        narrow = [
            operands[role] for role in ("A", "B") if role in operands and operands[role].dtype.startswith("float8")
        ]
        if len(narrow) == len({"A", "B"}):
            fields = {
                "op": _name(visit),
                "buffer": shown(narrow[0]),
                "dtype": narrow[0].dtype,
                "arch": device.arch,
                "device": device.name,
            }
            where = label(narrow[0].at, f"{shown(narrow[0])} holds {narrow[0].dtype}")
            yield Hazard("fp8-gemm-unsupported", shown(narrow[0]), visit.at, labels=where, fields=fields)


def _gemms(program: Program) -> Iterator[tuple[Visit, dict[str, BufferInfo]]]:
    """Every gemm with its A, B and C, which are its first three arguments, printed as `name[…]`."""
    for visit in program.visits:
        op = visit.statement.op
        if op is None or op.name not in GEMMS:
            continue
        buffers = [program.buffers.get(arg.partition("[")[0]) for arg in op.args[: len("ABC")]]
        yield visit, {role: b for role, b in zip("ABC", buffers, strict=False) if b is not None}


def _name(visit: Visit) -> str:
    return visit.statement.op.name if visit.statement.op is not None else ""
