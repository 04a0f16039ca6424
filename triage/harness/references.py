"""References of the user's (`--reference module:function`): what a launch computed against what a function returns for its inputs.

A launch is looked at only where its results are real. Its inputs are copied before it begins, because a kernel may write them. What
comes of it is told as any comparison is; what is wrong with a reference itself is told once, as a `reference` event.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import inspect
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from . import outputs, places, record, seeds, target

#: launches of one kernel that are compared; a benchmark makes thousands
LAUNCHES = 8
#: The type whose tolerance a product of float32 needs: both operands are cut off to the 11 bits of tf32, which errs as much as
#: several roundings to float16.
READ_AS = {"float32": "bfloat16"}


class Unusable(Exception):
    """What is wrong with a reference, in two parts that a line holds each; `at` is the place in the user's files to look at."""

    def __init__(self, what: str, beside: str = "", at: dict[str, Any] | None = None) -> None:
        super().__init__(what)
        self.beside, self.at = beside, at


class Unfit(Unusable):
    """Why a kernel is not compared with a reference that may be right for others."""


@dataclass
class Reference:
    """One `--reference`, as the parent read it. `kernel`: the only one that it is for, None for all that it fits."""

    text: str
    module: str
    file: str
    function: str
    kernel: str | None
    paths: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"--reference {self.text}"

    @functools.cached_property
    def call(self) -> Callable[..., Any]:
        """The user's function. Raises `Unusable`."""
        with _importable(self.paths):
            try:
                module = _loaded(self.file) or (
                    _from_file(self.file) if self.file else importlib.import_module(self.module)
                )
            except (Exception, SystemExit) as error:
                said = f"it cannot be imported: {type(error).__name__}"
                raise Unusable(said, text_of(error), raised_at(error, self.file)) from error
        found: Any = module
        for name in self.function.split("."):
            if not hasattr(found, name):
                raise Unusable(f"{module.__name__} has no {self.function} when the kernel is launched")
            found = getattr(found, name)
        if not callable(found):
            raise Unusable(f"{self.function} is {_kind(found)} and no function")
        return found  # type: ignore[no-any-return]

    def arguments(self, forms: Sequence[dict[str, Any]], kernel: str, **options: Any) -> dict[str, Any]:
        """The first of some choices of inputs, by name, with which, and with `options`, the function can be called. Raises `Unfit`, `Unusable`."""
        try:
            signature = inspect.signature(self.call)
        except (TypeError, ValueError):  # of a function in C
            return forms[0]
        for form in forms:
            with contextlib.suppress(TypeError):
                signature.bind(*form.values(), **options)
                return form
        has = f"{kernel} has {_counted(len(forms[0]), 'input')} ({', '.join(forms[0])})"
        raise Unfit(has, f", and {self.function} takes {signature}", places.of_code(self.call))


@dataclass
class Kernel:
    """What is to be known of a kernel to call a reference, and to judge its results."""

    id: str
    #: its function with those around it, and the name in the generated source
    name: str
    symbol: str
    inputs: list[str]
    returned: list[str]
    #: parameters that it writes, in their order, but for those that a call returns
    written: list[str]
    #: parameters that it reads, and that it adds to: of these only the author knows whether what they held counts
    reads: frozenset[str]
    updates: frozenset[str]
    #: floating-point types of its own buffers, as coarse as they are computed with
    types: frozenset[str]
    defined_at: dict[str, Any] | None

    def is_called(self, name: str) -> bool:
        return name in (self.symbol, self.name, *self.name.split("."))

    def forms(self, values: dict[str, Any]) -> list[dict[str, Any]]:
        """The inputs that a reference may want: with the parameters that the kernel adds to, and without."""
        read = [name for name in self.inputs if name not in self.written or name in self.reads]
        updated = [name for name in self.inputs if name in read or name in self.updates]
        return [{name: values.get(name) for name in names} for names in (updated, read)]


@dataclass
class Pending:
    """A launch that is to be compared: the references that fit, each with copies of its inputs."""

    kernel: Kernel
    calls: list[tuple[Reference, list[Any]]]


