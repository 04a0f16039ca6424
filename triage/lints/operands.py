"""Operands of tile operators: where they live and what they hold, against what the target's instructions take."""

from __future__ import annotations

from collections.abc import Iterator

from triage.lints.devices import Device
from triage.lints.hazard import Hazard, label
from triage.lints.program import Program, Visit, shared, shown
from triage.model import BufferInfo

GEMMS = frozenset({"gemm", "wgmma_gemm", "tcgen05_gemm"})
#: the first architecture whose tensor cores TileLang gives every gemm to, by `mma` instructions
FIRST_MMA = 80
#: the architectures with warp-group instructions (`wgmma`), and what these ask of a tile of 8-bit elements
HOPPER = frozenset({"sm_90", "sm_90a"})
WGMMA_ROWS, WGMMA_THREADS, WGMMA_K = 64, 128, 32
#: 8-bit elements → the accumulators that go with them
ACCUMULATORS = {
    "float8": frozenset({"float32", "float16"}),
    "int8": frozenset({"int32"}),
    "uint8": frozenset({"int32"}),
}


def scopes(program: Program, device: Device, source: str | None) -> Iterator[Hazard]:
    """A matrix of `T.gemm` in global memory, or an accumulator that is neither in registers nor in tensor memory."""
    if program.target_kind() != "cuda":
        return
    for visit, operands in gemms(program):
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
    for visit, operands in gemms(program):
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


def not_k_major(program: Program, device: Device, source: str | None) -> Iterator[Hazard]:
    """`T.gemm` over 8-bit elements on Hopper where an operand does not have the elements of K side by side.

    The warp-group instructions of 8-bit types read no other order. 0.1.15 then takes `mma.sync`, without a word, which
    Hopper carries out far slower. Told only where nothing else (too few rows, too few threads) decides for `mma.sync`.
    """
    threads = program.threads
    if (
        program.target_kind() != "cuda"
        or device.arch not in HOPPER
        or threads is None
        or threads % WGMMA_THREADS
        or program.kernel.pass_configs.get("tl.disable_wgmma")
        or (source is not None and "mma_sync" not in source)
    ):
        return
    for visit, operands in gemms(program):
        params = visit.statement.op.params if visit.statement.op is not None else {}
        sizes = [params.get(name) for name in "MK"]
        if _name(visit) != "gemm" or operands.keys() != set("ABC") or not all(isinstance(n, int) for n in sizes):
            continue
        rows, depth = (n for n in sizes if isinstance(n, int))
        a, b, c = (operands[role] for role in "ABC")
        elements = {operand.dtype.partition("_")[0] for operand in (a, b)}
        fits = all(c.dtype in ACCUMULATORS.get(element, ()) for element in elements)
        if not fits or not shared(b) or rows < WGMMA_ROWS or depth % WGMMA_K:
            continue
        wrong = {"A": (a, params.get("transpose_A") is True), "B": (b, params.get("transpose_B") is False)}
        for role, (buffer, is_wrong) in wrong.items():
            if is_wrong:
                fields = {"operand": role, "buffer": shown(buffer), "dtype": buffer.dtype, "arch": device.arch}
                where = label(buffer.at, f"{shown(buffer)} has the elements of K in its rows, not its columns")
                yield Hazard("gemm-operand-not-k-major", shown(buffer), visit.at, labels=where, fields=fields)


def gemms(program: Program) -> Iterator[tuple[Visit, dict[str, BufferInfo]]]:
    """Every gemm with its A, B and C, which are its first three arguments, printed as `name[…]`."""
    for visit in program.visits:
        op = visit.statement.op
        if op is None or op.name not in GEMMS:
            continue
        buffers = [program.buffers.get(arg.partition("[")[0]) for arg in op.args[: len("ABC")]]
        yield visit, {role: b for role, b in zip("ABC", buffers, strict=False) if b is not None}


def _name(visit: Visit) -> str:
    return visit.statement.op.name if visit.statement.op is not None else ""
