"""Comparisons of values that were really computed: what was compared, whether it agreed, and what is wrong if not.

The functions with which scripts compare (`FUNCTIONS`) are replaced by ones that call them first and then look: the script
gets their answer, or their exception, unchanged. A comparison that failed and one that ended the script are brought together
by `of_error`: the exception came out of the comparison, or what decided over it did (`deciding.py`).
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from . import errors, sources
from .deciding import Passed
from .meetings import Meetings

#: failed comparisons that are told for one line of the script; a loop may make thousands
LIMIT = 32
#: the attribute by which an exception says which comparison raised it
MARK = "_triage_comparison"
#: what a check of the script's own is called that passes because an error is NaN
NAN_PASSES = "a check that NaN passes"


@dataclass(frozen=True)
class Function:
    """A function that compares: its parameters with their defaults, and whether it asserts or answers."""

    parameters: dict[str, Any]
    asserts: bool = True


ALLCLOSE = {"rtol": 1e-5, "atol": 1e-8, "equal_nan": False}
#: (module, name): the first two parameters are the operands
FUNCTIONS = {
    ("torch", "allclose"): Function({"input": None, "other": None} | ALLCLOSE, asserts=False),
    ("torch", "equal"): Function({"input": None, "other": None}, asserts=False),
    ("torch.testing", "assert_close"): Function({"actual": None, "expected": None}),
    ("numpy", "allclose"): Function({"a": None, "b": None} | ALLCLOSE, asserts=False),
    ("numpy", "array_equal"): Function({"a1": None, "a2": None, "equal_nan": False}, asserts=False),
    ("numpy.testing", "assert_allclose"): Function(
        {"actual": None, "desired": None, "rtol": 1e-7, "atol": 0.0, "equal_nan": True}
    ),
    ("numpy.testing", "assert_array_equal"): Function({"actual": None, "desired": None, "equal_nan": True}),
    ("numpy.testing", "assert_equal"): Function({"actual": None, "desired": None, "equal_nan": True}),
    ("numpy.testing", "assert_array_almost_equal"): Function(
        {"actual": None, "desired": None, "decimal": 6, "equal_nan": True}
    ),
    ("numpy.testing", "assert_almost_equal"): Function(
        {"actual": None, "desired": None, "decimal": 7, "equal_nan": True}
    ),
    ("tilelang.utils.tensor", "torch_assert_close"): Function(
        {"tensor_a": None, "tensor_b": None, "rtol": 1e-2, "atol": 1e-3, "max_mismatched_ratio": 0.001, "equal_nan": True}
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Comparison:
    """One that was told: its number, whether it agreed, and the way through the script that led to it."""

    id: str
    matched: bool
    through: tuple[Passed, ...]


class Comparisons:
    """Watches the comparing functions of one process. `context.capture` tells which launch wrote an operand."""

    def __init__(self, context: Any) -> None:
        self.context = context
        self._numbers = itertools.count(1)
        self._counts: Counter[tuple[Any, ...]] = Counter()
        self._local = threading.local()
        self.meetings = Meetings(context)
        #: what was told, the last last
        self.told: list[Comparison] = []
        #: ways through the script on which made-up values were compared
        self._made_up: list[tuple[Passed, ...]] = []
        #: a no was told to people only: what agrees with the same result counts from here on
        self._no_was_told = False

    # ------------------------------------------------------------------------------------------------- attaching

    def watch_package(self, package: str) -> None:
        """Watch the functions of a package as far as it is loaded."""
        for module in dict.fromkeys(module for module, _ in FUNCTIONS):
            if module.partition(".")[0] == package and module in sys.modules:
                self.watch_module(sys.modules[module])
        if package == "torch":
            tensor = sys.modules["torch"].Tensor
            for name in ("allclose", "equal"):
                known = FUNCTIONS["torch", name]
                setattr(tensor, name, self._watched(f"torch.{name}", getattr(tensor, name), known))

    def watch_module(self, module: Any) -> None:
        for (home, name), known in FUNCTIONS.items():
            original = getattr(module, name, None)
            if home != module.__name__ or original is None or hasattr(original, MARK):
                continue
            watched = self._watched(f"{home}.{name}", original, known)
            setattr(watched, MARK, True)
            setattr(module, name, watched)
            if home == "torch":  # TorchScript knows the functions of torch by their identity
                sys.modules["torch.jit._builtins"]._register_builtin(watched, f"aten::{name}")
            for other, loaded in list(sys.modules.items()):  # tilelang hands its own on from module to module
                if loaded is not None and home.startswith("tilelang") and other.startswith("tilelang"):
                    for key in [key for key, value in vars(loaded).items() if value is original]:
                        setattr(loaded, key, watched)

    def _watched(self, name: str, original: Callable[..., Any], known: Function) -> Callable[..., Any]:
        is_compiling = sys.modules["torch"].compiler.is_compiling

        @functools.wraps(original)
        def compare(*args: Any, **kwargs: Any) -> Any:
            if is_compiling() or not self._asked(known):
                return original(*args, **kwargs)
            if self.context.screening is not None and self.context.screening.is_supposing:
                given = known.parameters | dict(zip(known.parameters, args, strict=False)) | kwargs
                self.supposed(*(given[operand] for operand in list(known.parameters)[:2]))
                return None if known.asserts else True
            self._local.inside = True
            try:
                with self._unfollowed():
                    answer = original(*args, **kwargs)
            except AssertionError as error:
                told = self._tell(name, known, args, kwargs, False)
                if told is not None:
                    setattr(error, MARK, told)
                raise
            finally:
                self._local.inside = False
            self._tell(name, known, args, kwargs, True if known.asserts else bool(answer))
            return answer

        return compare

    def supposed(self, *operands: Any) -> None:
        """What is not made up of what is compared, in a process whose results are made up."""
        if self.context.screening is not None and self.context.screening.is_supposing:
            for part in (part for operand in operands for part in _parts(operand) if not self.is_made_up(part)):
                self.context.screening.meets(tensor_of(part))

    def _asked(self, known: Function) -> bool:
        """Whether the script compares, and not a package within itself."""
        if self.is_within():
            return False
        if known.asserts:
            return True
        frame = errors.asking(sys._getframe(2))  # the virtual device may have a wrapper of its own around it
        return frame is not None and bool(self.context.is_user(frame.f_code.co_filename))

    @contextlib.contextmanager
    def unwatched(self) -> Iterator[None]:
        """What this thread compares inside is not told."""
        before = self.is_within()
        self._local.inside = True
        try:
            yield
        finally:
            self._local.inside = before

    def is_within(self) -> bool:
        """Whether this thread compares inside of something that is told as a whole, or not at all."""
        return bool(getattr(self._local, "inside", False))

    def users(self) -> list[tuple[Any, int]]:
        """The user's frames that are running, each with its line, the innermost last."""
        return _users(self.context)

    # --------------------------------------------------------------------------------------------------- telling

    def tell_reference(self, name: str, pairs: list[tuple[Any, ...]], at: dict[str, Any] | None, kernel: str) -> None:
        """Tell what a launch of a kernel computed against what a reference of the user's gives: pairs with their tolerances.

        The script did not ask for it, so no error of its own rests on it.
        """
        from . import mismatch

        with self._unfollowed(), sys.modules["torch"].no_grad():
            wrong = [mismatch.wrong_elements(*pair, equal_nan=True) for pair in pairs]
            matched = not any(bool(mask.any()) for mask in wrong)
            about = self._look(pairs, matched, {"equal_nan": True})
        id = f"m{next(self._numbers)}"
        self.context.emit(
            "compare", id=id, function=name, at=at, virtual=False, matched=matched, summary=about, kernel=kernel
        )

    def _tell(
        self, name: str, known: Function, args: tuple[Any, ...], kwargs: dict[str, Any], matched: bool
    ) -> Comparison | None:
        with self.context.guarded(f"look at the operands of {name}"), self._unfollowed():
            users = _users(self.context)
            through = tuple(Passed.of(frame, line) for frame, line in users)
            key = (name, through[-1:], matched)
            self._counts[key] += 1
            given = known.parameters | dict(zip(known.parameters, args, strict=False)) | kwargs
            # told only if it let something through, or if another may have been too strict
            again = matched and self._counts[key] > 1 and not self._no_was_told
            if self._counts[key] > LIMIT or (again and not given.get("max_mismatched_ratio")):
                return None
            one, other = (given.pop(operand) for operand in list(known.parameters)[:2])
            if self.is_made_up(one) or self.is_made_up(other):
                return None
            bounds = _bounds(name, given)
            pairs = [(a, e, *_tolerance(name, a, e, bounds)) for a, e in _pairs(one, other)]
            told = self._look(pairs, matched, bounds)
            if again and "let_through" not in told:
                return None
            if "pattern" in told:
                short = name.rpartition(".")[2]
                told["sources"] = sources.of_call(short, users, self.context.is_user)
                told["only_told"] = self._only_told(known, short, told["written"], users)
                self._no_was_told |= bool(told["only_told"])
            return self._emit(name, matched, through, told)
        return None

    @staticmethod
    def _only_told(known: Function, name: str, written: list[Any], users: list[Any]) -> str:
        """Whether a no is for people to read, and of a wrong result. Two results that are compared with each other may well differ."""
        from . import told

        if len(written) != 1 or not users:
            return ""
        return told.caught(users) if known.asserts else told.only_told(name, *users[-1])

    def _look(self, pairs: list[tuple[Any, ...]], matched: bool, bounds: dict[str, Any]) -> dict[str, Any]:
        """What is told of a comparison: of several pairs of tensors the first that does not agree."""
        from . import mismatch

        told: dict[str, Any] = {}
        with sys.modules["torch"].no_grad():
            for actual, expected, rtol, atol in pairs:
                vacuous = _vacuous(actual, expected, matched and bool(bounds.get("equal_nan")))
                about: dict[str, Any] = {"shape": list(actual.shape), "dtype": _dtype(actual), "vacuous": vacuous}
                about["tolerance"] = bounds | {"rtol": rtol, "atol": atol}
                about["largest"] = mismatch.largest(expected)
                if matched:
                    first, second, writers = self._sides(actual, expected)
                    about["written"] = _written(writers)
                    about |= self._reference64(first, second, None, rtol, atol)
                    about |= self._let_through(actual, expected, rtol, atol, bounds)
                told = told if told and "let_through" not in about else about
                if matched or actual.shape != expected.shape:
                    continue
                wrong = mismatch.wrong_elements(actual, expected, rtol, atol, bool(bounds.get("equal_nan")))
                some = bool(wrong.any())
                if some or (vacuous and "pattern" not in told):
                    told = about | self._mismatch(actual, expected, wrong, rtol, atol, bounds)
                if some:
                    break
        return told

    def _mismatch(
        self,
        actual: Any,
        expected: Any,
        wrong: Any,
        rtol: float | None = None,
        atol: float | None = None,
        bounds: dict[str, Any] | None = None,
        measured: list[float] | None = None,
        output: Any = None,
    ) -> dict[str, Any]:
        """The pattern of the wrong elements, and which operand a launch wrote: that one counts as the actual one.

        `measured`: the bounds of some measure of the error, where no tolerance is known; `output`: what a launch wrote of it, if that may be gone otherwise.
        """
        from . import mismatch

        asked = (actual, expected)
        actual, expected, writers = self._sides(actual, expected)
        self._screen(actual, expected, writers[0], actual is asked[1], rtol, atol, bounds, measured, output)
        summary, mask = mismatch.summarize(actual, expected, wrong)
        written = [writer.dtype for writer in writers[:1] if writer is not None]
        summary["differences"] = mismatch.differences(actual, expected, written)
        told: dict[str, Any] = {"pattern": summary, "written": _written(writers)}
        told |= self._reference64(actual, expected, wrong, rtol, atol)
        if mask:
            told["mask"] = {"blob": self.context.blob(mask)}
        return told

    def _screen(
        self, actual: Any, expected: Any, writer: Any, turned: bool, rtol: float | None, atol: float | None, bounds: Any,
        measured: list[float] | None, output: Any,
    ) -> None:  # fmt: skip
        """Look at changes of the kernel that wrote what is compared, if this run is asked to; `turned`: the script names it last."""
        if self.context.screening is None:
            return
        output = writer.tensor() if output is None and writer is not None else output
        if measured is None and (rtol is None or atol is None):
            return
        if actual.shape == expected.shape:
            with self.context.guarded("look at changes of a kernel"):
                self.context.screening.compared(
                    actual, output, expected, rtol or 0.0, atol or 0.0, bounds or {}, turned, measured
                )

    def _let_through(
        self, actual: Any, expected: Any, rtol: float, atol: float, bounds: dict[str, Any]
    ) -> dict[str, Any]:
        """What a comparison that agreed let through, because a share of the elements may be anything."""
        from . import mismatch

        if not bounds.get("max_mismatched_ratio") or actual.shape != expected.shape:
            return {}
        wrong = mismatch.wrong_elements(actual, expected, rtol, atol, bool(bounds.get("equal_nan")))
        if not bool(wrong.any()):
            return {}
        told = self._mismatch(actual, expected, wrong, rtol, atol)
        return {"let_through": told["pattern"], "written": told["written"]}

    def _sides(self, actual: Any, expected: Any) -> tuple[Any, Any, list[Any]]:
        """The operands, that which a launch wrote first, and which launches wrote them."""
        writers = [self._writer(actual), self._writer(expected)]
        if writers[1] and not writers[0]:
            return expected, actual, writers[::-1]
        if not any(writers) and self.derives(expected) and not self.derives(actual):
            return expected, actual, writers
        return actual, expected, writers

    def _reference64(
        self, actual: Any, expected: Any, wrong: Any, rtol: float | None, atol: float | None
    ) -> dict[str, Any]:
        """Both operands against the float64 value of the expected one, in a run that follows it (`shadow.py`)."""
        shadow = self.context.shadow
        if shadow is None or actual.shape != expected.shape:
            return {}
        return {"reference64": shadow.against(actual, expected, wrong, rtol, atol)}

    def _unfollowed(self) -> Any:
        """What the harness itself computes inside needs no shadow."""
        shadow = self.context.shadow
        return contextlib.nullcontext() if shadow is None else shadow.paused()

    def derives(self, tensor: Any) -> bool:
        """Whether a run that looks at changes knows how a plain tensor comes of what launches wrote."""
        return self.context.screening is not None and bool(self.context.screening.derives(tensor))

    def _writer(self, tensor: Any) -> Any:
        capture = self.context.capture
        return None if capture is None else capture.outputs.writer(tensor)

    def _emit(self, name: str, matched: bool, through: tuple[Passed, ...], about: dict[str, Any]) -> Comparison:
        told = Comparison(f"m{next(self._numbers)}", matched, through)
        at = {"file": through[-1].function[0], "line": through[-1].line} if through else None
        self.context.emit("compare", id=told.id, function=name, at=at, virtual=False, matched=matched, summary=about)
        self.told.append(told)
        return told

    def is_made_up(self, value: Any) -> bool:
        """Whether the virtual device made a value up."""
        if self.context.mode != "virtual":
            return False
        from .virtual import compare

        return bool(compare.holds_made_up(value))

    def was_made_up(self) -> None:
        """Remember that what the script compares here, the virtual device made up."""
        self._made_up.append(tuple(Passed.of(frame, line) for frame, line in _users(self.context)))

    # ------------------------------------------------------------------------------------------- what ended the script

    def of_error(self, error: BaseException) -> str | None:
        """The failed comparison on which an exception that ends the script rests; None if there is none."""
        if "torch" not in sys.modules:
            return None
        for one, _ in errors.chain(error):
            raised = getattr(one, MARK, None)
            if isinstance(raised, Comparison):
                return raised.id
        with self.context.guarded("find the comparison that an error rests on"), sys.modules["torch"].no_grad():
            from . import deciding

            return self._decided(deciding.of_error(error, self.context))
        return None

    def of_success(self) -> None:
        """The script has come to its end. Tell if a check of its own passed since an error was NaN, which exceeds no bound."""
        if self.meetings.nan is None or any(not one.matched for one in self.told):
            return
        with self.context.guarded("look at a check that NaN passes"), sys.modules["torch"].no_grad():
            met, through = self.meetings.nan
            self._told_of(NAN_PASSES, through, met.one, met.other, met.exact, met.sources, [], met.output, "wrong")

    def regardless(self, error: BaseException) -> bool:
        """Whether the script ended itself for a reason that no value of a kernel can be part of."""
        with self.context.guarded("find what an error of the script rests on"):
            from . import deciding

            decision = deciding.of_error(error, self.context)
            return decision is not None and not decision.of_values(self.context.is_user)
        return False

    def on_made_up(self, error: BaseException) -> bool:
        """Whether the script ended itself, and made-up values were compared to decide that."""
        with self.context.guarded("find what an error of the script rests on"):
            from . import deciding

            decision = deciding.of_error(error, self.context) if self.context.mode == "virtual" else None
            if decision is None:
                return False
            return any(map(decision.rests_on, self._made_up)) or any(map(self.is_made_up, decision.values()))
        return False

    def _decided(self, decision: Any) -> str | None:
        """The last comparison that decided and failed; where none decided, what the script compared by its own arithmetic."""

        if decision is None:
            return None
        decided = [comparison for comparison in self.told if decision.rests_on(comparison.through)]
        if decided:
            return next((comparison.id for comparison in reversed(decided) if not comparison.matched), None)
        bounds = decision.bounds()
        near, met = self._apart(decision, bounds), self._met_apart(decision, bounds)
        together = self._apart(decision, bounds, together=True)
        # what was handed to one function was perhaps not compared; of two results that were compared with each other, none is the expected one
        pairs = (
            near.get(1),
            met.get(1),
            together.get(1),
            near.get(0),
            together.get(0),
            met.get(0),
            near.get(2),
            together.get(2),
        )
        chosen = next((pair for pair in pairs if pair is not None), None)
        return None if chosen is None else self._own(decision, *chosen)

    def _apart(self, decision: Any, bounds: list[float], together: bool = False) -> dict[int, tuple[Any, ...]]:
        """The first pair that the statements of a decision subtract or compare, or hand to one function `together`, and that differs, by how many of the
        two a launch wrote: none if it was computed from what one wrote."""
        from . import mismatch

        found: dict[int, tuple[bool, tuple[Any, ...]]] = {}
        for operands in (operands for operands in decision.operands() if operands.together is together):
            if any(map(self.is_made_up, (operands.one, operands.other))):
                break
            actual, expected = tensor_of(operands.one), tensor_of(operands.other)
            if actual is None or expected is None or actual.shape != expected.shape:
                continue
            with self._unfollowed():
                far = mismatch.how_far(actual, expected)
            # What differs by less than any bound decided nothing, nor did what no kernel wrote, nor what agreed in the last round:
            # if another round decided, its values are gone.
            if not far.beyond(bounds) or (far.rounding and any(step.past for step in operands.steps)):
                continue
            written = sum(self._writer(one) is not None for one in (actual, expected))
            if not written and (operands.bounded or self.derives(actual) == self.derives(expected)):
                continue
            # where several results were compared, what only rounding tells apart is hardly what failed
            if written not in found or (found[written][0] and not far.rounding):
                said = sources.digest(list(operands.steps), decision.users, self.context.is_user)
                found[written] = far.rounding, (actual, expected, operands.exact, said, bounds)
        return {written: pair for written, (_, pair) in found.items()}

    def _met_apart(self, decision: Any, bounds: list[float]) -> dict[int, tuple[Any, ...]]:
        """The same of what was subtracted or compared on the way to a decision."""
        from . import mismatch

        found: dict[int, tuple[Any, ...]] = {}
        for met in self.meetings.rest_under(decision):
            with self._unfollowed():
                far = mismatch.how_far(met.one, met.other)
            if far.beyond(bounds) and not far.rounding:
                known = [*bounds, *met.bounds]
                pair = met.one, met.other, met.exact, met.sources, known, met.output
                found.setdefault(int(met.output is not None), pair)
        return found

    def _own(
        self, decision: Any, actual: Any, expected: Any, exact: bool, said: str, bounds: list[float], output: Any = None
    ) -> str:
        """Tell what the script compared by its own arithmetic: `said` tells what that came from, `output` what a launch wrote of it."""
        return self._told_of(decision.kind, decision.through, actual, expected, exact, said, bounds, output)

    def _told_of(
        self, kind: str, through: tuple[Passed, ...], actual: Any, expected: Any, exact: bool, said: str, bounds: list[float], output: Any,
        only_told: str = "",
    ) -> str:  # fmt: skip
        from . import mismatch

        about: dict[str, Any] = {"shape": list(actual.shape), "dtype": _dtype(actual)}
        about["tolerance"] = {"bounds": bounds} if bounds or not exact else {"rtol": 0.0, "atol": 0.0}
        about["vacuous"] = _vacuous(actual, expected, False)
        about["sources"], about["only_told"] = said, only_told
        with self._unfollowed():
            wrong = mismatch.largely_wrong(actual, expected)
        about |= self._mismatch(actual, expected, wrong, measured=bounds, output=output)
        return self._emit(kind, False, through, about).id