class References:
    """Watches the launches of one process."""

    def __init__(self, context: Any) -> None:
        spec = context.spec
        self.context = context
        self.references = [Reference(**one) for one in spec["references"]]
        self.tolerances: dict[str, list[float]] = spec["tolerances"]
        self._kernels: dict[str, Kernel] = {}
        self._counts: Counter[str] = Counter()
        self._told: set[tuple[str, ...]] = set()
        self._broken: set[str] = set()
        self._local = threading.local()

    def watch_launches(self, kernel_class: type) -> None:
        original = kernel_class.__call__

        @functools.wraps(original)
        def __call__(kernel: Any, *args: Any, **options: Any) -> Any:
            if getattr(self._local, "inside", False) or not self._computes(kernel):
                return original(kernel, *args, **options)
            pending = None
            with self.context.guarded("copy the inputs of a launch for its reference"):
                pending = self._before(kernel, args)
            result = original(kernel, *args, **options)
            if pending is not None:
                with self.context.guarded("compare a launch with its reference"):
                    self._after(pending, kernel, args, result)
            return result

        kernel_class.__call__ = __call__  # type: ignore[method-assign]

    # ---------------------------------------------------------------------------------------------- around a launch

    def _computes(self, kernel: Any) -> bool:
        """Whether the results of a launch may be real."""
        if self._is_virtual(kernel):
            return self.context.twin is not None
        return not (self._has_device() and sys.modules["torch"].cuda.is_current_stream_capturing())

    def _has_device(self) -> bool:
        """Whether the script uses a real GPU."""
        return self.context.mode == "real" and bool(sys.modules["torch"].cuda.is_initialized())

    def _is_virtual(self, kernel: Any) -> bool:
        return self.context.mode == "virtual" and bool(target.is_cuda(kernel.target))

    def _before(self, launched: Any, args: tuple[Any, ...]) -> Pending | None:
        id = launched.__dict__.get("_triage_id")
        if id is None or self._counts[id] >= LAUNCHES:
            return None
        if id not in self._kernels:
            self._kernels[id] = described(launched.__dict__)
            self._tell_once("launched", None, self._kernels[id])
        kernel = self._kernels[id]
        wanted = [r for r in self.references if r.kernel is None or kernel.is_called(r.kernel)]
        if not wanted or len(args) != len(kernel.inputs):
            return None
        values = dict(zip(kernel.inputs, args, strict=True))
        calls = []
        for reference in wanted:
            form = self._fitting(reference, kernel, values)
            if form is not None:
                calls.append((reference, [self._copy(value) for value in form.values()]))
        return Pending(kernel, calls) if calls else None

    def _fitting(self, reference: Reference, kernel: Kernel, values: dict[str, Any]) -> dict[str, Any] | None:
        if reference.text in self._broken:
            return None
        try:
            with self._alone():
                reference.call  # noqa: B018 - imported under these conditions, too
            return reference.arguments(kernel.forms(values), kernel.name or kernel.symbol)
        except Unfit as why:
            self._tell_once("unfit", reference, kernel, why)
        except Unusable as why:
            self._broken.add(reference.text)
            self._tell_once("unusable", reference, kernel, why)
        return None

    def _copy(self, value: Any) -> Any:
        torch = sys.modules["torch"]
        if not isinstance(value, torch.Tensor):
            return value
        shadow = self.context.shadow
        unfollowed = contextlib.nullcontext() if shadow is None else shadow.paused()
        with unfollowed, torch.inference_mode(False), torch.no_grad():  # for its float64 value, an input is what it is
            return value.detach().clone()

    def _after(self, pending: Pending, launched: Any, args: tuple[Any, ...], result: Any) -> None:
        if self._is_virtual(launched) and self.context.computed is None:
            return  # its values were made up after all
        if self._has_device():
            sys.modules["torch"].cuda.synchronize()  # a fault of the kernel is none of the reference
        kernel = pending.kernel
        self._counts[kernel.id] += 1
        written = dict(zip(kernel.returned, outputs.returned(result), strict=False))
        given = dict(zip(kernel.inputs, args, strict=True))
        written |= {name: given[name] for name in kernel.written if given.get(name) is not None}
        for reference, inputs in pending.calls:
            try:
                expected = self._called(reference, inputs)
                if self.context.comparisons.is_made_up(expected):
                    self._tell_once("unfit", reference, kernel, Unfit("the virtual device made up what it returns"))
                else:
                    self._compare(reference, kernel, _pairs(reference, kernel, written, expected))
            except Unusable as why:
                self._tell_once("unusable", reference, kernel, why)

    def _called(self, reference: Reference, inputs: list[Any]) -> Any:
        torch = sys.modules["torch"]
        try:
            with self._alone(), _importable(reference.paths), torch.inference_mode(False), torch.enable_grad():
                return reference.call(*inputs)
        except (Exception, SystemExit) as error:
            at = raised_at(error, reference.file, self.context.is_user)
            said = f"it ends with {type(error).__name__}"
            raise Unusable(said, text_of(error), at or places.of_code(reference.call)) from error

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """What the user's code does inside is not the script's: no comparison, no launch to compare, no random number drawn."""
        with self.context.comparisons.unwatched(), seeds.kept(device=self._has_device()):
            self._local.inside = True
            try:
                yield
            finally:
                self._local.inside = False

    # --------------------------------------------------------------------------------------------------- comparing

    def _compare(self, reference: Reference, kernel: Kernel, pairs: list[tuple[Any, Any]]) -> None:
        judged = [(one, other, *tolerance(kernel, self.tolerances, one, other)) for one, other in pairs]
        at = self.context.user_frame() or kernel.defined_at
        self.context.comparisons.tell_reference(reference.name, judged, at, kernel.id)

    # ------------------------------------------------------------------------------------------------------ telling

    def _tell_once(self, what: str, reference: Reference | None, kernel: Kernel, why: Unusable | None = None) -> None:
        text, told = reference.text if reference else "", {}
        if why is not None:
            told = {"why": str(why), "beside": why.beside, "at": why.at}
        if (what, text, kernel.id, str(why)) not in self._told:
            self._told.add((what, text, kernel.id, str(why)))
            name = kernel.name or kernel.symbol
            self.context.emit("reference", what=what, reference=text, kernel=kernel.id, name=name, **told)


