"""Which of the things a fault needs is the one to point at. Pure.

Minimizing leaves a set of statements that all have to be there for the fault to show, and experiments on the whole
program show what alone makes it go. That set is not the answer yet: a matrix product raises, although the thread
count is what nobody can divide by; two reductions and an addition conflict, and the addition is where they meet.
The order here says how one of them is chosen:

1. a setting (annotation, thread count, stage count, extent, data type) whose change makes the fault go while every
   statement stays, if the error text or the failing pass is about such a setting;
2. the one statement that is left;
3. of several, the one that the error is about: its operator is named by the compiler's frames, it works on the
   buffers the text names, it is inside the others, it shares buffers with most of them; and the last among equals;
4. a declaration, if nothing else is left.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from triage.experiment.oracle import Verdict
from triage.model import Confidence

STATEMENTS = ("statement", "bind", "loop", "if", "while", "attribute-around")
SETTINGS = ("annotation", "op-annotation", "loop-annotation", "loop-kind", "threads", "symbol", "dtype")


@dataclass(frozen=True)
class Unit:
    """One thing an experiment can take away or change; the fields are those of `harness/units.py`."""

    id: str
    kind: str
    text: str = ""
    path: str | None = None
    parent: str | None = None
    span: Mapping[str, Any] | None = None
    op: str | None = None
    buffers: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    loop: Mapping[str, Any] | None = None
    key: str | None = None
    value: Any = None
    choices: tuple[Any, ...] = ()

    @staticmethod
    def of(data: Mapping[str, Any]) -> Unit:
        tuples = ("buffers", "reads", "writes", "choices")
        fields: dict[str, Any] = {k: v for k, v in data.items() if k in Unit.__dataclass_fields__}
        return Unit(**fields | {k: tuple(fields[k]) for k in tuples if k in fields})


@dataclass(frozen=True)
class Evidence:
    """What the experiments showed.

    `kept`: the statements that the fault needs, in program order; `around`: loops and branches that have to be around
    them; `alone`: what the whole program shows without one unit, by its id; `settings`: those whose change was tried
    and made the fault go in the reduced program; `declarations`: all allocations and parameters; `whole`: ids of units
    without which no statement is left, so that a kernel without them proves nothing.
    """

    kept: tuple[Unit, ...]
    around: tuple[Unit, ...]
    settings: tuple[Unit, ...]
    alone: Mapping[str, Verdict]
    declarations: tuple[Unit, ...]
    text: str
    pass_name: str = ""
    ops: frozenset[str] = frozenset()
    minimal: bool = True
    whole: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Choice:
    """The unit to point at, or none; `others` are to be labelled, each with what it has to do with the fault."""

    unit: Unit | None
    confidence: Confidence | None
    how: str
    others: tuple[tuple[Unit, str], ...] = field(default=())


def choose(evidence: Evidence) -> Choice:
    culprits = candidates(evidence.kept, evidence.around)
    setting = spoken_setting(evidence, culprits)
    if setting is not None:
        return _setting(evidence, setting, culprits)
    if len(culprits) == 1:
        return _with_alternatives(evidence, _single(evidence, culprits[0]))
    if culprits:
        return _with_alternatives(evidence, _several(evidence, culprits))
    return _declaration(evidence)


def _with_alternatives(evidence: Evidence, choice: Choice) -> Choice:
    """A launch or a pipeline whose change alone cures as well is a label, and then nothing is confirmed."""
    other = [
        unit
        for unit in evidence.settings
        if unit.kind in ("threads", "loop-annotation") and evidence.alone.get(unit.id) == Verdict.NONE
    ]
    if not other:
        return choice
    confidence = Confidence.LIKELY if choice.confidence == Confidence.CONFIRMED else choice.confidence
    labels = tuple((unit, f"{changed(unit)} the kernel lowers, too") for unit in other)
    return replace(choice, confidence=confidence, others=(*choice.others, *labels))


def candidates(kept: Sequence[Unit], around: Sequence[Unit]) -> list[Unit]:
    """Kept statements, and the loops that have to be there; a loop that is only around something is none."""
    needed = {unit.path for unit in around}
    return [
        unit
        for unit in kept
        if unit.kind not in ("loop", "if", "while")
        or unit.path in needed
        or not any(inside(other, unit) for other in kept)
    ]


# ------------------------------------------------------------------------------------------------------ settings

#: text that speaks of how many threads or warps there are, not of what threads do
THREADS = re.compile(
    r"`threads`|\bthreads\s*=|\b(?:num(?:ber of)?|more|fewer|too many|how many)[ _](?:threads|warps)\b|\b\d+ (?:threads|warps)\b"
    r"|\bthread[_ ](?:count|num|extent|block size)\b|\bblock[_ ]size\b|\bthread_nums\b|\bnum_(?:threads|warps)\b",
    re.IGNORECASE,
)
PIPELINE = re.compile(
    r"pipelin|\bnum_stages\b|\bstages?\b|producer|consumer|warp.?speciali|multi.?version", re.IGNORECASE
)
SYMBOLIC = re.compile(r"symbolic|dynamic|non-?constant|not (?:a )?constant|\bconstant\b", re.IGNORECASE)
KNOWN_DTYPE = re.compile(
    r"bool|handle|u?int(?:1|2|4|8|16|32|64)|float(?:16|32|64)|bfloat16|tfloat32|float(?:8|6|4)_e\d\w*"
)


def spoken_setting(evidence: Evidence, culprits: list[Unit]) -> Unit | None:
    """The setting that the error is about and whose change alone cures the whole program."""
    spoken = [
        unit for unit in evidence.settings if _cures(evidence, unit, culprits) and speaks(evidence, unit, culprits)
    ]
    return min(spoken, key=lambda unit: RANK.index(unit.kind), default=None)


def _cures(evidence: Evidence, unit: Unit, culprits: list[Unit]) -> bool:
    """Whether the whole kernel lowers with a change. Of an annotation that the error is about, it is enough that
    another error comes: the next annotation may be as wrong."""
    alone = evidence.alone.get(unit.id)
    about = not culprits or any(mentions(evidence.text, name) for name in unit.buffers)
    return alone == Verdict.NONE or (unit.kind == "annotation" and alone == Verdict.OTHER and about)


#: the more special a setting is, the sooner it is what the author got wrong
RANK = ("annotation", "op-annotation", "dtype", "symbol", "loop-annotation", "threads", "loop-kind")


def speaks(evidence: Evidence, unit: Unit, culprits: list[Unit]) -> bool:
    about = f"{evidence.text}\n{evidence.pass_name}"
    if unit.kind in ("annotation", "op-annotation"):
        return True  # the author wrote it on purpose, and everything else builds without it
    if unit.kind == "threads":
        counted = bool(THREADS.search(evidence.text))
        return counted and not _odd_tile(evidence.text, unit) if counted else unusual(unit)
    if unit.kind == "loop-annotation" and "layout" in str(unit.key):
        return "layout" in evidence.text
    if unit.kind == "loop-annotation":
        return bool(PIPELINE.search(about)) and not _inner_loop(unit, culprits)
    if unit.kind == "symbol":
        return bool(SYMBOLIC.search(evidence.text) or mentions(evidence.text, str(unit.value)))
    if unit.kind == "dtype":
        return not KNOWN_DTYPE.fullmatch(str(unit.value))
    if unit.kind == "loop-kind" and unit.loop:
        variable = re.search(rf"\b[Vv]ariable `?{re.escape(unit.loop['var'])}\b", evidence.text)
        return bool(variable) or not any(inside(c, unit) for c in culprits)
    return False


TILE_EDGE = re.compile(r"\b[MNK]\s*=\s*(\d+)")


def _odd_tile(text: str, unit: Unit) -> bool:
    """Whether, of a thread count and a tile that do not go together, the tile is the unusual one."""
    counts = unit.value if isinstance(unit.value, (list, tuple)) else [unit.value]
    usual = all(isinstance(count, int) and count.bit_count() == 1 for count in counts)
    return usual and any(int(edge).bit_count() != 1 for edge in TILE_EDGE.findall(text))


#: more threads than this in a block are rare
MANY_THREADS = 512


def unusual(launch: Unit) -> bool:
    """Whether a launch has a number of threads that hardly any kernel has."""
    counts = launch.value if isinstance(launch.value, (list, tuple)) else [launch.value]
    numbers = [count for count in counts if isinstance(count, int)]
    return math.prod(numbers) > MANY_THREADS or any(count.bit_count() != 1 for count in numbers)


def _inner_loop(unit: Unit, culprits: list[Unit]) -> bool:
    return any(c.kind == "loop" and inside(c, unit) for c in culprits)


def _setting(evidence: Evidence, unit: Unit, culprits: list[Unit]) -> Choice:
    cured = evidence.alone.get(unit.id) == Verdict.NONE
    what = "the kernel lowers, every statement in place" if cured else "this error goes, and another one comes"
    how = f"{changed(unit)} {what}"
    others = [(c, "raised the error") for c in culprits if c.path != unit.path]
    if unit.kind == "dtype":
        return _by_declarations(
            evidence, unit, [d for d in evidence.declarations if set(d.buffers) & set(unit.buffers)], how
        )
    if unit.kind == "symbol":
        users = [d for d in (*evidence.declarations, *evidence.kept) if d.id in unit.choices]
        touched = {name for c in culprits for name in c.buffers}
        near = [u for u in users if u.kind == "loop" or set(u.buffers) & touched]
        own = [u for u in near if u.kind != "parameter"]
        return _by_declarations(evidence, unit, own or near or users, how, tuple(others))
    sure = cured and not (unit.kind == "threads" and not THREADS.search(evidence.text))
    return Choice(unit, Confidence.CONFIRMED if sure else Confidence.LIKELY, how, tuple(others))


def changed(unit: Unit) -> str:
    return CHANGED[unit.kind].format(text=unit.text, value=unit.value, threads=threads(unit))


CHANGED = {
    "annotation": "without the {text}",
    "op-annotation": "without {text}",
    "loop-annotation": "without {text}",
    "loop-kind": "with a serial loop instead ({text})",
    "threads": "with another number of threads than {threads}",
    "symbol": "with a constant in the place of {value}",
    "dtype": "with float32 in the place of {value}",
}


def threads(unit: Unit) -> str:
    """A launch's threads as one would write them: 128, or (16, 16)."""
    counts = list(unit.value) if isinstance(unit.value, (list, tuple)) else [unit.value]
    while len(counts) > 1 and counts[-1] == 1:
        counts.pop()
    return str(counts[0]) if len(counts) == 1 else str(tuple(counts))