# ----------------------------------------------------------------------------------------------------------- operands


def _written(writers: list[Any]) -> list[dict[str, Any]]:
    """Which launches wrote the operands, as plain data."""
    names = ("launch", "kernel", "name", "argument")
    return [{name: getattr(writer, name) for name in names} for writer in writers if writer is not None]


def _bounds(name: str, given: dict[str, Any]) -> dict[str, Any]:
    """What the comparison allows, as plain values."""
    kept = ("rtol", "atol", "equal_nan", "max_mismatched_ratio", "decimal")
    return {key: given[key] for key in kept if isinstance(given.get(key), (bool, int, float))}


def _tolerance(name: str, actual: Any, expected: Any, bounds: dict[str, Any]) -> tuple[float, float]:
    """The relative and the absolute tolerance of a comparison."""
    if "decimal" in bounds:
        return 0.0, 1.5 * 10.0 ** -bounds["decimal"]
    if name == "torch.testing.assert_close" and "rtol" not in bounds:
        rtol, atol = sys.modules["torch.testing._comparison"].default_tolerances(actual, expected)
        return float(rtol), float(atol)
    return float(bounds.get("rtol", 0.0)), float(bounds.get("atol", 0.0))


def _parts(value: Any) -> list[Any]:
    """What an operand holds that is compared with the same part of the other."""
    if isinstance(value, (list, tuple)):
        return [part for one in value for part in _parts(one)]
    return [part for one in value.values() for part in _parts(one)] if isinstance(value, dict) else [value]


