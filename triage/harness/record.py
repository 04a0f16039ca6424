"""Describe a tile program as plain data: PrimFunc -> JSON of `model.KernelRecord` (before lowering)."""

from __future__ import annotations

import functools
import json
import math
import sys
from collections.abc import Iterable
from typing import Any

from . import expressions, places
from .expressions import kind, op_name

SCHEMA = "triage.kernel/1"
LOOP_KINDS = {0: "serial", 1: "parallel", 2: "vectorized", 3: "unrolled", 4: "thread"}
PIPELINE_KEYS = ("num_stages", "tl_pipeline_order", "tl_pipeline_stage", "software_pipeline_stage")
ACCESS_MODES = {1: "read", 2: "write", 3: "readwrite"}
AXES = {"x": 0, "y": 1, "z": 2}
#: operators whose value differs between the threads of a block
THREAD_OPS = ("launch_thread_idx", "get_lane_idx", "get_warp_idx", "get_warp_idx_sync", "get_warp_group_idx")
#: what the arguments of a tile operator after its regions mean
PARAMETERS = {
    "gemm": ("transpose_A", "transpose_B", "M", "N", "K", "policy", "clear_accum"),
    "wgmma_gemm": ("transpose_A", "transpose_B", "M", "N", "K", "policy", "clear_accum"),
    "tcgen05_gemm": ("transpose_A", "transpose_B", "M", "N", "K", "policy", "clear_accum"),
    "reduce": ("type", "dim", "clear"),
    "fill": ("value",),
    "cumsum": ("dim", "reverse"),
    "cummax": ("dim", "reverse"),
}


def dump(func: Any, target: Any, pass_configs: dict[str, Any], out_idx: list[int]) -> str:
    """The record of `func` as one line of JSON."""
    recorder = Recorder(func)
    statements = recorder.statements(func.body, "")
    data = {
        "name": str(func.attrs.get("global_symbol", "")) if func.attrs else "",
        "target": target if isinstance(target, dict) else {} if target is None else {"kind": str(target)},
        "params": recorder.params(),
        "buffers": recorder.buffers,
        "launch": recorder.launches[0] if recorder.launches else _launch(None),
        "launches": recorder.launches,
        "statements": statements,
        "annotations": recorder.annotations,
        "pass_configs": pass_configs,
        "out_idx": out_idx,
        "shared_bytes": None,
        "schema": SCHEMA,
    }
    return json.dumps(data, default=str)


def inputs(func: Any, out_idx: list[int]) -> list[dict[str, Any]]:
    """The parameters a caller passes: all but the outputs."""
    params = Recorder(func).params()
    outputs = {index % len(params) for index in out_idx} if params else set()
    return [param for index, param in enumerate(params) if index not in outputs]


def returned(func: Any, out_idx: list[int]) -> list[str]:
    """The names of the parameters that a call returns, in its order."""
    params = Recorder(func).params()
    return [params[index]["name"] for index in out_idx] if params else []


@functools.cache
def stored(func: Any) -> frozenset[str]:
    """The names of the parameters that a kernel writes."""
    recorder = Recorder(func)
    found: set[str] = set()
    queue = recorder.statements(func.body, "")
    for statement in queue:
        found |= {access["buffer"] for access in statement["accesses"] if access["mode"] != "read"}
        queue += [*statement["body"], *statement["orelse"]]
    return frozenset({b["alias_of"] or b["name"] for b in recorder.buffers if b["name"] in found})