def _by_declarations(
    evidence: Evidence, unit: Unit, declared: list[Unit], how: str, others: tuple[tuple[Unit, str], ...] = ()
) -> Choice:
    """Point at where a symbol or data type is declared; several declarations are not told apart."""
    if not declared:
        return Choice(None, None, f"{how}, but nothing in the kernel declares it")
    confidence = Confidence.CONFIRMED if len(declared) == 1 else Confidence.LIKELY
    rest = tuple((d, f"has the same: {unit.text}") for d in declared[1:])
    return Choice(
        declared[0], confidence, how, (*rest, *(o for o in others if o[0].path != declared[0].path or not o[0].path))
    )


# ---------------------------------------------------------------------------------------------------- statements


def _single(evidence: Evidence, unit: Unit) -> Choice:
    alone = evidence.alone.get(unit.id, Verdict.UNKNOWN)
    wraps = tuple((u, "has to be around it") for u in evidence.around if u.path != unit.path)
    if unit.id in evidence.whole:  # without it every error goes: only what the error is about can tell that it is this
        about = any(score(evidence, unit, [unit])[::2])
        confidence = Confidence.LIKELY if about else Confidence.POSSIBLE
        return Choice(unit, confidence, "the kernel has no other statement", wraps)
    if alone == Verdict.NONE:
        return Choice(
            unit,
            Confidence.CONFIRMED,
            "of all statements only this one is needed for the error, and without it the kernel lowers",
            wraps,
        )
    if alone == Verdict.OTHER:
        return Choice(
            unit,
            Confidence.LIKELY,
            "of all statements only this one is needed for the error, and without it another error comes",
            wraps,
        )
    return Choice(unit, Confidence.LIKELY, "this statement alone shows the error", wraps)


