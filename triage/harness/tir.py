"""Changes of a PrimFunc: the experiments take away or change one unit or several (`units.py`).

A **change** is `{"unit": id}`, with `"value"` where the unit has choices. A path in an id is the child numbers from the
body of the function down, joined by dots; it stays valid under every change, because a removed statement leaves an
empty one behind. Data types, symbols and extents are changed in the saved JSON, before it is loaded: there every mention
is one string or one node.
"""

from __future__ import annotations

import json
from typing import Any

Change = dict[str, Any]

#: what a symbol becomes; a multiple of every tile edge in use
SYMBOL_VALUE = 128
REPLACEMENT_DTYPE = "float32"
LAUNCH = "tl.launch_threads"
#: kinds of changes that are made in the saved JSON
IN_JSON = ("dtype", "symbol", "extent")


class BadChange(ValueError):
    """A change that names no unit of this PrimFunc."""


# ---------------------------------------------------------------------------------------------- the saved JSON


def edit_json(text: str, changes: list[Change]) -> str:
    """Apply the changes of data types, symbols and extents to a PrimFunc saved by `tvm.ir.save_json`."""
    ours = [c for c in changes if c["unit"].split(":")[0] in IN_JSON]
    if not ours:
        return text
    graph = json.loads(text)
    for change in ours:
        kind, _, name = change["unit"].partition(":")
        if kind == "dtype":
            _replace_dtype(graph, name, change.get("value", REPLACEMENT_DTYPE))
        elif kind == "symbol":
            _replace_symbol(graph, name, change.get("value", SYMBOL_VALUE))
        else:
            _replace_extent(graph, int(name), change.get("value", 1 << int(name).bit_length()))
    return json.dumps(graph)


def _replace_dtype(graph: dict[str, Any], old: str, new: str) -> None:
    for node in graph["nodes"]:
        data = node.get("data")
        if isinstance(data, dict) and data.get("dtype") == old:
            data["dtype"] = new


def _replace_symbol(graph: dict[str, Any], name: str, value: int) -> None:
    """Scalar parameters are left alone: `apply` replaces what the body reads of them."""
    nodes = graph["nodes"]
    scalars = {p for node in nodes if node["type"] == "tirx.PrimFunc" for p in nodes[node["data"]["params"]]["data"]}
    for number, node in enumerate(nodes):
        if number in scalars:
            continue
        if node["type"] in ("tirx.Var", "tirx.SizeVar") and nodes[node["data"]["name"]].get("data") == name:
            dtype = node["data"]["dtype"]
            if dtype.startswith(("int", "uint")):
                nodes[number] = {
                    "type": "ir.IntImm",
                    "data": {"span": node["data"]["span"], "dtype": dtype, "value": value},
                }


def _replace_extent(graph: dict[str, Any], old: int, new: int) -> None:
    """A number wherever it stands, except as the number of threads: the extents of tiles, loops and operands go together."""
    nodes = graph["nodes"]
    keys = {number for number, node in enumerate(nodes) if node.get("data") == LAUNCH}
    maps = [node["data"] for node in nodes if node["type"] == "ffi.Map"]
    launches = [data[at + 1] for data in maps for at in range(0, len(data), 2) if data[at] in keys]
    threads = {count for number in launches for count in nodes[number]["data"]}
    for number, node in enumerate(nodes):
        if node["type"] == "ir.IntImm" and node["data"]["value"] == old and number not in threads:
            node["data"]["value"] = new


# ------------------------------------------------------------------------------------------------ changing them


def apply(func: Any, changes: list[Change]) -> Any:
    """The PrimFunc with the changes made. Raises `BadChange` for a unit that it does not have."""
    from tvm import tirx

    edits: dict[str, list[tuple[str, list[str], Any]]] = {}
    for change in changes:
        verb, _, rest = change["unit"].partition(":")
        path, *detail = rest.split(":")
        if verb in IN_JSON:
            continue
        if verb not in ("drop", "unwrap", "serial", "note", "threads", "alloc"):
            raise BadChange(f"nothing can be changed about {change['unit']}")
        edits.setdefault(path, []).append((verb, detail, change.get("value")))
    editor = Editor(tirx, edits)
    body = editor.rewrite(func.body, "0")
    missed = set(edits) - editor.met
    if missed:
        raise BadChange(f"no statement at {', '.join(sorted(missed))}")
    symbols = {
        c["unit"].partition(":")[2]: c.get("value", SYMBOL_VALUE) for c in changes if c["unit"].startswith("symbol:")
    }
    constants = {p: tirx.const(symbols[str(p.name)], p.dtype) for p in func.params if str(p.name) in symbols}
    return func.with_body(tirx.stmt_functor.substitute(body, constants) if constants else body)