class Recorder:
    """Walks one PrimFunc once; `buffers`, `launches` and `annotations` fill up on the way."""

    def __init__(self, func: Any) -> None:
        tvm = sys.modules["tvm"]
        self.func = func
        self.analyzer = tvm.arith.Analyzer()
        self.scope = expressions.Scope(self.analyzer, tvm.tirx.stmt_functor.substitute)
        self.print = expressions.Printer(self.buffer)
        self._range = tvm.ir.Range
        self.buffers: list[dict[str, Any]] = []
        self._names: dict[Any, str] = {}
        #: pointer -> the buffer that was met first with it
        self._memory: dict[Any, str] = {}
        self.launches: list[dict[str, Any]] = []
        self._launch_depth = 0
        #: thread indices whose number of threads is not known yet, and their axes
        self._unbound_threads: list[tuple[Any, int]] = []
        self.annotations: list[dict[str, Any]] = []
        #: variables that differ between the threads of a block
        self.per_thread: set[Any] = set()
        self.guards = 0
        for param in func.params:
            if param in func.buffer_map:
                self.buffer(func.buffer_map[param], param=True)

    # -- the interface --------------------------------------------------------------------------------

    def params(self) -> list[dict[str, Any]]:
        out: list[dict[str, Any]] = []
        for param in self.func.params:
            buffer = self.func.buffer_map.get(param, None)
            if buffer is None:
                out.append({"name": str(param.name), "kind": "scalar", "dtype": str(param.dtype)})
            else:
                strides = [self.size(s) for s in buffer.strides]
                out.append(
                    {
                        "name": self.buffer(buffer),
                        "kind": "buffer",
                        "dtype": str(buffer.dtype),
                        "shape": [self.size(s) for s in buffer.shape],
                        "strides": strides,
                    }
                )
        return out

    def buffer(self, buffer: Any, param: bool = False) -> str:
        """The unique name of a buffer; describes it when it is met first."""
        known = self._names.get(buffer)
        if known is not None:
            return known
        source = str(buffer.name)
        name = source
        number = 1
        while name in self._names.values():
            name, number = f"{source}_{number}", number + 1
        self._names[buffer] = name
        bits = _bits(str(buffer.dtype))
        shape = [self.size(s) for s in buffer.shape]
        whole = math.prod(shape) if bits and all(isinstance(s, int) for s in shape) else None
        owner = self._memory.setdefault(buffer.data, name)
        self.buffers.append(
            {
                "name": name,
                "scope": str(buffer.scope()),
                "dtype": str(buffer.dtype),
                "shape": shape,
                "bits": bits,
                "bytes": None if whole is None else (whole * bits + 7) // 8,
                "param": param,
                "at": places.of_buffer(buffer),
                "source_name": source if name != source else None,
                "alias_of": owner if owner != name else None,
            }
        )
        return name

    def size(self, value: Any) -> int | str:
        if isinstance(value, int):
            return value
        return int(value.value) if kind(value) == "IntImm" else self.print(value)

    # -- statements -----------------------------------------------------------------------------------

    def statements(self, stmt: Any, prefix: str) -> list[dict[str, Any]]:
        """The statements `stmt` stands for; sequences and blocks of the builder are opened."""
        out: list[dict[str, Any]] = []
        self._collect(stmt, prefix, out)
        return out

    def _collect(self, stmt: Any, prefix: str, out: list[dict[str, Any]]) -> None:
        name = kind(stmt)
        if name == "SeqStmt":
            for part in stmt.seq:
                self._collect(part, prefix, out)
        elif name == "SBlockRealize":
            self._collect(stmt.block, prefix, out)
        elif name in ("SBlock", "BlockRealize", "Block"):
            self._block(getattr(stmt, "block", stmt), prefix, out)
        elif (axis := _launch_axis(stmt)) is not None:
            if self._launch_depth == 0:
                self.launches.append(_launch(places.of_statement(stmt)))
            self._bind_axis(*axis)
            self._launch_depth += 1
            self._collect(stmt.body, prefix, out)
            self._launch_depth -= 1
        else:
            id = f"{prefix}{len(out)}"
            body = getattr(self, f"_{name.lower()}", self._other)(stmt, id)
            at = body.pop("at", None) or places.of_statement(stmt)
            out.append(_statement(id, at) | body)
            if name in ("AttrStmt", "DeclBuffer", "AllocBuffer", "Allocate", "LetStmt") and "body" not in body:
                inner = getattr(stmt, "body", None)
                if inner is not None:
                    self._collect(inner, prefix, out)

    def _block(self, block: Any, prefix: str, out: list[dict[str, Any]]) -> None:
        for buffer in block.alloc_buffers:
            self.buffer(buffer)
        for key, value in block.annotations.items():
            if str(key) == "tl.launch_threads":
                self._bind_threads([self.size(v) for v in value])
            elif str(key) == "cluster_dims" and self.launches:
                self.launches[-1]["cluster"] = [self.size(v) for v in value]
            self.annotations.append({"key": str(key), "value": self._plain(value)})
        if block.init is not None:
            self._collect(block.init, prefix, out)
        self._collect(block.body, prefix, out)

    def _bind_axis(self, var: Any, tag: str, extent: Any) -> None:
        """A block or thread index of the current launch, e.g. `blockIdx.x`, takes the values below `extent`."""
        group = "grid" if tag.startswith("blockIdx") else "threads"
        axis = AXES.get(tag.rpartition(".")[2], 0)
        sizes = self.launches[-1][group]
        sizes += [1] * (axis + 1 - len(sizes))
        sizes[axis] = self.size(extent)
        if group == "threads":
            self.per_thread.add(var)
        self._bind_range(var, 0, extent)

    def _bind_threads(self, sizes: list[int | str]) -> None:
        """The block below a launch says how many threads it has, after their indices were defined."""
        if self.launches:
            self.launches[-1]["threads"] = sizes
        for var, axis in self._unbound_threads:
            if axis < len(sizes) and isinstance(sizes[axis], int):
                self._bind_range(var, 0, sizes[axis])
        self._unbound_threads.clear()

    def _bind_range(self, var: Any, low: Any, extent: Any) -> None:
        first = self.scope.interval(low)
        size = self.scope.interval(extent)
        constant = first[0] is not None and first[0] == first[1] and size[0] is not None and size[0] == size[1]
        if constant and size[0] > 0:
            self.scope.ranges[var] = (first[0], first[0] + size[0] - 1)
        elif first[0] is not None and first[1] is not None and size[1] is not None:
            self.scope.dependent.add(var)
        self.analyzer.bind(var, self._range.from_min_extent(low, extent))

    def _for(self, stmt: Any, id: str) -> dict[str, Any]:
        annotations = {str(k): self._plain(v) for k, v in stmt.annotations.items()}
        name = LOOP_KINDS.get(int(stmt.kind), "serial")
        if name == "serial" and any(key in annotations for key in PIPELINE_KEYS):
            name = "pipelined"
        if name == "thread" or name == "parallel":
            self.per_thread.add(stmt.loop_var)
        self._bind_range(stmt.loop_var, stmt.min, stmt.extent)
        loop = {
            "var": str(stmt.loop_var.name),
            "kind": name,
            "min": self.size(stmt.min),
            "extent": self.size(stmt.extent),
            "annotations": annotations,
        }
        text = f"for {loop['var']} in {name}({loop['min']}, {loop['min']} + {loop['extent']})"
        if loop["min"] == 0:
            text = f"for {loop['var']} in {name}({loop['extent']})"
        accesses = [*self._reads(stmt.min), *self._reads(stmt.extent)]
        return {
            "kind": "for",
            "text": text,
            "loop": loop,
            "accesses": accesses,
            "body": self.statements(stmt.body, f"{id}."),
        }

    def _while(self, stmt: Any, id: str) -> dict[str, Any]:
        condition = self.print(stmt.condition)
        accesses = self._reads(stmt.condition)
        self.guards += 1
        body = self.statements(stmt.body, f"{id}.")
        self.guards -= 1
        return {
            "kind": "while",
            "text": f"while {condition}",
            "condition": condition,
            "accesses": accesses,
            "body": body,
        }

    def _ifthenelse(self, stmt: Any, id: str) -> dict[str, Any]:
        condition = self.print(stmt.condition)
        divergent = self._divergent(stmt.condition)
        accesses = self._reads(stmt.condition)
        self.guards += 1
        body = self.statements(stmt.then_case, f"{id}.")
        other = self.statements(stmt.else_case, f"{id}.e") if stmt.else_case is not None else []
        self.guards -= 1
        return {
            "kind": "if",
            "text": f"if {condition}",
            "condition": condition,
            "divergent": divergent,
            "accesses": accesses,
            "body": body,
            "orelse": other,
        }

    def _bufferstore(self, stmt: Any, id: str) -> dict[str, Any]:
        target = f"{self.buffer(stmt.buffer)}[{', '.join(self.print(i) for i in stmt.indices)}]"
        accesses = [access for i in stmt.indices for access in self._reads(i)] + self._reads(stmt.value)
        accesses.append(self._access(stmt.buffer, stmt.indices, None, "write"))
        return {"kind": "store", "text": f"{target} = {self.print(stmt.value)}", "accesses": accesses}

    def _bind(self, stmt: Any, id: str) -> dict[str, Any]:
        self._define(stmt.var, stmt.value)
        text = f"{stmt.var.name} = {self.print(stmt.value)}"
        return {"kind": "bind", "text": text, "accesses": self._reads(stmt.value)}

    def _letstmt(self, stmt: Any, id: str) -> dict[str, Any]:
        return self._bind(stmt, id)

    def _define(self, var: Any, value: Any) -> None:
        if kind(value) == "Call" and op_name(value) == "launch_thread_idx":
            self._unbound_threads.append((var, int(value.args[0].value)))
            self.per_thread.add(var)
            return
        if self._divergent(value):
            self.per_thread.add(var)
        if not any(kind(n) in ("BufferLoad", "Call") for n in expressions.walk(value)):
            self.scope.definitions[var] = self.scope.expand(value)

    def _attrstmt(self, stmt: Any, id: str) -> dict[str, Any]:
        key = str(stmt.attr_key)
        self.annotations.append({"key": key, "value": self._plain(stmt.value), "at": places.of_statement(stmt)})
        return {"kind": "attr", "text": f"attr {key} = {self._plain(stmt.value)}"}

    def _allocbuffer(self, stmt: Any, id: str) -> dict[str, Any]:
        name = self.buffer(stmt.buffer)
        return {"kind": "alloc", "text": f"{name} = alloc({stmt.buffer.scope()})", "at": places.of_buffer(stmt.buffer)}

    _declbuffer = _allocbuffer

    def _evaluate(self, stmt: Any, id: str) -> dict[str, Any]:
        value = stmt.value
        if kind(value) != "Call":
            return {"kind": "call", "text": self.print(value), "accesses": self._reads(value)}
        name = op_name(value)
        if name == "ret":
            return {"kind": "return", "text": self.print(value), "accesses": self._reads(value)}
        text = self.print(value)
        if not expressions.full_op_name(value).startswith("tl.tileop."):
            return {"kind": "call", "text": text, "accesses": self._reads(value)}
        op = {"name": name, "args": [self.print(a) for a in value.args], "params": self._parameters(name, value)}
        return {"kind": "op", "text": text, "op": op, "accesses": self._reads(value)}

    def _assertstmt(self, stmt: Any, id: str) -> dict[str, Any]:
        return {"kind": "call", "text": f"assert {self.print(stmt.condition)}", "accesses": self._reads(stmt.condition)}

    def _other(self, stmt: Any, id: str) -> dict[str, Any]:
        inner = getattr(stmt, "body", None)
        body = self.statements(inner, f"{id}.") if inner is not None else []
        return {"kind": "block", "text": kind(stmt), "body": body}

    # -- operators and accesses -----------------------------------------------------------------------

    def _parameters(self, name: str, call: Any) -> dict[str, Any]:
        plain = [a for a in call.args if not (kind(a) == "Call" and op_name(a) == "region")]
        out = {key: self._plain(arg) for key, arg in zip(PARAMETERS.get(name, ()), plain, strict=False)}
        out |= {str(k): self._plain(v) for k, v in (getattr(call, "annotations", None) or {}).items()}
        return out

    def _plain(self, value: Any) -> Any:
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        name = kind(value)
        if name in ("IntImm", "FloatImm"):
            return bool(value.value) if str(value.dtype) == "bool" else value.value
        if name == "StringImm":
            return str(value.value)
        if hasattr(value, "items"):
            return {str(k): self._plain(v) for k, v in value.items()}
        if isinstance(value, Iterable) and not hasattr(value, "dtype"):
            return [self._plain(v) for v in value]
        return self.print(value) if hasattr(value, "dtype") else str(value)

    def _reads(self, expr: Any) -> list[dict[str, Any]]:
        """The accesses inside an expression, in the order of evaluation."""
        name = kind(expr)
        if name == "BufferLoad":
            inner = [access for i in expr.indices for access in self._reads(i)]
            return [*inner, self._access(expr.buffer, expr.indices, None, "read")]
        if name == "Call":
            special = self._call_accesses(expr)
            if special is not None:
                return special
        return [access for child in expressions.children(expr) for access in self._reads(child)]

    def _call_accesses(self, call: Any) -> list[dict[str, Any]] | None:
        name = op_name(call)
        if name == "region":
            load, mask, *extents = call.args
            inner = [access for i in load.indices for access in self._reads(i)]
            return [*inner, self._access(load.buffer, load.indices, extents, _mode(mask))]
        if name == "access_ptr" and call.args and kind(call.args[0]) == "BufferLoad":
            load, *rest = call.args
            return [self._access(load.buffer, load.indices, None, _mode(rest[-1]) if rest else "readwrite")]
        if name == "address_of" and call.args and kind(call.args[0]) == "BufferLoad":
            load = call.args[0]
            return [self._access(load.buffer, load.indices, None, "readwrite") | {"exact": False}]
        if name == "if_then_else":
            condition, *branches = call.args
            reads = self._reads(condition)
            self.guards += 1
            reads += [access for branch in branches for access in self._reads(branch)]
            self.guards -= 1
            return reads
        return None

    def _access(self, buffer: Any, indices: Any, extents: Any, mode: str) -> dict[str, Any]:
        intervals = [self.scope.interval(self._start(i)) for i in indices]
        sizes: list[Any] = [self._lanes(i) for i in indices] if extents is None else [self.size(e) for e in extents]
        return {
            "buffer": self.buffer(buffer),
            "index": [self.print(i) for i in indices],
            "extent": [s if isinstance(s, int) else None for s in sizes],
            "low": [low for low, _, _ in intervals],
            "high": [high for _, high, _ in intervals],
            "exact": all(exact for _, _, exact in intervals),
            "guarded": self.guards > 0,
            "mode": mode,
        }

    def _start(self, index: Any) -> Any:
        return index.base if kind(index) == "Ramp" else index

    def _lanes(self, index: Any) -> int | None:
        if kind(index) != "Ramp":
            return 1
        lanes, stride = self.size(index.lanes), self.size(index.stride)
        return lanes if isinstance(lanes, int) and stride == 1 else None

    def _divergent(self, expr: Any) -> bool | None:
        """Whether threads of one block may see different values; None if that depends on data they hold."""
        unknown = False
        for node in expressions.walk(expr):
            if kind(node) == "Var" and node in self.per_thread:
                return True
            if kind(node) == "Call" and op_name(node) in THREAD_OPS:
                return True
            if kind(node) == "BufferLoad" and str(node.buffer.scope()).startswith("local"):
                unknown = True
        return None if unknown else False