def _several(evidence: Evidence, culprits: list[Unit]) -> Choice:
    best = max(culprits, key=lambda unit: (*score(evidence, unit, culprits), culprits.index(unit)))
    pointed = _points_clearly(evidence, best, culprits)
    gone = evidence.alone.get(best.id) in (Verdict.NONE, Verdict.OTHER)
    if (len(culprits) <= 4 and gone and evidence.minimal) or (pointed and gone):
        confidence = Confidence.LIKELY
    else:
        confidence = Confidence.POSSIBLE
    others = tuple((u, "is needed for the error, too") for u in culprits if u is not best)
    how = f"{len(culprits)} statements together show the error; this one is where they meet"
    return Choice(best, confidence, how, others)


def score(evidence: Evidence, unit: Unit, culprits: list[Unit]) -> tuple[int, int, int, int]:
    """How much an error is about a statement, compared first by what says most."""
    same_op = [c for c in culprits if c.op == unit.op]
    named_op = int(unit.op is not None and short(unit.op) in evidence.ops and len(same_op) == 1)
    named_buffers = sum(mentions(evidence.text, name) for name in unit.buffers)
    depth = sum(inside(unit, other) for other in culprits)
    return named_op, depth, named_buffers, shared(unit, culprits)


def _points_clearly(evidence: Evidence, best: Unit, culprits: list[Unit]) -> bool:
    mine = score(evidence, best, culprits)
    return any(mine[:3]) and all(score(evidence, u, culprits) < mine for u in culprits if u is not best)


