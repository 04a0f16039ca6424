"""Gather what a fault needs and what makes it go, by experiments on the captured kernel.

statements, top down, then inside the loops that are left                 while the same fault stays
loops and branches around what is left: does it need them?
annotations, loop kinds, thread counts, symbols, data types               which of them make the fault go?
each of what is left, alone, against the whole program                    the counterfactual
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence

from triage.experiment import choose, lines, oracle
from triage.experiment.choose import Evidence, Unit, inside, mentions, short
from triage.experiment.minimal import OutOfBudget, minimize
from triage.experiment.oracle import Verdict
from triage.experiment.search import Search
from triage.experiment.template import Change
from triage.model import ErrorRecord


def gather(search: Search, gone: Sequence[Change]) -> Evidence:
    """Minimize the program without `gone`, then ask what makes the fault go."""
    error = search.error
    assert error is not None
    text = oracle.told(error.message)
    kept, removed, minimal = _statements(search, list(gone), text)
    around: list[Unit] = []
    settings: list[Unit] = []
    alone: dict[str, Verdict] = {}
    declared = search.of_kind("allocation", "parameter")
    try:
        around, removed = _wrappers(search, kept, removed)
        _settings(search, kept, around, removed, text, alone, list(gone), settings)
        for unit in [u for u in choose.candidates(kept, around) if u.id not in alone]:
            alone[unit.id] = search.ask([*gone, Change(unit.id)])
        for unit in [u for u in declared if u.kind == "allocation" and not kept]:
            alone[unit.id] = search.ask([*removed, Change(unit.id)])
    except OutOfBudget:
        minimal = False
    return Evidence(
        tuple(kept), tuple(around), tuple(settings), alone, tuple(declared), text, search.key.pass_name,
        operators(error), minimal, _whole(search),
    )  # fmt: skip


def _whole(search: Search) -> frozenset[str]:
    """The units that hold every statement of the kernel."""
    statements = search.of_kind("statement", "bind")
    holders = [*statements, *search.of_kind("loop", "if", "while")]
    return frozenset(u.id for u in holders if all(s is u or inside(s, u) for s in statements))


NODE = re.compile(r"\btl::(?:\w+::)*(\w+?)(?:Op)?Node::")
OP_NAME = re.compile(r"\btl\.(?:tileop\.)?(\w+)|\bT\.(\w+)")


def operators(error: ErrorRecord) -> frozenset[str]:
    """Tile operators that the error names: in its text, or by the class of a frame (`GemmNode` is `gemm`)."""
    named = {a or b for a, b in OP_NAME.findall(oracle.told(error.message))}
    for frame in error.frames:
        named |= {name.lower() for name in NODE.findall(frame.function)}
    return frozenset(named)


def _statements(search: Search, gone: list[Change], text: str) -> tuple[list[Unit], list[Change], bool]:
    """Level by level, the statements without which the fault goes; the changes that remove the others."""
    removed = list(gone)
    out = {change.unit for change in gone}
    droppable = [u for u in search.of_kind("statement", "bind", "loop", "if", "while") if u.id not in out]
    kept: list[Unit] = []
    minimal = True
    level = _outermost(droppable)
    assert search.error is not None
    hint = operators(search.error)
    while level:
        if not minimal:
            kept += level
            break
        holds = functools.partial(_still, search, tuple(removed), tuple(level))
        stay, minimal = minimize(level, holds, _guesses(level, droppable, hint, text))
        removed += [Change(u.id) for u in level if u not in stay]
        kept += stay
        level = _outermost([u for u in droppable if any(inside(u, s) for s in stay)])
    kept.sort(key=lambda u: search.units.index(u))
    return kept, removed, minimal


def _still(search: Search, removed: Sequence[Change], level: Sequence[Unit], some: list[Unit]) -> bool:
    """Whether the fault is there with only `some` of a level."""
    return search.ask([*removed, *(Change(u.id) for u in level if u not in some)]) == Verdict.SAME


def _outermost(units: Sequence[Unit]) -> list[Unit]:
    """Those in no other of them. Units that cannot be dropped, as attributes, may lie between a level and the next."""
    return [unit for unit in units if not any(inside(unit, other) for other in units)]


def _guesses(level: list[Unit], everything: list[Unit], ops: frozenset[str], text: str) -> list[list[Unit]]:
    """Subsets of a level to try first: what holds an operator the error names, or works on a buffer it names."""

    def has(unit: Unit, test: Callable[[Unit], bool]) -> bool:
        return test(unit) or any(test(other) for other in everything if inside(other, unit))

    by_op = [u for u in level if has(u, lambda s: s.op is not None and short(s.op) in ops)]
    by_buffer = [u for u in level if has(u, lambda s: any(mentions(text, name) for name in s.buffers))]
    by_line = [u for u in level if has(u, lambda s: named_line(text, s))]
    return [guess for guess in (by_line, by_op, by_buffer) if guess]


def named_line(text: str, unit: Unit) -> bool:
    """Whether an error text cites the line of a statement: `k.py(7)`, `k.py:7`, `line 7 of /home/user/k.py`."""
    if not unit.span:
        return False
    name, line = re.escape(str(unit.span["file"]).rsplit("/", 1)[-1]), unit.span["line"]
    return re.search(rf"{name}\"?[(:]{line}\b|\bline {line} of \"?[^\n]*{name}", text) is not None


def _wrappers(search: Search, kept: list[Unit], removed: list[Change]) -> tuple[list[Unit], list[Change]]:
    """The loops and branches that have to be around what is left; the others are opened."""
    needed = []
    paths = {unit.path for unit in kept}
    for unit in search.of_kind("loop-around", "if-around", "attribute-around"):
        holds_some = any(str(path).startswith(f"{unit.path}.") for path in paths)
        if not holds_some or Change(unit.id) in removed:
            continue
        verdict = search.ask([*removed, Change(unit.id)])
        if verdict == Verdict.SAME:
            removed = [*removed, Change(unit.id)]
        elif verdict != Verdict.UNKNOWN:
            needed.append(unit)
    return needed, removed


def _settings(
    search: Search,
    kept: list[Unit],
    around: list[Unit],
    removed: list[Change],
    text: str,
    alone: dict[str, Verdict],
    gone: list[Change],
    found: list[Unit],
) -> None:
    """Into `found`, settings whose change makes the fault go in the reduced program; into `alone`, what the whole
    program shows with it."""
    paths = {unit.path for unit in (*kept, *around)}
    for unit in search.of_kind(*choose.SETTINGS):
        if unit.path is not None and unit.kind not in ("annotation", "threads") and unit.path not in paths:
            continue
        if unit.kind == "annotation" and unit.key not in lines.WRITERS:
            continue  # part of a declaration, as `barrier_init` is
        if unit.kind == "dtype" and not (
            mentions(text, str(unit.value)) or not choose.KNOWN_DTYPE.fullmatch(str(unit.value))
        ):
            continue
        changes = trials(unit)
        if unit.kind == "threads" and kept and not choose.THREADS.search(text):
            changes = changes[:1]  # the error does not ask for it; one count shows whether threads matter at all
        for change in changes:
            if unit.kind != "threads" and search.ask([*removed, change]) == Verdict.SAME:
                continue
            verdict = search.ask([*gone, change])
            if unit.kind == "threads" and verdict == Verdict.SAME:
                continue  # what is left after reducing may need other threads than the whole: only the whole tells
            if alone.get(unit.id) != Verdict.NONE:
                alone[unit.id] = verdict
            if unit not in found:
                found.append(unit)
            if verdict == Verdict.NONE:
                break


def trials(unit: Unit) -> list[Change]:
    """The changes by which a setting is tried: taken away, or for thread counts each of the usual ones."""
    if unit.kind == "threads":
        rest = list(unit.value[1:]) if isinstance(unit.value, (list, tuple)) else [1, 1]
        return [
            Change(unit.id, [count, *rest])
            for count in (128, *(c for c in unit.choices if c != 128))
            if count in unit.choices
        ]
    return [Change(unit.id)]
