"""Attributes that no kernel can have decided: what a script is given from outside, constants of a class, shapes. Pure."""

from __future__ import annotations

import ast
from collections.abc import Callable

from triage.knowledge.scopes import Binding, Scopes, imports
from triage.knowledge.syntax import Function

#: what a script is given from outside, by module
GIVEN = {"sys": "argv", "os": "environ"}
#: functions of torch that make a tensor of a shape that their arguments tell, and methods that keep the shape
MAKES = frozenset({"empty", "full", "ones", "rand", "randint", "randn", "zeros"})
SAME_SHAPE = frozenset(
    {"bfloat16", "clone", "contiguous", "cuda", "detach", "float", "half", "normal_", "to", "uniform_"}
)
#: what is known of such a tensor without its values
OF_SHAPE, ASKS_SHAPE = frozenset({"dtype", "ndim", "shape"}), frozenset({"dim", "numel", "size"})
#: ways to set an attribute that do not name it
UNSEEN = frozenset({"setattr", "vars"})


class Attributes:
    """Those of one source text. `constant` and `certain` are `Constants.depth` and `Constants.is_certain`."""

    def __init__(
        self, scopes: Scopes, constant: Callable[[ast.expr], int | None], certain: Callable[[ast.AST], bool]
    ) -> None:
        self.scopes = scopes
        self.constant, self.certain = constant, certain
        nodes = list(ast.walk(scopes.tree))
        self._set = {n.attr for n in nodes if isinstance(n, ast.Attribute) and not isinstance(n.ctx, ast.Load)}
        self._set_unseen = any(isinstance(n, ast.Name) and n.id in UNSEEN for n in nodes)
        #: the tensors that are being looked at
        self._asked: set[ast.AST] = set()

    def depth(self, node: ast.Attribute) -> int | None:
        """How many containers lie in one another in the attribute, None if it is no constant."""
        if any(imports(self.scopes, node.value, module) and node.attr == name for module, name in GIVEN.items()):
            return 1
        if node.attr in OF_SHAPE and self._has_known_shape(node.value):
            return 0
        if not isinstance(node.value, ast.Name) or node.attr in self._set or self._set_unseen:
            return None
        return 0 if self._is_plain(node.value, node.attr) else None

    def is_of_shape(self, called: ast.Attribute) -> bool:
        """Whether calling this asks a tensor for its shape, and that is known."""
        return called.attr in ASKS_SHAPE and self._has_known_shape(called.value)

    def _is_plain(self, name: ast.Name, attribute: str) -> bool:
        """Whether a name holds the arguments of the command line, a class with a constant, or an instance of one."""
        bindings = self.scopes.bindings(name)[1]
        only = bindings[0] if len(bindings) == 1 else Binding(name)
        match only:
            case Binding(ast.ClassDef()):
                return self._is_of_class(only.node, attribute)
            case Binding(value=ast.Call(func=ast.Attribute(attr="parse_args")), inside=0):
                return self.certain(only.node)
            case Binding(value=ast.Call(func=ast.Name() as called, args=[], keywords=keywords), inside=0):
                made = [binding.node for binding in self.scopes.bindings(called)[1]]
                named = [keyword for keyword in keywords if keyword.arg in (attribute, None)]
                given = all(keyword.arg and self.constant(keyword.value) == 0 for keyword in named)
                return given and len(made) == 1 and self._is_of_class(made[0], attribute) and self.certain(only.node)
        return False

    def _is_of_class(self, made: ast.AST, attribute: str) -> bool:
        """Whether a class that computes nothing, and inherits nothing, gives the attribute a constant."""
        if not isinstance(made, ast.ClassDef) or made.bases or made.keywords:
            return False
        named = (n for n in ast.walk(made) if isinstance(n, ast.Name) and n.id == attribute)
        given = [self.scopes.parents[n] for n in named if isinstance(n.ctx, ast.Store)]
        value = given[0].value if len(given) == 1 and isinstance(given[0], ast.Assign | ast.AnnAssign) else None
        computes = any(isinstance(n, Function) for n in made.body)
        return not computes and value is not None and self.constant(value) == 0 and self.certain(made)

    def _has_known_shape(self, node: ast.expr) -> bool:
        """Whether a tensor was made by the script itself, of a shape that no kernel decides."""
        match node:
            case ast.Name():
                bindings = self.scopes.bindings(node)[1]
                return bool(bindings) and all(map(self._gives_known_shape, bindings))
            case ast.Call(func=ast.Attribute(value=base, attr=name)) if imports(self.scopes, base, "torch"):
                sizes = [*node.args, *(keyword.value for keyword in node.keywords if keyword.arg == "size")]
                return name in MAKES and all(self.constant(size) is not None for size in sizes)
            case ast.Call(func=ast.Attribute(value=base, attr=name)):
                return name in SAME_SHAPE and self._has_known_shape(base)
        return False

    def _gives_known_shape(self, binding: Binding) -> bool:
        if binding.node in self._asked:
            return True  # the others decide
        if binding.value is None or binding.inside or not self.certain(binding.node):
            return False
        self._asked.add(binding.node)
        try:
            return self._has_known_shape(binding.value)
        finally:
            self._asked.discard(binding.node)
