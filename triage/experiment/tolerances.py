"""Whether rounding explains a failed comparison: the sum that its kernel makes, or the spacings of what it stores. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from triage.experiment.sums import NotASum, Sum, computes_reals, sum_of
from triage.model import Differences, KernelRecord, Mismatch, Place
from triage.numerics.formats import FORMATS, Format, UnknownFormat, format_of
from triage.numerics.measured import Measured
from triage.numerics.operations import sum_model
from triage.numerics.pattern import UNPATTERNED, pattern_of
from triage.numerics.rounding import Accumulator, accumulator_of
from triage.numerics.steps import by_spacings, leans
from triage.numerics.tolerance import NORMAL, POSITIVE, RMS_FACTOR, Data, Dot, Model, Tolerance, dot_model
from triage.numerics.verdict import UNEVEN, Verdict, verdict

#: results whose mean magnitude is this part of their root mean square have one sign
ONE_SIGN = 0.8
#: mean and root mean square of the magnitudes of an input
Magnitude = tuple[float, float]


@dataclass(frozen=True)
class Judged:
    """`within`: rounding explains the differences; None where nothing says whether it does. `says` is half a sentence.

    `allowed`: what the arithmetic asks for. `sum`: what was computed of it, if that is known; `accumulator`: the narrow one that the
    differences show, with the other causes that make as large ones.
    """

    within: bool | None
    says: str
    allowed: Tolerance | None = None
    sum: Sum | None = None
    accumulator: str | None = None
    others: tuple[str, ...] = ()
    #: rms errors over the rms of the result: measured, and as rounding makes them
    measured: float | None = None
    expected: float | None = None


def judge(
    mismatch: Mismatch,
    kernel: KernelRecord | None,
    argument: str,
    magnitudes: Mapping[str, Sequence[float]],
    *,
    tensor_cores: bool,
    sound: bool = True,
) -> Judged:
    """Judge a comparison of `argument`, which a kernel wrote; None for a kernel without record.

    `magnitudes` of its inputs by parameter, as far as they are known; `tensor_cores`: a GPU computed it, and not the twin; `sound`: the
    kernel did nothing meanwhile that no right kernel does.
    """
    found = mismatch.differences
    if found is None or not found.count:
        return Judged(None, "how far the elements are apart was not measured")
    if mismatch.nan or mismatch.inf or mismatch.expected_nan:
        return Judged(
            None,
            "some of the wrong elements are NaN or infinite, on one side or on both, and no rounding makes them so",
        )
    if not sound:
        return Judged(None, "the kernel reads or leaves what nobody wrote, so its values are no matter of rounding")
    why = "no kernel is known to have written what is compared"
    if kernel is not None:
        try:
            judged = _by_sum(sum_of(kernel, argument), found, magnitudes, tensor_cores)
        except (NotASum, UnknownFormat) as error:
            why = f"{error}"
        else:
            if judged.within is not None:
                return judged
            why = judged.says
    placed = not UNPATTERNED.intersection(pattern_of(mismatch).where)
    spaced = by_spacings(found, placed, kernel is not None and computes_reals(kernel))
    if spaced.inside:
        return Judged(True, spaced.says, spaced.allowed, measured=_relative(found))
    return Judged(None, f"{spaced.says} ({why})", measured=_relative(found))


def _relative(found: Differences) -> float | None:
    return found.rms_error / found.rms_expected if found.rms_expected else None


# ------------------------------------------------------------------------------------------------------------------ sums


def _by_sum(made: Sum, found: Differences, magnitudes: Mapping[str, Sequence[float]], tensor_cores: bool) -> Judged:
    if format_of(made.kept).exact and not format_of(made.accumulator).exact:
        return Judged(
            None,
            f"which real sums come to the next {made.kept} depends on how many lie beside a border of two",
            sum=made,
        )
    sizes = _sizes(made, magnitudes)
    model = _reduction(made, found) if made.kind == "elements" else _dot(made, found, sizes, tensor_cores)
    measured = _measured(made, found, sizes)
    told = verdict(model, measured)
    if told.kind == "inside":
        other = _not_rounding(model, measured, found)
        if other is not None:
            return Judged(False, other, sum=made, measured=told.measured, expected=told.expected)
        return replace(_judged(True, told, made), says=_as_much(made))
    if told.kind == "accumulator":
        return _judged(False, told, made)
    if told.kind == "outside" and sizes is not None:
        return _judged(False, told, made)
    return Judged(None, told.says, sum=made)


def _as_much(made: Sum) -> str:
    terms = "elements" if made.kind == "elements" else "products"
    return f"a sum of {made.terms} {terms} in {made.accumulator}, stored as {made.kept}, can be off by as much"


def _judged(within: bool, told: Verdict, made: Sum) -> Judged:
    return Judged(
        within, told.says, told.allowed, made, told.accumulator, told.others, told.measured, told.expected
    )  # fmt: skip


def _sizes(made: Sum, magnitudes: Mapping[str, Sequence[float]]) -> Magnitude | None:
    """Mean and root mean square of the magnitude of one term; None where an input was not measured."""
    mean, rms = 1.0, 1.0
    for name in made.operands:
        if name not in magnitudes:
            return None
        mean, rms = mean * magnitudes[name][0], rms * magnitudes[name][1]
    return (mean, rms) if mean > 0 else None


def _measured(made: Sum, found: Differences, sizes: Magnitude | None) -> Measured:
    return Measured(
        count=found.count,
        rms_error=found.rms_error,
        rms_result=found.rms_expected,
        max_error=found.max_error,
        max_result=found.max_expected,
        nonfinite=found.nonfinite,
        rms_s=None if sizes is None else made.terms * sizes[0],
        gain=found.gain,
    )


def _not_rounding(model: Model, measured: Measured, found: Differences) -> str | None:
    """What shows an error of the sum where that of the store is far larger, as in types of few bits.

    No single element may be off by more than a spacing of what it is stored as, and what its sum may be in the wider accumulator; and
    the store rounds to both sides alike.
    """
    sum_alone = replace(model, terms=tuple(term for term in model.terms if not term.bounded))
    s = measured.rms_s if measured.rms_s is not None else model.s * measured.rms_result / (model.r or 1.0)
    most = sum_alone.limit(UNEVEN * max(s, measured.max_result), measured.max_result)
    if found.max_beyond_spacing > most:
        off = f"an element is off by {found.max_beyond_spacing:.2g} beside a spacing of {found.kept}"
        return f"{off}, and its sum by at most {most:.2g}"
    by_sum = RMS_FACTOR * sum_alone.rms(s, measured.rms_result) / (measured.rms_result or 1.0)
    if leans(found, format_of(found.kept), by_sum):
        return f"the differences lean to one side, by {found.lean:.2g} of the result on average"
    return None


def _dot(made: Sum, found: Differences, sizes: Magnitude | None, tensor_cores: bool) -> Model:
    inputs = max((format_of(name) for name in made.inputs), key=lambda form: form.u)
    matrices = made.kind == "gemm"
    if tensor_cores and matrices and inputs.name == "float32":
        inputs = FORMATS["tfloat32"]  # that is what they take of it
    one_by_one = Accumulator(made.accumulator, format_of(made.accumulator))
    dot = Dot(
        k=made.terms,
        inputs=inputs,
        accumulator=accumulator_of(made.accumulator, inputs) if matrices else one_by_one,
        output=format_of(made.kept),
        reference=_reference(found),
        data=_data(found, sizes),
        reads_rounded=not made.rounds_inputs and inputs.name != "tfloat32",
        atomics=made.parts,
        declared=True,
    )
    return dot_model(dot)


def _data(found: Differences, sizes: Magnitude | None) -> Data:
    """How the terms are distributed: by the inputs' magnitudes, or else as the sign of the results lets one guess."""
    one_sign = abs(found.mean_expected) >= ONE_SIGN * found.rms_expected
    if sizes is None:
        return POSITIVE if one_sign else NORMAL
    mean, rms = sizes
    return Data("inputs are as large as they were measured, in random order", (rms / mean) ** 2, rms, one_sign)


def _reduction(made: Sum, found: Differences) -> Model:
    one_sign = abs(found.mean_expected) >= ONE_SIGN * found.rms_expected
    compute, output = format_of(made.accumulator), format_of(made.kept)
    return sum_model(made.terms, compute, output, _reference(found), same_sign=one_sign)


def _reference(found: Differences) -> Format | None:
    form = format_of(found.expected)
    return None if form.exact else form


def place_of(judged: Judged) -> Place | None:
    """Where the accumulator is allocated that the differences show."""
    return judged.sum.at if judged.sum is not None and judged.accumulator is not None else None