def shared(unit: Unit, others: list[Unit]) -> int:
    """The number of other statements that work on a buffer this one works on, where one of the two writes it."""
    count = 0
    for other in others:
        if other is not unit:
            common = set(unit.buffers) & set(other.buffers)
            count += bool(common & (set(unit.writes) | set(other.writes)))
    return count


def _declaration(evidence: Evidence) -> Choice:
    needed = [d for d in evidence.declarations if evidence.alone.get(d.id) in (Verdict.NONE, Verdict.OTHER)]
    if len(needed) == 1:
        return Choice(
            needed[0], Confidence.CONFIRMED, "no statement is needed for the error; without this declaration it goes"
        )
    cured = [u for u in evidence.settings if evidence.alone.get(u.id) == Verdict.NONE]
    if len(cured) == 1 and cured[0].kind == "dtype":
        return _setting(evidence, cured[0], [])
    return Choice(None, None, "no single statement, annotation or declaration of the kernel makes the difference")


# ------------------------------------------------------------------------------------------------------- helpers


def inside(unit: Unit, other: Unit) -> bool:
    """Whether `unit` is somewhere inside the loop or branch `other`."""
    return bool(unit.path and other.path and unit.path != other.path and unit.path.startswith(f"{other.path}."))


def mentions(text: str, name: str) -> bool:
    return re.search(rf"(?<![\w.]){re.escape(name)}(?![\w.(])", text) is not None


def short(op: str) -> str:
    return op.rsplit(".", 1)[-1]
