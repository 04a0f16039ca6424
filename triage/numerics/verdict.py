"""What a measured difference means under a model: the tolerance is too tight, something is wrong, or the accumulator is narrow. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from triage.numerics.formats import FORMATS
from triage.numerics.measured import Measured, causes, scaled_by
from triage.numerics.rounding import Accumulator, accumulator_of
from triage.numerics.tolerance import (
    FIT_FACTOR,
    GROUPS,
    RMS_FACTOR,
    Dot,
    Model,
    Tolerance,
    Unknown,
    dot_model,
    suggestion,
)

#: S of one element over its rms where only the typical S is known; S of unlike rows of a matrix differ by less.
UNEVEN = 1.5
#: What a kernel may add up in where the program was not asked: tensor cores have no other narrow sums of real numbers, and those
#: only of these inputs.
NARROW = {"float16": ("float16",), "float8_e4m3": ("float16", "hopper-fp8"), "float8_e5m2": ("float16", "hopper-fp8")}
#: how errors over the result change with K
CHECK = (
    "with a quarter of K the relative error of a rounding accumulator becomes half, that of one that cuts off a quarter; that of a "
    "factor or a single rounding stays, that of a lost product doubles"
)


@dataclass(frozen=True)
class Verdict:
    """`kind`: `inside` (a right kernel differs as much; the tolerance is too tight), `outside` (a fault, of the kernel or of the
    reference), `accumulator` (as a sum in a narrow accumulator differs, and one in float32 does not), `unknown`.

    `expected` and `measured` are rms errors over the rms of the result, `ceiling` the worst case of such an element, None if
    nothing bounds it. `allowed`: the tolerance that the model asks for (`inside`: use it). `others`: causes that make an error of
    this size; `check`: what tells them apart.
    """

    kind: str
    says: str
    measured: float | None
    expected: float | None
    ceiling: float | None
    allowed: Tolerance | None
    used: Tolerance | None
    accumulator: str | None = None
    others: tuple[str, ...] = ()
    check: str = ""
    assumptions: tuple[str, ...] = ()


def verdict(model: Model | Unknown, measured: Measured, used: Tolerance | None = None) -> Verdict:
    """Judge differences by a model. `used` is the tolerance under which they were found; it is only repeated."""
    if measured.nonfinite:
        says = f"{measured.nonfinite} of {measured.count} elements are NaN or infinite on one side only; no rounding does that"
        return Verdict("outside", says, None, None, None, None, used)
    if isinstance(model, Unknown):
        says = f"there is no model of {model.what}: {model.why}"
        return Verdict("unknown", says, measured.relative, None, None, model.start, used, assumptions=model.assumptions)
    if not measured.count or not all(map(math.isfinite, (measured.rms_error, measured.rms_result, measured.max_error))):
        return Verdict("unknown", "nothing was measured that can be judged", None, None, None, None, used)
    if model.dot is not None and not model.dot.k:
        return Verdict("unknown", "the sum has no terms: its loop never runs", None, None, None, None, used)
    ideal = _ideal(model)
    if _accepts(ideal, measured):
        return _inside(ideal, measured, used)
    others = causes(ideal, measured)
    for narrow in _narrow(model):
        if _fits(narrow, ideal, measured):
            if _declared(model) or not others:
                return _accumulator(narrow, ideal, measured, used)
            others = (f"a {_name(narrow)} accumulator", *others)
    if _may_be_uneven(ideal, measured):
        return _uneven(ideal, measured, used)
    return _outside(ideal, measured, used, others)


def _ideal(model: Model) -> Model:
    """The model of the same sum with an accumulator of 24 bits, or one that is moved to such a one often enough."""
    if model.dot is None or not _is_narrow(model.dot.accumulator):
        return model
    return dot_model(replace(model.dot, accumulator=accumulator_of("float32", model.dot.inputs)))


def _may_be_uneven(model: Model, measured: Measured) -> bool:
    """Whether terms of very uneven size, of which one makes nearly all of S, would explain an error."""
    if model.dot is None or model.dot.data.measured or model.dot.accumulator.format.exact:
        return False
    s, _ = _typical(model, measured)
    heavy = dot_model(replace(model.dot, data=replace(model.dot.data, kappa=float(model.dot.k))))
    # a few elements make the rms of such errors, so that it is judged as they are
    most, largest = max(UNEVEN * s, measured.max_result), measured.max_result
    return measured.max_error <= heavy.limit(most, largest) and measured.rms_error <= RMS_FACTOR * heavy.rms(
        most, largest
    )


def _is_narrow(kept: Accumulator) -> bool:
    single = FORMATS["float32"].digits or 0
    return kept.format.digits is not None and kept.format.digits < single and kept.promoted is None


def _declared(model: Model) -> bool:
    return model.dot is not None and model.dot.declared


def _name(narrow: tuple[Model, ...]) -> str:
    dot = narrow[0].dot
    return "" if dot is None else dot.accumulator.name


def _narrow(model: Model) -> Iterator[tuple[Model, ...]]:
    """The accumulators that may be behind an error, each as models for the groups it may add in; of the likeliest first."""
    dot = model.dot
    if dot is None or dot.accumulator.format.exact:
        return
    declared = dot.accumulator
    tensor_cores = NARROW.get(dot.inputs.name, ())
    # a program that says float32 still gets what Hopper makes of it
    possible = [name for name in tensor_cores if not dot.declared or name.startswith("hopper")]
    names = dict.fromkeys((declared.name, *possible))
    for name in names:
        kept = declared if name == declared.name else accumulator_of(name, dot.inputs)
        if _is_narrow(kept):
            yield tuple(_with(dot, one) for one in _grouped(kept, 1 if dot.declared else kept.group))


def _grouped(kept: Accumulator, least: int) -> list[Accumulator]:
    """Up to a tile's products may be added before a sum of 16 bits is rounded; the others are as the hardware has them.

    Those of tensor cores add `least` at once, but a program may do without tensor cores.
    """
    if kept.truncates:
        return [kept]
    return [replace(kept, group=group) for group in sorted({*GROUPS, kept.group}) if group >= least]


def _with(dot: Dot, kept: Accumulator) -> Model:
    return dot_model(replace(dot, accumulator=kept))


# ---------------------------------------------------------------------------------------------------------------- comparing


def _typical(model: Model, measured: Measured) -> tuple[float, float]:
    """S and r of a typical element: as measured, or the model's ratio at the measured size of the results."""
    r = measured.rms_result
    if measured.rms_s is not None:
        return measured.rms_s, r
    return (model.s * r / model.r if model.r else model.s), r