class Editor:
    """Rebuilds a statement with the edits of each path; spans are kept, so that messages still show places."""

    def __init__(self, tirx: Any, edits: dict[str, list[tuple[str, list[str], Any]]]) -> None:
        from tilelang import tvm

        self.tirx, self.edits, self.met = tirx, edits, set()
        self._span = tvm.get_global_func("tl.ir.GetStmtSpan", allow_missing=True) or (lambda _: None)

    def rewrite(self, statement: Any, path: str) -> Any:
        edits = self.edits.get(path, [])
        if edits:
            self.met.add(path)
        before, after = ([value for verb, _, value in edits if verb == where] for where in ("before", "after"))
        if before or after:
            edits = [edit for edit in edits if edit[0] not in ("before", "after")]
            return self._sequence([*before, self._edited(statement, path, edits), *after], None)
        return self._edited(statement, path, edits)

    def _edited(self, statement: Any, path: str, edits: list[tuple[str, list[str], Any]]) -> Any:
        verbs = {verb for verb, _, _ in edits}
        if "drop" in verbs:
            self.met |= {p for p in self.edits if p.startswith(path + ".")}
            return self.tirx.Evaluate(self.tirx.const(0, "int32"))
        if "instead" in verbs:
            self.met |= {p for p in self.edits if p.startswith(path + ".")}
            return next(value for verb, _, value in edits if verb == "instead")
        inside = [self.rewrite(child, f"{path}.{n}") for n, child in enumerate(children(statement, self.tirx))]
        if "unwrap" in verbs:
            return self._unwrapped(statement, inside)
        return (
            self._rebuilt(statement, inside, edits) if edits or any_changed(statement, inside, self.tirx) else statement
        )

    def _unwrapped(self, statement: Any, inside: list[Any]) -> Any:
        if isinstance(statement, self.tirx.For):
            return self.tirx.stmt_functor.substitute(inside[0], {statement.loop_var: statement.min})
        return self._sequence(inside, None)

    def _sequence(self, statements: list[Any], span: Any) -> Any:
        """One statement of all. `SeqStmt` itself drops empty statements when it flattens opened ones, and refuses one left."""
        flat = [s for one in statements for s in (one.seq if isinstance(one, self.tirx.SeqStmt) else [one])]
        return flat[0] if len(flat) == 1 else self.tirx.SeqStmt(flat, span)

    def _rebuilt(self, s: Any, inside: list[Any], edits: list[tuple[str, list[str], Any]]) -> Any:
        tirx, span = self.tirx, self._span(s)
        if isinstance(s, tirx.SeqStmt):
            return self._sequence(inside, span)
        if isinstance(s, tirx.For):
            kind = tirx.ForKind.SERIAL if any(verb == "serial" for verb, _, _ in edits) else tirx.ForKind(s.kind)
            notes = changed_notes(dict(s.annotations), edits)
            return tirx.For(s.loop_var, s.min, s.extent, kind, inside[0], s.thread_binding, notes, s.step, span)
        if isinstance(s, tirx.While):
            return tirx.While(s.condition, inside[0], span)
        if isinstance(s, tirx.AttrStmt):
            return tirx.AttrStmt(s.node, s.attr_key, s.value, inside[0], span)
        if isinstance(s, tirx.IfThenElse):
            return tirx.IfThenElse(s.condition, inside[0], inside[1] if len(inside) > 1 else None, span)
        if isinstance(s, tirx.SBlockRealize):
            return tirx.SBlockRealize(list(s.iter_values), s.predicate, inside[0], span)
        if isinstance(s, tirx.SBlock):
            return self._block(s, inside, edits, span)
        if isinstance(s, tirx.Evaluate) and isinstance(s.value, tirx.Call):
            call = s.value
            notes = changed_notes(dict(call.annotations or {}), edits)
            return tirx.Evaluate(tirx.Call(call.dtype, call.op, list(call.args), notes, call.span), span)
        raise BadChange(f"{type(s).__name__} cannot be changed in this way")

    def _block(self, s: Any, inside: list[Any], edits: list[tuple[str, list[str], Any]], span: Any) -> Any:
        gone = {int(detail[0]) for verb, detail, _ in edits if verb == "alloc"}
        kept = [buffer for number, buffer in enumerate(s.alloc_buffers) if number not in gone]
        notes = changed_notes(dict(s.annotations), edits)
        for verb, _, value in edits:
            if verb == "threads":
                notes[LAUNCH] = [self.tirx.IntImm("int32", count) for count in value]
        body, init = inside[0], inside[1] if len(inside) > 1 else None
        return self.tirx.SBlock(
            list(s.iter_vars), list(s.reads), list(s.writes), s.name_hint, body, init, kept, list(s.match_buffers), notes, span
        )  # fmt: skip


def changed_notes(notes: dict[Any, Any], edits: list[tuple[str, list[str], Any]]) -> dict[Any, Any]:
    """Annotations without those that edits take away, or with the values that edits give them."""
    from tvm import tirx

    entries: dict[str, set[int]] = {}
    for verb, detail, value in edits:
        if verb != "note":
            continue
        key = detail[0]
        if key not in notes:
            raise BadChange(f"no annotation {key}")
        if len(detail) > 1:
            entries.setdefault(key, set()).add(int(detail[1]))
        elif value is None or (key == "num_stages" and value == 0):  # the DSL writes no annotation for 0 stages
            del notes[key]
        else:
            notes[key] = tirx.IntImm("int32", value) if isinstance(value, int) else value
    for key, gone in entries.items():
        left = {entry: notes[key][entry] for number, entry in enumerate(notes[key]) if number not in gone}
        if left:
            notes[key] = left
        else:
            del notes[key]
    return notes


# ---------------------------------------------------------------------------------------------------- the tree


def children(statement: Any, tirx: Any) -> list[Any]:
    """The statements directly inside a statement, in program order."""
    if isinstance(statement, tirx.SeqStmt):
        return list(statement.seq)
    if isinstance(statement, tirx.SBlockRealize):
        return [statement.block]
    if isinstance(statement, tirx.SBlock):
        return [statement.body] + ([statement.init] if statement.init is not None else [])
    if isinstance(statement, tirx.IfThenElse):
        return [statement.then_case] + ([statement.else_case] if statement.else_case is not None else [])
    if isinstance(statement, (tirx.For, tirx.While, tirx.AttrStmt)):
        return [statement.body]
    return []


def any_changed(statement: Any, inside: list[Any], tirx: Any) -> bool:
    return any(not new.same_as(old) for new, old in zip(inside, children(statement, tirx), strict=True))