def _statement(id: str, at: Any) -> dict[str, Any]:
    empty = {"loop": None, "op": None, "condition": None, "divergent": None}
    return {"id": id, "kind": "", "at": at, "text": "", **empty, "accesses": [], "body": [], "orelse": [], "via": []}


def _bits(dtype: str) -> int:
    """Bits of one element, 0 where tvm does not know: it takes every custom type but `tfloat32` for 32 bits."""
    if dtype.startswith("custom[") and "tfloat32" not in dtype:
        return 0
    parsed = sys.modules["tvm"].DataType(dtype)
    return int(parsed.bits) * int(parsed.lanes)


def _launch(at: Any) -> dict[str, Any]:
    return {"grid": [], "threads": [], "cluster": [], "at": at}


def _launch_axis(stmt: Any) -> tuple[Any, str, Any] | None:
    """Variable, tag and extent if a statement binds a block or thread index of a launch."""
    if kind(stmt) == "For" and stmt.thread_binding is not None:
        tag = str(stmt.thread_binding.thread_tag)
        if tag.startswith(("blockIdx.", "threadIdx.")):
            return stmt.loop_var, tag, stmt.extent
    if kind(stmt) == "AttrStmt" and str(stmt.attr_key) == "thread_extent":
        return stmt.node.var, str(stmt.node.thread_tag), stmt.value
    return None


def _mode(mask: Any) -> str:
    return ACCESS_MODES.get(int(mask.value), "readwrite") if kind(mask) == "IntImm" else "readwrite"