def _accepts(model: Model, measured: Measured) -> bool:
    return measured.rms_error <= RMS_FACTOR * model.rms(*_typical(model, measured)) + model.floor and not _above(
        model, measured
    )


def _above(model: Model, measured: Measured) -> bool:
    """Whether some element is above the band."""
    if measured.outside is not None:
        return measured.outside > 0
    if measured.max_over_s is not None:  # |r| is never above S
        return measured.max_over_s > model.limit(1.0, 1.0) and measured.max_error > model.floor
    s, _ = _typical(model, measured)
    return measured.max_error > _largest_limit(model, s, measured)


def _largest_limit(model: Model, s: float, measured: Measured) -> float:
    """The band of the element where it is widest; S is nowhere below the result itself."""
    return model.limit(max(UNEVEN * s, measured.max_result), measured.max_result)


def _fits(narrow: tuple[Model, ...], ideal: Model, measured: Measured) -> bool:
    """Whether an error is as large as one of these makes it, larger than a wide one does, and nowhere larger than it can be."""
    if not measured.rms_result or _is_factor(narrow, measured) or not measured.everywhere:
        return False
    expected = [model.rms(*_typical(model, measured)) for model in narrow]
    if measured.rms_error <= RMS_FACTOR * ideal.rms(*_typical(ideal, measured)):
        return False
    if measured.rms_error < min(expected) / FIT_FACTOR:
        return False
    if any(model.stagnates for model in narrow):  # nothing bounds the error but the result itself
        return measured.rms_error <= measured.rms_result
    if measured.rms_error > max(expected) * FIT_FACTOR:
        return False
    return any(not _above(model, replace(measured, outside=None)) for model in narrow)