def tolerance(
    kernel: Kernel, tolerances: dict[str, list[float]], actual: Any, expected: Any
) -> tuple[float, float]:  # fmt: skip
    """What the coarsest type asks for in which either side was computed; an absolute one is meant for results of about 1."""
    from . import mismatch

    if not actual.is_floating_point():
        return 0.0, 0.0
    types = {str(side.dtype).removeprefix("torch.") for side in (actual, expected) if side.is_floating_point()}
    bounds = [tolerances.get(name) or _spacing(name) for name in (*types, *kernel.types)]
    rtol, atol = max(bounds)
    return rtol, atol * (mismatch.usual(expected) or 1.0)


def _pairs(reference: Reference, kernel: Kernel, written: dict[str, Any], returned: Any) -> list[tuple[Any, Any]]:
    """The outputs of a launch with what is expected of each. Raises `Unusable` where these do not belong together."""
    from . import comparisons

    at = places.of_code(reference.call)
    values = list(returned) if isinstance(returned, (list, tuple)) else [returned]
    names = list(written)
    if len(values) != len(names) and len(values) == len(kernel.returned):
        names = kernel.returned
    whose = kernel.name or kernel.symbol
    wanted = f", and {whose} has {_counted(len(names), 'output')} ({', '.join(names)})"
    if all(value is None for value in values):
        raise Unusable("it returns nothing", wanted, at)
    if len(values) != len(names):
        raise Unusable(f"it returns {_counted(len(values), 'value')}", wanted, at)
    pairs = []
    for name, value in zip(names, values, strict=True):
        if value is None:
            continue
        actual, expected = comparisons.tensor_of(written[name]), comparisons.tensor_of(value)
        if actual is None or expected is None:
            raise Unusable(f"it returns {_kind(value)} for {name}, and no tensor", "", at)
        if actual.shape != expected.shape:
            shape = f"it returns a tensor of shape {tuple(expected.shape)}"
            raise Unusable(shape, f", and {name} of {whose} has {tuple(actual.shape)}", at)
        pairs.append((actual, expected))
    return pairs