def _pairs(one: Any, other: Any) -> Iterator[tuple[Any, Any]]:
    """The tensors of two operands that are compared with each other."""
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        for pair in zip(one, other, strict=False):
            yield from _pairs(*pair)
    elif isinstance(one, dict) and isinstance(other, dict):
        for key in (key for key in one if key in other):
            yield from _pairs(one[key], other[key])
    else:
        actual, expected = tensor_of(one), tensor_of(other)
        if actual is not None and expected is not None:
            yield actual, expected


def tensor_of(value: Any) -> Any:
    """A tensor, an array or a number as a plain tensor without history; None for anything else."""
    torch = sys.modules["torch"]
    if isinstance(value, torch.Tensor):
        return getattr(value, "payload", value).detach()  # the payload of one on the virtual device
    with contextlib.suppress(TypeError, ValueError, RuntimeError):
        return torch.as_tensor(value)
    return None


def _dtype(tensor: Any) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _vacuous(actual: Any, expected: Any, nan_agrees: bool) -> str:
    """Why a comparison says nothing: empty, itself, all-nan; "" if it does say something."""
    if not actual.numel():
        return "empty"
    if (
        actual.untyped_storage().data_ptr() == expected.untyped_storage().data_ptr()
        and actual.storage_offset() == expected.storage_offset()
        and (actual.shape, actual.stride(), actual.dtype) == (expected.shape, expected.stride(), expected.dtype)
    ):
        return "itself"
    if nan_agrees and bool(expected.flatten()[0].isnan()) and bool(expected.isnan().all()):
        return "all-nan"
    return ""


def _users(context: Any) -> list[tuple[Any, int]]:
    """The user's frames that are running, each with its line, the innermost last."""
    found = []
    frame = sys._getframe(1)
    while frame is not None:
        if context.is_user(frame.f_code.co_filename):
            found.append((frame, frame.f_lineno))
        frame = frame.f_back
    return found[::-1]