def _is_factor(narrow: tuple[Model, ...], measured: Measured) -> bool:
    """Whether the error is one factor, which rounding never makes; a sum that is cut off or stands still becomes smaller."""
    factor = scaled_by(measured)
    if factor is None:
        return False
    shrinks = any(model.stagnates or (model.dot is not None and model.dot.accumulator.truncates) for model in narrow)
    return factor > 1 or not shrinks


# ------------------------------------------------------------------------------------------------------------------- saying


def _figures(model: Model, measured: Measured) -> tuple[float | None, float | None]:
    """The expected rms error and the ceiling of a typical element, over the rms of the result."""
    s, r = _typical(model, measured)
    if not r:
        return None, None
    ceiling = model.ceiling(s, r) / r
    return model.rms(s, r) / r, ceiling if math.isfinite(ceiling) else None


def _inside(model: Model, measured: Measured, used: Tolerance | None) -> Verdict:
    allowed = suggestion(model, *_typical(model, measured))
    expected, ceiling = _figures(model, measured)
    says = f"a right kernel may differ as much: use rtol={allowed.rtol:g}, atol={allowed.atol:g}"
    return Verdict(
        "inside", says, measured.relative, expected, ceiling, allowed, used, assumptions=model.assumptions
    )  # fmt: skip


def _outside(model: Model, measured: Measured, used: Tolerance | None, others: tuple[str, ...]) -> Verdict:
    expected, ceiling = _figures(model, measured)
    allowed = suggestion(model, *_typical(model, measured))
    s, r = _typical(model, measured)
    times = measured.rms_error / model.rms(s, r) if model.rms(s, r) else math.inf
    if times > RMS_FACTOR:
        says = f"the rms error is {times:.3g} times what rounding explains, above the band of {RMS_FACTOR:g}"
        if math.isinf(times):
            says = "nothing is rounded here, so that any difference is a fault"
    else:
        count = f"{measured.outside} of {measured.count} elements are" if measured.outside else "the largest error is"
        says = f"{count} above the band, while all together differ as rounding does: few elements are wrong"
        others = ()
    check = CHECK if any(one.endswith("accumulator") for one in others) else ""
    return Verdict(
        "outside",
        says,
        measured.relative,
        expected,
        ceiling,
        allowed,
        used,
        others=others,
        check=check,
        assumptions=model.assumptions,
    )


def _uneven(model: Model, measured: Measured, used: Tolerance | None) -> Verdict:
    expected, ceiling = _figures(model, measured)
    says = (
        "above what rounding does to terms of about one size, but not above what it does where a few terms are far larger than the "
        "others; sum |a b| and sum (a b)^2 of the inputs would tell, or inputs of one size"
    )
    return Verdict("unknown", says, measured.relative, expected, ceiling, None, used, assumptions=model.assumptions)


def _accumulator(narrow: tuple[Model, ...], ideal: Model, measured: Measured, used: Tolerance | None) -> Verdict:
    nearest = min(narrow, key=lambda one: abs(math.log(one.rms(*_typical(one, measured)) / measured.rms_error)))
    assert nearest.dot is not None
    kept = nearest.dot.accumulator
    expected, ceiling = _figures(ideal, measured)
    fits = nearest.rms(*_typical(nearest, measured)) / measured.rms_result
    says = (
        f"the error fits a sum in {kept.name} (rms {fits:.2g} of the result, {kept.group} products at a time), "
        f"not one in float32 ({expected:.2g})"
    )
    return Verdict(
        "accumulator",
        says,
        measured.relative,
        expected,
        ceiling,
        suggestion(nearest, *_typical(nearest, measured)),
        used,
        accumulator=kept.name,
        check="" if nearest.dot.declared else CHECK,
        assumptions=nearest.assumptions,
    )
