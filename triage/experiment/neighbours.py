"""Passing neighbours: the nearest thread count, stage count, architecture, data type or extent with which a kernel comes
through, everything else unchanged. A neighbour tells what the fault depends on; it need not compute the same."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence

from triage.experiment.choose import Unit, threads
from triage.experiment.minimal import OutOfBudget
from triage.experiment.oracle import Verdict, told
from triage.experiment.search import Search
from triage.experiment.switches import Setting, over
from triage.experiment.template import Change
from triage.knowledge.switches import Effect, Switch
from triage.model import Neighbour

#: data types in whose place others stand, the nearest first; integers that count are left alone
NEAR = {
    "float16": ("bfloat16", "float32"),
    "bfloat16": ("float16", "float32"),
    "float32": ("float16",),
    "float64": ("float32",),
    "int8": ("uint8", "float16"),
    "uint8": ("int8", "float16"),
}
FLOAT8 = ("float8_e4m3fn", "float8_e5m2", "float16")
FALLBACK = ("float16", "float32")
COUNTING = frozenset({"int16", "int32", "int64", "uint16", "uint32", "uint64", "bool", "handle"})
#: an extent above this is not the edge of a tile
LARGEST_TILE = 1024
#: buffers that are named of those that have an extent or data type
SHOWN = 4
#: what stands for a symbolic extent: a multiple of every tile edge in use
CONSTANT = 128
#: what a neighbour is of, by the kind of a switch or unit
KINDS = {
    "threads": "threads",
    "target": "architecture",
    "loop-annotation": "num_stages",
    "dtype": "dtype",
    "symbol": "extent",
    "extent": "extent",
}


def nearest(
    search: Search, options: Sequence[Setting], trial: Callable[[Sequence[Setting]], Verdict]
) -> tuple[tuple[Neighbour, ...], bool]:
    """The nearest value of each thing that works, and whether everything was tried."""
    values = [s for s in options if s.switch.kind in ("threads", "target")]
    named = [number for number in _numbers(search) if number <= LARGEST_TILE]
    units = [unit for unit in search.units if unit.kind != "extent" or unit.value in named]
    sizes = [*named, *(unit.value for unit in search.units if unit.kind == "extent")]
    values += [setting for unit in units for setting in of_unit(unit, sizes)]
    found = []
    try:
        for _, group in itertools.groupby(values, key=lambda setting: setting.slot):
            working = next((s for s in group if trial([s]) == Verdict.NONE), None)
            if working is not None:
                found.append(Neighbour(KINDS[working.switch.kind], working.what, working.was, working.now))
    except OutOfBudget:
        return tuple(found), False
    return tuple(found), True


def _numbers(search: Search) -> list[int]:
    """The numbers that the error names."""
    text = told(search.error.message) if search.error else ""
    return [int(number) for number in dict.fromkeys(re.findall(r"(?<![\w.])\d{1,6}(?![\w.])", text))]


def nearest_of(unit: Unit, passing: Sequence[int]) -> Neighbour | None:
    """Of the passing values of a launch or a stage count that were tried for another reason, the nearest."""
    if unit.kind not in KINDS or not passing:
        return None
    now = unit.value[0] if isinstance(unit.value, (list, tuple)) else unit.value
    near = min(passing, key=lambda value: (abs(value - now), value))
    what = "threads" if unit.kind == "threads" else f"{unit.key} of the {over(unit)}"
    return Neighbour(KINDS[unit.kind], what, threads(unit) if unit.kind == "threads" else str(now), str(near))


def of_unit(unit: Unit, sizes: Sequence[int] = ()) -> list[Setting]:
    """Other values of a stage count, a data type or an extent, the nearest first; `sizes` are extents worth trying."""
    if unit.kind == "loop-annotation" and unit.key == "num_stages" and isinstance(unit.value, int):
        stages = [n for n in unit.choices if isinstance(n, int)]
        return [
            _value(unit, f"num_stages of the {over(unit)}", n)
            for n in sorted(stages, key=lambda n: abs(n - unit.value))
        ]
    if unit.kind == "dtype" and unit.value not in COUNTING:
        other = FLOAT8 if str(unit.value).startswith("float8") else NEAR.get(str(unit.value), FALLBACK)
        return [
            _value(unit, f"data type of {', '.join(unit.buffers[:SHOWN])}", name)
            for name in other
            if name != unit.value
        ]
    if unit.kind == "extent":
        what = f"extent of {', '.join(unit.buffers[:SHOWN])}"
        return [_value(unit, what, size) for size in tile_edges(unit.value, sizes)]
    if unit.kind == "symbol":
        return [_value(unit, f"extent {unit.value}", CONSTANT, "symbolic")]
    return []


def tile_edges(size: int, others: Sequence[int]) -> list[int]:
    """Usual edges of tiles near a size, multiples of 8, 16 and 32 and powers of two, and `others`, the nearest first."""
    around = {size // step * step + more for step in (8, 16, 32) for more in (0, step)}
    around |= {(1 << size.bit_length()) >> 1, 1 << size.bit_length(), (1 << size.bit_length()) >> 2}
    around |= set(others)
    return sorted((edge for edge in around if edge >= 8 and edge != size), key=lambda edge: (abs(edge - size), edge))


def _value(unit: Unit, what: str, now: object, was: str = "") -> Setting:
    row = Switch(what, unit.kind, Effect.CHANGES, "")
    return Setting(row, unit.id, what, was or str(unit.value), str(now), Effect.CHANGES, change=Change(unit.id, now))
