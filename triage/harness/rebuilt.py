"""A kernel with some of its statements built again from changed text, without building the rest of it, or running the script.

While a kernel is built, what each name of the script stands for at each statement is remembered. A changed statement is then translated
by tilelang as the old one was, with the same names, and takes its place in the finished PrimFunc. That takes a hundredth of what running the
script takes, so that many changes can be looked at.

A **part** is what changes about one statement: `{"line", "text", "was", "header"}`; `text` is the whole new statement, `was` the old one, or of a compound one
(`header`) its first line. A compound one is left out as `{"line", "drop": true}`, and
statements are put before it as `{"line", "put": text}`. Before a line is trusted, the old text is built in this way, too, and has to give what stands there: names may stand for something
that has changed since.
"""

from __future__ import annotations

import ast
import functools
import sys
import textwrap
import types
from collections.abc import Iterator, Sequence
from typing import Any

from . import places, tir, units

Part = dict[str, Any]
#: globals and locals of the function that builds a kernel, at one statement
Scope = tuple[dict[str, Any], dict[str, Any]]
#: the name by which translated code calls the builder
BUILDER = "__tb"


class NotRebuilt(Exception):
    """Why a change cannot be made in this way."""


class Names:
    """What the names of a script stand for in each statement of the kernels that it builds."""

    def __init__(self) -> None:
        self._built: list[tuple[Any, dict[int, list[Scope]]]] = []

    def watch(self, builder: Any, script: str) -> None:
        """Patch `Builder` of a tilelang that was just imported; `script` is the file whose lines are asked about."""
        set_fileline, get = builder.set_fileline, builder.get

        @functools.wraps(set_fileline)
        def remember(one: Any, filename: str, lineno: int, name: str) -> None:
            set_fileline(one, filename, lineno, name)
            frame = sys._getframe(1)
            now = lineno, frame, frame.f_lasti
            last = one.__dict__.get("_triage_last")
            one.__dict__["_triage_last"] = now
            # `a, b = …` becomes several statements of one line
            goes_on = last is not None and last[:2] == now[:2] and last[2] < now[2]
            if filename == script and not goes_on:
                known = one.__dict__.setdefault("_triage_scopes", {})
                known.setdefault(lineno, []).append(_scope(frame, script))

        @functools.wraps(get)
        def built(one: Any) -> Any:
            func = get(one)
            self._built.append((func, one.__dict__.get("_triage_scopes", {})))
            return func

        builder.set_fileline, builder.get = remember, built

    def of(self, func: Any) -> dict[int, list[Scope]]:
        """The scopes of the lines of a kernel. Raises `NotRebuilt`."""
        for raw, scopes in self._built:
            if raw.body.same_as(func.body):  # tilelang puts attributes on what was built, which makes another object
                return scopes
        raise NotRebuilt("nobody saw how the kernel was built")


def _scope(frame: types.FrameType, script: str) -> Scope:
    """The names that a statement could use: those of the function around, too, which Python keeps only if something in it uses them."""
    around: list[dict[str, Any]] = []
    caller: types.FrameType | None = frame
    while caller is not None:
        if caller.f_code.co_filename == script and caller.f_locals is not caller.f_globals:
            around.append(caller.f_locals)
        caller = caller.f_back
    return frame.f_globals, {name: value for names in reversed(around) for name, value in names.items()}


