"""How a kernel is run: threads, pipeline stages, architecture, tile sizes. None of these changes what it computes."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

import libcst as cst

from triage.fixes import tree
from triage.fixes.buffers import declared, shape_of
from triage.fixes.meaning import walk
from triage.fixes.proposal import Proposal, Question
from triage.fixes.tree import Edit, Source
from triage.model import KernelRecord

#: numbers of threads that whole warps and warp groups make up
THREADS = (32, 64, 128, 256, 512, 1024)
#: threads of a warp
WARP = 32
#: more pipeline stages are of no use
MOST_STAGES = 8
#: when nothing else tells, the most common number
USUAL_THREADS = 128
FEATURE_ARCH = re.compile(r"sm_(90|100|101|103|120)(?![0-9a-z])")
#: tile sizes that every matrix instruction takes
TILES = (16, 32, 64, 128, 256)


def in_function(q: Question, name: str) -> Iterator[tuple[Source, cst.Call]]:
    """Calls of `T.name` in the functions around the accused places, else in all files."""
    found = False
    for source, line in q.places():
        for function in source.all(cst.FunctionDef):
            span = source.positions[function]
            if span.start.line <= line <= span.end.line:
                for call in source.all(cst.Call, function):
                    if tree.name_of(call) == name:
                        found = True
                        yield source, call
        if found:
            return
    for source in q.sources:
        for call in source.all(cst.Call):
            if tree.name_of(call) == name:
                yield source, call


def threads(q: Question) -> Iterator[Proposal]:
    """A number of threads that is legal, the nearest first; those that experiments found first of all."""
    passing = [int(n) for text in q.neighbours for n in re.findall(r"^threads = (\d+)$", text)]
    built = next((threads_of(r) for r in q.records), None)
    for where, value, now in _numbers(q, "Kernel", "threads", built):
        number = now if isinstance(now, int | float) and now > 0 else USUAL_THREADS
        order = sorted({*THREADS, *passing}, key=lambda n: (n not in passing, abs(math.log2(n / number)), -n))
        for count in order:
            if count != now:
                edit = Edit(where.path, value, cst.Integer(str(count)))
                yield Proposal(f"Run {count} threads instead of {now}", (edit,), tuning=True)


def usual_threads(q: Question) -> Iterator[Proposal]:
    """The usual numbers of threads nearest to an unusual one, and the most common: many passes expect one of these, and
    none of them says so."""
    for record in q.records:
        built = threads_of(record)
        if built in THREADS or built <= 0:
            continue
        near = sorted(THREADS, key=lambda n: (abs(math.log2(n / built)), -n))[:2]
        for where, value, now in _numbers(q, "Kernel", "threads", built):
            for count in dict.fromkeys((*near, USUAL_THREADS)) if now == built else ():
                edit = Edit(where.path, value, cst.Integer(str(count)))
                yield Proposal(f"Run {count} threads instead of {now}", (edit,), tuning=True)


def threads_of(record: KernelRecord) -> int:
    """The number of threads in a block."""
    return math.prod(n for n in record.launch.threads if isinstance(n, int))


def stages(q: Question) -> Iterator[Proposal]:
    """num_stages as a whole number, and fewer of them: the most that pass are tried first."""
    loops = [s.loop.annotations for r in q.records for s, _ in walk(r.statements) if s.loop]
    built = max((int(a["num_stages"]) for a in loops if isinstance(a.get("num_stages"), int)), default=None)
    for where, value, now in _numbers(q, "Pipelined", "num_stages", built):
        if (isinstance(now, str) and now.isdigit()) or (isinstance(now, float) and now.is_integer()):
            edit = Edit(where.path, value, cst.Integer(str(int(now))))
            yield Proposal(f"Write num_stages={int(now)}, a whole number", (edit,), tuning=True)
        elif isinstance(now, int):
            for fewer in range(min(now - 1, MOST_STAGES), -1, -1):
                edit = Edit(where.path, value, cst.Integer(str(fewer)))
                yield Proposal(f"Use {fewer} pipeline stages instead of {now}", (edit,), tuning=True)


def _numbers(
    q: Question, function: str, keyword: str, built: int | None
) -> Iterator[tuple[Source, cst.CSTNode, int | float | str]]:
    """Where the value of a keyword is written, with it; where it is computed, the argument with the value that was built."""
    done = set()
    for source, call in in_function(q, function):
        arg = tree.argument(call, None, keyword)
        origins = q.sources.origins(source, arg.value) if arg else []
        literals = [(w, v, n) for w, v in origins if isinstance(n := tree.constant(v), int | float | str)]
        if arg is not None and not literals and built is not None:
            literals = [(source, arg.value, built)]
        for where, value, now in literals:
            if id(value) not in done:
                done.add(id(value))
                yield where, value, now


def feature_arch(q: Question) -> Iterator[Proposal]:
    """The architecture with the suffix that its own instructions ask for."""
    for source in q.sources:
        edits = []
        for node in source.all(cst.SimpleString):
            text = FEATURE_ARCH.sub(lambda m: f"{m[0]}a", node.value)
            if text != node.value:
                edits.append(Edit(source.path, node, node.with_changes(value=text)))
        if edits:
            yield Proposal(
                "Compile for the architecture with its own instructions (suffix a)", tuple(edits), tuning=True
            )


def tile_size(q: Question) -> Iterator[Proposal]:
    """Tile extents of a T.gemm set to the nearest that its instructions take, wherever the number stands."""
    extent = q.captures.get("extent") or q.captures.get("k")
    for now, nodes in _tile_extents(q).items():
        if extent not in (None, now):
            continue
        for size in sorted(TILES, key=lambda n: (abs(math.log2(n / now)), -n)):
            if size != now:
                edits = tuple(Edit(source.path, node, cst.Integer(str(size))) for source, node in nodes)
                yield Proposal(f"Use tiles of {size} instead of {now}", edits, tuning=True)


def _tile_extents(q: Question) -> dict[int, list[tuple[Source, cst.CSTNode]]]:
    """The numbers that the tiles of gemms are allocated with, and where each stands; those of the accused place first."""
    found: dict[int, list[tuple[Source, cst.CSTNode]]] = {}
    for source, call in (*_gemms_at(q), *((s, c) for s in q.sources for c in s.all(cst.Call))):
        if "gemm" not in tree.name_of(call):
            continue
        for arg in call.args[:3]:
            shape = shape_of(q.sources, declared(q.sources, source, arg.value))
            for dim in shape.dims if shape else ():
                for where, value in q.sources.origins(shape.source, dim) if shape else ():
                    now = tree.constant(value)
                    if isinstance(now, int) and now > 0 and (where, value) not in found.setdefault(now, []):
                        found[now].append((where, value))
    return found


def _gemms_at(q: Question) -> Iterator[tuple[Source, cst.Call]]:
    for source, line in q.places():
        for call in source.at(cst.Call, line):
            yield source, call