def described(state: dict[str, Any]) -> Kernel:
    """What is to be known of a compiled kernel, by what the capture left on it."""
    func = state["_triage_func"]
    recorder = record.Recorder(func)
    queue = recorder.statements(func.body, "")
    by_mode: dict[str, set[str]] = {"read": set(), "write": set(), "readwrite": set()}
    multiplied: set[str] = set()
    for statement in queue:
        for access in statement["accesses"]:
            by_mode[access["mode"]].add(access["buffer"])
        if str((statement["op"] or {}).get("name")).startswith(("gemm", "wgmma")):
            multiplied |= {access["buffer"] for access in statement["accesses"] if access["mode"] == "read"}
        queue += [*statement["body"], *statement["orelse"]]
    first = {b["name"]: b["alias_of"] or b["name"] for b in recorder.buffers}
    inputs = [p["name"] for p in state["_triage_inputs"]]
    read, stored, updated = ({first[name] for name in by_mode[mode]} for mode in ("read", "write", "readwrite"))
    return Kernel(
        id=state["_triage_id"],
        name=places.qualified_name(func),
        symbol=str(func.attrs["global_symbol"]) if func.attrs and "global_symbol" in func.attrs else "",
        inputs=inputs,
        returned=list(state["_triage_returned"]),
        written=[name for name in inputs if name in stored | updated],
        reads=frozenset(read),
        updates=frozenset(updated),
        types=frozenset(_types(recorder.buffers, multiplied)),
        defined_at=places.definition(func),
    )


def _types(buffers: list[dict[str, Any]], multiplied: set[str]) -> Iterator[str]:
    """The types in which a kernel computes. One of 8 bits usually only holds what it was given."""
    for buffer in buffers:
        dtype = str(buffer["dtype"])
        if buffer["scope"] != "global" and dtype in ("float16", "bfloat16", "float32"):
            yield READ_AS.get(dtype, dtype) if buffer["name"] in multiplied else dtype


def _spacing(name: str) -> list[float]:
    """One spacing at 1, of a type that the table does not have."""
    eps = float(sys.modules["torch"].finfo(getattr(sys.modules["torch"], name)).eps)
    return [eps, eps]


# ---------------------------------------------------------------------------------------------------------- the user's code


@contextlib.contextmanager
def _importable(paths: list[str]) -> Iterator[None]:
    """Modules in these folders can be imported inside, after all that the script itself can import."""
    added = [path for path in paths if path not in sys.path]
    sys.path.extend(added)
    try:
        yield
    finally:
        for path in added:
            with contextlib.suppress(ValueError):
                sys.path.remove(path)


def _loaded(file: str) -> ModuleType | None:
    """The module that was loaded from a file: the script itself, or what it imported."""
    wanted = os.path.realpath(file) if file else None
    for module in (sys.modules.get("__main__"), *list(sys.modules.values())):
        path = getattr(module, "__file__", None)
        if wanted and isinstance(path, str) and os.path.realpath(path) == wanted:
            return module
    return None


def _from_file(file: str) -> ModuleType:
    stem = os.path.splitext(os.path.basename(file))[0]
    name = stem if stem not in sys.modules else f"{stem}_reference"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # as an import does, for classes that look for their module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def text_of(error: BaseException) -> str:
    """The first line of what an error says, behind its type."""
    first = (str(error).strip().splitlines() or [""])[0]
    return f": {first}" if first else ""


def raised_at(
    error: BaseException, file: str, is_user: Callable[[str], bool] = lambda path: False
) -> dict[str, Any] | None:
    """The innermost line of the user's on the way to an error; of a file that cannot be read, the line that is at fault."""
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        return {"file": os.path.abspath(error.filename), "line": error.lineno}
    found = None
    trace = error.__traceback__
    while trace is not None:
        path = trace.tb_frame.f_code.co_filename
        if path == file or is_user(path):
            found = {"file": os.path.abspath(path), "line": trace.tb_lineno}
        trace = trace.tb_next
    return found


def _kind(value: Any) -> str:
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"