class Kernel:
    """A PrimFunc whose statements can be built again. Raises `NotRebuilt` if nobody saw how it was built."""

    def __init__(self, func: Any, names: Names, script: str) -> None:
        self.func, self.script = func, script
        self.scopes = names.of(func)
        self._at: dict[int, list[tuple[str, Any]]] = {}
        self._faithful: dict[int, bool] = {}
        for path, _, statement in units.walk(func.body):
            place = places.of_statement(statement)
            if place is not None and place["file"] == script:
                known = self._at.setdefault(int(place["line"]), [])
                if not any(path.startswith(f"{above}.") for above, _ in known):
                    known.append((path, statement))

    def has(self, line: int) -> bool:
        """Whether a statement of the kernel begins in a line of the script."""
        return line in self.scopes and line in self._at

    def with_parts(self, parts: Sequence[Part]) -> Any:
        """The PrimFunc with changed statements. Raises `NotRebuilt`, or what tilelang raises where a text makes no sense."""
        from tvm import tirx

        edits: dict[str, list[tuple[str, list[str], Any]]] = {}
        carried: dict[str, Any] = {}
        for part in sorted(parts, key=lambda part: part["line"]):
            if part.get("drop"):
                for path, _ in self._at[part["line"]]:
                    edits[path] = [*edits.get(path, ()), ("drop", [], None)]
                continue
            header = bool(part.get("header"))
            times = self._times(part["line"], header or "put" in part)
            if "put" in part:
                for scope, ((path, _), *_) in times:
                    new, _ = _built(part["put"], scope, carried, self.script, header=False)
                    edits[path] = [("before", [], new), *edits.get(path, ())]
                continue
            self._trust(part, times, header)
            for scope, found in times:
                new, given = _built(part["text"], scope, carried, self.script, header)
                path, old = found[0]
                if header:
                    edits[path] = [("instead", [], _with_header(old, new, tirx))]
                    continue
                if given and len(times) > 1:
                    raise NotRebuilt("a statement that is built several times gives a name")
                carried.update(given)
                each = list(new.seq) if isinstance(new, tirx.SeqStmt) else [new]
                if len(each) == len(found) and isinstance(old, tirx.Bind):  # `a, b = …`
                    pairs = zip(found, each, strict=True)
                    edits |= {at: [("instead", [], _in_place_of(was, now, tirx))] for (at, was), now in pairs}
                    continue
                edits[path] = [("instead", [], _in_place_of(old, new, tirx))]
                edits |= {further: [("drop", [], None)] for further, _ in found[1:]}
        return self.func.with_body(tir.Editor(tirx, edits).rewrite(self.func.body, "0"))

    def _times(self, line: int, header: bool) -> list[tuple[Scope, list[tuple[str, Any]]]]:
        """Each time that a statement was built, as that of a macro is by every call: with which names, and what came of it. Raises
        `NotRebuilt` where that cannot be told apart."""
        from tvm import tirx

        scopes, found = self.scopes.get(line, []), self._at.get(line, [])
        if header and found:  # tilelang says the line of a condition once more for each of its cases
            scopes = scopes[:: max(1, len(scopes) // len(found))]
        if not scopes or not found or len(found) % len(scopes) or (header and len(found) != len(scopes)):
            raise NotRebuilt("the statement is built several times, or leaves nothing behind")
        if not header and any(isinstance(statement, (tirx.For, tirx.SBlockRealize)) for _, statement in found):
            raise NotRebuilt("the statement is a loop")
        each = len(found) // len(scopes)
        return [(scope, found[n * each : (n + 1) * each]) for n, scope in enumerate(scopes)]

    def _trust(self, part: Part, times: list[tuple[Scope, list[tuple[str, Any]]]], header: bool) -> None:
        """Raise `NotRebuilt` if the old text of a statement does not give what stands there."""
        line = part["line"]
        if line not in self._faithful:
            self._faithful[line] = all(self._is_built(part["was"], scope, found, header) for scope, found in times)
        if not self._faithful[line]:
            raise NotRebuilt("the statement is no longer built as it was")

    def _is_built(self, text: str, scope: Scope, at: list[tuple[str, Any]], header: bool) -> bool:
        """Whether a text gives what stands there."""
        from tilelang import tvm
        from tvm import tirx

        found = [statement for _, statement in at]
        again, _ = _built(text, scope, {}, self.script, header)
        if header:
            pairs = [(_with_header(found[0], again, tirx), found[0])]
        else:
            built = again.seq if isinstance(again, tirx.SeqStmt) else [again]
            made = [_in_place_of(old, new, tirx) for old, new in zip(found, built, strict=False)]
            pairs = list(zip(made, found, strict=True)) if len(built) == len(found) else [(again, None)]
        return all(tvm.ir.structural_equal(new, old) for new, old in pairs)


def _built(
    text: str, scope: Scope, carried: dict[str, Any], script: str, header: bool
) -> tuple[Any, dict[str, Any]]:  # fmt: skip
    """What tilelang makes of a statement, and the names that it gives."""
    modules = sys.modules
    translate, build = modules["tilelang.language.eager.ast"], modules["tilelang.language.eager.builder"]
    text = textwrap.dedent(text)
    tree = ast.parse(f"{text}\n    pass" if header else text or "pass")
    if header and _has_step(tree.body[0]):
        raise NotRebuilt("tilelang puts the step of a loop into its body")
    mutator = translate.DSLMutator({}, scope[0], script)
    code = compile(ast.fix_missing_locations(mutator.visit(tree)), script, "exec")
    builder = build.Builder()
    names = {**scope[0], **scope[1], **carried}
    inside = {**names, BUILDER: builder}
    current = build.Builder.current()
    with builder.prim_func("changed"), builder.with_frame(build.tirx.serial(0, 1)):
        exec(code, inside)
    if current is not None:
        build.thread_local_storage.builder = current
    given = {
        name: value
        for name, value in inside.items()
        if name not in (BUILDER, "__builtins__") and (name not in names or names[name] is not value)
    }
    return builder.ir_builder.get().body.body, given


def _has_step(statement: ast.stmt) -> bool:
    call = statement.iter if isinstance(statement, ast.For) else None
    if not isinstance(call, ast.Call):
        return False
    several = ast.unparse(call.func).rpartition(".")[2] in ("Parallel", "grid")  # of which each is a loop of its own
    return (len(call.args) > 2 and not several) or any(keyword.arg == "step" for keyword in call.keywords)


def _in_place_of(old: Any, new: Any, tirx: Any) -> Any:
    """A statement that can stand where another one did: what that gave a name keeps its variable."""
    if isinstance(old, tirx.Bind):
        if not isinstance(new, tirx.Bind) or str(new.var.dtype) != str(old.var.dtype):
            raise NotRebuilt("the value is another sort of thing now")
        return tirx.Bind(old.var, new.value)
    allowed = (tirx.BufferStore, tirx.Evaluate, tirx.SeqStmt, tirx.Bind, tirx.For)
    for one in new.seq if isinstance(new, tirx.SeqStmt) else [new]:
        if not isinstance(one, allowed):
            raise NotRebuilt("the statement is a compound one of another sort now")
    return new


def _with_header(old: Any, new: Any, tirx: Any) -> Any:
    """A loop or a condition with the header of another one. Loops of one header nest in each other."""
    if isinstance(old, tirx.IfThenElse) and isinstance(new, tirx.IfThenElse):
        return tirx.IfThenElse(new.condition, old.then_case, old.else_case)
    if not isinstance(old, tirx.For) or not isinstance(new, tirx.For):
        raise NotRebuilt("the statement is of another sort now")
    inner = list(_loops(new, tirx))
    outer = list(_loops(old, tirx))[: len(inner)]
    if len(outer) < len(inner):
        raise NotRebuilt("the loop has another number of counters now")
    body = outer[-1].body
    for was, now in reversed(list(zip(outer, inner, strict=True))):
        body = tirx.For(
            was.loop_var, now.min, now.extent, tirx.ForKind(now.kind), body, now.thread_binding, dict(now.annotations), now.step
        )  # fmt: skip
    return body


def _loops(node: Any, tirx: Any) -> Iterator[Any]:
    while isinstance(node, tirx.For):
        yield node
        node = node.body
