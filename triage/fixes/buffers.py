"""Buffers as the script writes them: where one is allocated or declared, its shape and its data type. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import libcst as cst

from triage.fixes import tree
from triage.fixes.tree import Edit, Source, Sources

#: calls that declare a tensor parameter, or make a tensor in the kernel
DECLARING = ("Tensor", "Buffer", "StridedTensor", "TensorV2", "match_buffer", "empty", "handle")


@dataclass(frozen=True)
class Declared:
    """A buffer by the call that makes it: `T.alloc_shared(shape, dtype)`, or `T.Tensor(shape, dtype)` of a parameter."""

    source: Source
    call: cst.Call
    parameter: bool = False

    @property
    def allocator(self) -> str:
        return tree.name_of(self.call)

    @property
    def shape(self) -> cst.Arg | None:
        return tree.argument(self.call, 0, "shape")

    @property
    def dtype(self) -> cst.Arg | None:
        return tree.argument(self.call, 1, "dtype")


@dataclass(frozen=True)
class Shape:
    """A shape that is written out: the tuple or list, wherever it stands."""

    source: Source
    node: cst.Tuple | cst.List

    @property
    def dims(self) -> list[cst.BaseExpression]:
        return [element.value for element in self.node.elements]

    def text(self, dim: int) -> str:
        return self.source.code(self.dims[dim])

    def swapped(self, one: int = -2, other: int = -1) -> Edit:
        values = self.dims
        values[one], values[other] = values[other], values[one]
        elements = [e.with_changes(value=v) for e, v in zip(self.node.elements, values, strict=True)]
        return Edit(self.source.path, self.node, self.node.with_changes(elements=elements))

    def replaced(self, dim: int, text: str) -> Edit:
        return Edit(self.source.path, self.dims[dim], tree.expression(text))


def base(expression: cst.CSTNode) -> cst.CSTNode:
    """The buffer of an operand: `A_s` of `A_s[stage, :, :]`."""
    while isinstance(expression, cst.Subscript):
        expression = expression.value
    return expression


def declared(sources: Sources, source: Source, operand: cst.CSTNode) -> Declared | None:
    """The one declaration of an operand's buffer; None where there is none, or several."""
    found = list(declarations(sources, source, operand))
    return found[0] if len(found) == 1 else None


def declarations(sources: Sources, source: Source, operand: cst.CSTNode) -> Iterator[Declared]:
    for where, node in sources.origins(source, base(operand)):
        if isinstance(node, cst.Call) and (tree.name_of(node).startswith("alloc_") or tree.name_of(node) in DECLARING):
            yield Declared(where, node, not tree.name_of(node).startswith("alloc_"))
        elif isinstance(node, cst.Param) and node.annotation is not None:
            annotation = node.annotation.annotation
            if isinstance(annotation, cst.Call):
                yield Declared(where, annotation, True)
    name = base(operand)
    if isinstance(name, cst.Name):
        for value in source.bound(name):
            if isinstance(value, cst.Param) and value.annotation is not None:
                annotation = value.annotation.annotation
                if isinstance(annotation, cst.Call) and tree.name_of(annotation) in DECLARING:
                    yield Declared(source, annotation, True)


def shape_of(sources: Sources, buffer: Declared | None) -> Shape | None:
    """The written shape of a buffer, followed through names; None where it is computed."""
    if buffer is None or buffer.shape is None:
        return None
    found = sources.origins(buffer.source, buffer.shape.value)
    if len(found) == 1 and isinstance(found[0][1], (cst.Tuple, cst.List)):
        return Shape(found[0][0], found[0][1])
    return None


def named(source: Source, line: int, buffer: str) -> Sequence[cst.Subscript]:
    """Subscripts of a buffer on a line, the innermost last."""
    found = source.at(cst.Subscript, line)
    return [s for s in found if isinstance(s.value, cst.Name) and s.value.value == buffer] or found


def indices(subscript: cst.Subscript) -> list[str]:
    """The indices of a subscript as text."""
    return [cst.Module([]).code_for_node(element.slice) for element in subscript.slice]


def with_indices(subscript: cst.Subscript, texts: Sequence[str]) -> cst.Subscript:
    """The subscript with other indices."""
    changed = tree.expression(f"x[{', '.join(texts)}]")
    assert isinstance(changed, cst.Subscript)
    return subscript.with_changes(slice=changed.slice)
