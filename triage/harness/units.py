"""Units of a PrimFunc: what lowering experiments can take away or change (`tir.py` does it).

A **unit** is a statement, a loop around statements, an annotation, the number of threads, an allocation, a data type,
a symbolic extent, or a constant one of tiles. It is plain JSON:

    {"id", "kind", "path": path of its statement or null, "parent": path of the statement around it or null,
     "text": one line, "span": {"file", "line", "user"} or null,
     "op": name of the tile operator or null, "buffers": names it touches, "reads", "writes": names (of a launch, "reads"
     are the thread indices that the program computes with),
     "loop": {"var", "kind", "extent"} or null, "key": annotation key, "value": what it is now, "choices": other values}
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from .tir import LAUNCH, REPLACEMENT_DTYPE, children

Unit = dict[str, Any]

#: thread counts to try: whole warps, and the sizes kernels are written for
THREADS = (32, 64, 128, 256, 512)
STAGES = (0, 1, 2, 3, 4)
#: an extent below this is not the edge of a tile
SMALLEST_TILE = 8
#: operators that bind the index of a thread
LAUNCH_INDICES = ("tl.launch_thread_idx", "launch_thread_idx")
#: operators whose result or action depends on which thread it is, or how many there are
OF_THREADS = re.compile(r"lane|warp|shuffle|shfl|elect|sync|barrier|arrive")


class Reader:
    """Lists the units of one PrimFunc. `is_user` tells a file of the user from one of a package."""

    def __init__(self, func: Any, is_user: Callable[[str], bool]) -> None:
        from tilelang import tvm
        from tvm import tirx

        self.tvm, self.tirx, self.func, self.is_user = tvm, tirx, func, is_user
        self._statement_span = tvm.get_global_func("tl.ir.GetStmtSpan", allow_missing=True)
        self._buffer_span = tvm.get_global_func("tl.ir.GetBufferSpan", allow_missing=True)
        self.units: list[Unit] = []
        self._buffers: dict[Any, dict[str, Any]] = {}

    def read(self) -> list[Unit]:
        for buffer in self.func.buffer_map.values():
            self._declare(buffer, "parameter", None)
        for path, parent, statement in walk(self.func.body):
            self._statement(path, parent, statement)
        self._thread_indices()
        self._dtypes()
        self._symbols()
        self._extents()
        return self.units

    def _add(self, id: str, kind: str, path: str | None, parent: str | None, text: str, **fields: Any) -> Unit:
        unit = {
            "id": id, "kind": kind, "path": path, "parent": parent, "text": text, "span": None,
            "op": None, "buffers": [], "reads": [], "writes": [], "loop": None, "key": None, "value": None, "choices": [],
        }  # fmt: skip
        self.units.append(unit | fields)
        return self.units[-1]

    def _statement(self, path: str, parent: str | None, statement: Any) -> None:
        tirx = self.tirx
        span = self._span(statement)
        if isinstance(statement, (tirx.SeqStmt, tirx.SBlockRealize)):
            return
        if isinstance(statement, tirx.SBlock):
            self._block(path, parent, statement, span)
            return
        if isinstance(statement, tirx.For):
            self._loop(path, parent, statement, span)
            return
        if isinstance(statement, (tirx.IfThenElse, tirx.While, tirx.AttrStmt)):
            kind = {tirx.IfThenElse: "if", tirx.While: "while", tirx.AttrStmt: "attribute"}[type(statement)]
            key = str(statement.attr_key) if kind == "attribute" else None
            if kind != "attribute":
                self._add(f"drop:{path}", kind, path, parent, kind, span=span, **self._accesses(statement.condition))
            if kind != "while":
                self._add(f"unwrap:{path}", kind + "-around", path, parent, key or f"{kind} around", span=span, key=key)
            return
        if isinstance(statement, (tirx.AllocBuffer, tirx.DeclBuffer)):
            self._declare(statement.buffer, "allocation", f"drop:{path}")
            return
        op, calls = self._op(statement)
        if op in LAUNCH_INDICES or is_empty(statement, tirx):
            return
        accesses = self._accesses(statement)
        kind = "bind" if isinstance(statement, tirx.Bind) else "statement"
        text = f"{short(op) if op else 'store' if isinstance(statement, tirx.BufferStore) else kind} {', '.join(accesses['buffers'])}"
        self._add(f"drop:{path}", kind, path, parent, text.strip(), span=span, op=op, **accesses)
        for key in calls:
            value = plain(statement.value.annotations[key])
            self._add(
                f"note:{path}:{key}", "op-annotation", path, path, f"{key} = {value}", span=span, key=key, value=value
            )

    def _loop(self, path: str, parent: str | None, loop: Any, span: Any) -> None:
        if loop.kind == self.tirx.ForKind.THREAD_BINDING:
            return
        kind = self.tirx.ForKind(loop.kind).name.lower()
        info = {"var": str(loop.loop_var.name), "kind": kind, "extent": str(loop.extent)}
        text = f"for {info['var']} in {kind}({info['extent']})"
        common = {"span": span, "loop": info}
        self._add(f"drop:{path}", "loop", path, parent, text, **common)
        self._add(f"unwrap:{path}", "loop-around", path, parent, f"{text} around", **common)
        if loop.kind != self.tirx.ForKind.SERIAL:
            self._add(f"serial:{path}", "loop-kind", path, parent, f"{text} is {kind}", **common)
        for key, value in loop.annotations.items():
            choices = [v for v in STAGES if v != plain(value)] if str(key) == "num_stages" else []
            self._add(
                f"note:{path}:{key}", "loop-annotation", path, path, f"{key} = {plain(value)}",
                key=str(key), value=plain(value), choices=choices, **common,
            )  # fmt: skip

    def _block(self, path: str, parent: str | None, block: Any, span: Any) -> None:
        for number, buffer in enumerate(block.alloc_buffers):
            self._declare(buffer, "allocation", f"alloc:{path}:{number}")
        for key, value in block.annotations.items():
            if str(key) == LAUNCH:
                now = [plain(v) for v in value]
                choices = [v for v in THREADS if now != [v, *now[1:]]]
                self._add(
                    f"threads:{path}",
                    "threads",
                    path,
                    parent,
                    f"threads = {now}",
                    span=span,
                    value=now,
                    choices=choices,
                )
            elif hasattr(value, "items"):
                for number, entry in enumerate(value):
                    name = str(getattr(entry, "name", entry))
                    self._add(
                        f"note:{path}:{key}:{number}", "annotation", path, parent, f"{key} of {name}",
                        span=None, key=str(key), buffers=[name], value=str(value[entry])[:200],
                    )  # fmt: skip
            else:
                text = f"{key} = {plain(value)}"
                self._add(f"note:{path}:{key}", "annotation", path, parent, text, key=str(key), value=plain(value))

    # ------------------------------------------------------------------------------------------- buffers

    def _declare(self, buffer: Any, kind: str, id: str | None) -> None:
        name = str(buffer.name)
        shape = [plain(extent) for extent in buffer.shape]
        dtype, scope = str(buffer.dtype), str(buffer.scope())
        unit = self._add(
            id or f"parameter:{name}", kind, None, None, f"{name}: {dtype}{shape} in {scope}", span=self._span_of_buffer(buffer),
            buffers=[name], key=scope, value={"dtype": dtype, "shape": shape, "scope": scope},
        )  # fmt: skip
        self._buffers[buffer] = unit

    def _dtypes(self) -> None:
        by_dtype: dict[str, list[Unit]] = {}
        for unit in self._buffers.values():
            by_dtype.setdefault(unit["value"]["dtype"], []).append(unit)
        for dtype, declared in by_dtype.items():
            if dtype != REPLACEMENT_DTYPE:
                names = [name for unit in declared for name in unit["buffers"]]
                self._add(f"dtype:{dtype}", "dtype", None, None, f"data type {dtype}", value=dtype, buffers=names)

    def _thread_indices(self) -> None:
        """Into `reads` of the launch, what the program itself computes with of threads: their indices, lanes, warps."""
        bound: list[Any] = []
        used: dict[str, None] = {}

        def visit(node: Any) -> None:
            if isinstance(node, self.tirx.Bind) and self._op(node)[0] in LAUNCH_INDICES:
                bound.append(node.var)
            elif isinstance(node, self.tirx.Var) and any(node.same_as(index) for index in bound):
                used[str(node.name)] = None
            elif isinstance(node, self.tirx.Call) and OF_THREADS.search(name := str(getattr(node.op, "name", node.op))):
                used[name] = None

        for _ in range(2):  # a binding is visited after what uses it
            self.tirx.stmt_functor.post_order_visit(self.func.body, visit)
        for unit in self.units:
            if unit["kind"] == "threads":
                unit["reads"] = list(used)

    def _symbols(self) -> None:
        """What makes extents of buffers and loops symbolic."""
        seen: dict[str, list[str]] = {}
        for unit in self.units:
            extents = unit["value"]["shape"] if unit["kind"] in ("allocation", "parameter") else []
            extents = [unit["loop"]["extent"]] if unit["kind"] == "loop" else extents
            for extent in extents:
                for name in identifiers(extent):
                    seen.setdefault(name, []).append(unit["id"])
        for name, users in seen.items():
            self._add(f"symbol:{name}", "symbol", None, None, f"{name} is symbolic", value=name, choices=users)

    def _extents(self) -> None:
        """Constant extents of the tiles. One that a parameter has among three or more is left alone: its strides are
        products of it."""
        tiles: dict[int, list[str]] = {}
        fixed: set[int] = set()
        for unit in self._buffers.values():
            sizes = {extent for extent in unit["value"]["shape"] if isinstance(extent, int) and extent >= SMALLEST_TILE}
            if unit["kind"] == "parameter":
                fixed |= sizes if len(unit["value"]["shape"]) > 2 else set()
                continue
            for size in sizes:
                tiles.setdefault(size, []).extend(unit["buffers"])
        for size, names in tiles.items():
            if size not in fixed:
                self._add(f"extent:{size}", "extent", None, None, f"extent {size}", value=size, buffers=names)

    def _accesses(self, root: Any) -> dict[str, list[str]]:
        """Names of the buffers under a node; in a tile operator the access mask of a region says read or write."""
        reads: dict[str, None] = {}
        writes: dict[str, None] = {}

        def visit(node: Any) -> None:
            if isinstance(node, self.tirx.BufferStore):
                writes[str(node.buffer.name)] = None
            elif (
                isinstance(node, self.tirx.Call)
                and str(node.op.name if hasattr(node.op, "name") else node.op) == "tl.region"
            ):
                mask, name = plain(node.args[1]), str(node.args[0].buffer.name)
                regions.add(name)
                if isinstance(mask, int) and mask & 2:
                    writes[name] = None
                if not isinstance(mask, int) or mask & 1:
                    reads[name] = None
            elif isinstance(node, self.tirx.BufferLoad):
                loads.append(str(node.buffer.name))

        regions: set[str] = set()
        loads: list[str] = []
        self.tirx.stmt_functor.post_order_visit(root, visit)
        reads |= {name: None for name in loads if name not in regions}
        return {"buffers": list(dict.fromkeys([*writes, *reads])), "reads": list(reads), "writes": list(writes)}

    def _op(self, statement: Any) -> tuple[str | None, list[str]]:
        """The operator that a statement calls, and the keys of its annotations."""
        value = getattr(statement, "value", None)
        if not isinstance(value, self.tirx.Call):
            return None, []
        name = str(getattr(value.op, "name", value.op))
        if isinstance(statement, self.tirx.BufferStore):
            return None, []
        notes = value.annotations if isinstance(statement, self.tirx.Evaluate) else None
        return name, [str(key) for key in (notes or {})]

    # --------------------------------------------------------------------------------------------- spans

    def _span(self, statement: Any) -> dict[str, Any] | None:
        return self._place(self._statement_span(statement) if self._statement_span else None)

    def _span_of_buffer(self, buffer: Any) -> dict[str, Any] | None:
        return self._place(self._buffer_span(buffer) if self._buffer_span else None)

    def _place(self, span: Any) -> dict[str, Any] | None:
        if span is None or span.source_name is None:
            return None
        file = str(span.source_name.name)
        return {"file": file, "line": int(span.line), "user": self.is_user(file)}


def walk(body: Any) -> Iterator[tuple[str, str | None, Any]]:
    """(path, path of the statement around it, statement), in program order. Sequences and blocks are looked through:
    the statement around is the nearest loop, branch or attribute."""
    from tvm import tirx

    def go(path: str, parent: str | None, statement: Any) -> Iterator[tuple[str, str | None, Any]]:
        yield path, parent, statement
        plain_parent = isinstance(statement, (tirx.SeqStmt, tirx.SBlock, tirx.SBlockRealize)) or (
            isinstance(statement, tirx.For) and statement.kind == tirx.ForKind.THREAD_BINDING
        )
        for number, child in enumerate(children(statement, tirx)):
            yield from go(f"{path}.{number}", parent if plain_parent else path, child)

    yield from go("0", None, body)


def is_empty(statement: Any, tirx: Any) -> bool:
    return isinstance(statement, tirx.Evaluate) and isinstance(statement.value, tirx.IntImm)


def short(op: str) -> str:
    """`tl.tileop.copy` -> `copy`."""
    return op.rsplit(".", 1)[-1]


def plain(value: Any) -> Any:
    """An IR constant as a Python value, anything else as text."""
    inner = getattr(value, "value", value)
    return inner if isinstance(inner, (bool, int, float, str)) else str(value)


def identifiers(extent: Any) -> set[str]:
    """Names in a printed extent: {"n"} of "n", "T.ceildiv(n, 128)" or "(n + 127) // 128"."""
    return set(re.findall(r"(?<![\w.])[A-Za-z_]\w*(?![\w.(])", extent)) if isinstance(extent, str) else set()
