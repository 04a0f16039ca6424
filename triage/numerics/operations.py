"""Elementwise chains and reductions: what each operation does to the relative error of its argument, and what it adds. Pure.

A chain starts from an exact input and is computed in one format; its error is relative to the result r. `TABLE` says, for an
operation f, by how much it amplifies a relative error of its argument x (|x f'(x) / f(x)|), and by how many units in the last
place the function itself may be off (the CUDA programming guide's figures for fp32, where it has any). What cancels has no such bound:
a subtraction, a layer norm far from zero, a sum of random signs relative to itself. Those need a condition number or stay unknown.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from triage.numerics.formats import Format, UnknownFormat, format_of
from triage.numerics.rounding import SPREAD, Accumulator, stagnates, sum_error
from triage.numerics.tolerance import (
    LARGEST,
    NORMAL,
    NORMAL_TERMS,
    POSITIVE_TERMS,
    Model,
    Results,
    Term,
    Unknown,
    reference_rounding,
    rounding_term,
    unknown,
    whole_numbers,
)

#: Squares of numbers with few bits are no random numbers in their last bits, so that adding them rounds a little more to one
#: side: by up to 0.02 n u of the sum for float16, bfloat16 and e4m3 values, n up to 65536 (measured; either side)
SQUARES_DRIFT = 0.015


@dataclass(frozen=True)
class Step:
    """One operation: its name, as in `TABLE` or `cast:float16`; how many terms it reduces; the largest |x| of its argument.

    `condition`: for what cancels, the size of what goes in over the size of what comes out, as (|a| + |b|) / |a - b|.
    """

    name: str
    count: int = 1
    magnitude: float | None = None
    condition: float | None = None


@dataclass(frozen=True)
class Operation:
    """`amplifies`: a number, or what the step must know for it: `magnitude`, `1 / magnitude` (of the result), `condition`."""

    amplifies: float | str
    #: units in the last place that the result may be off by; half a unit is rounding to nearest
    units: float
    #: the same with fast-math intrinsics, where they are worse: (fixed, per unit of |x|)
    fast: tuple[float, float] | None = None


TABLE: Mapping[str, Operation] = {
    **dict.fromkeys(("copy", "neg", "abs", "max", "min", "relu", "where", "transpose", "clamp"), Operation(1.0, 0.0)),
    **dict.fromkeys(("mul", "add_same_sign"), Operation(1.0, 0.5)),
    "div": Operation(1.0, 0.5, (2.0, 0.0)),
    "reciprocal": Operation(1.0, 0.5, (1.0, 0.0)),
    "square": Operation(2.0, 0.5),
    "sqrt": Operation(0.5, 0.5, (3.0, 0.0)),
    "rsqrt": Operation(0.5, 2.0),
    "exp": Operation("magnitude", 2.0, (2.0, 1.173)),
    "exp2": Operation("magnitude", 2.0),
    "log": Operation("1 / magnitude", 1.0),
    "log2": Operation("1 / magnitude", 1.0),
    # x f'(x) / f(x): at most 1 for tanh and erf, at most |x| for the sigmoid, 1 + |x| for x sigmoid(x)
    "tanh": Operation(1.0, 2.0),
    "erf": Operation(1.0, 2.0),
    "sigmoid": Operation("magnitude", 3.0, (5.0, 1.173)),
    "silu": Operation("1 + magnitude", 3.5, (5.5, 1.173)),
    **dict.fromkeys(("add", "sub"), Operation("condition", 0.5)),
}
#: functions that leave the range of a format soon, and their bases
EXPONENTIALS = {"exp": math.e, "exp2": 2.0}
REDUCTIONS = frozenset({"sum", "mean", "mean_square"})
#: operations that are known by name, and why their error relative to the result is not
CANCELS = {
    "gelu": "for negative x the two parts of 1 + erf(x) cancel; only its error relative to |x| is small",
    "sin": "near multiples of pi it is small while its argument is not",
    "cos": "between multiples of pi it is small while its argument is not",
    "cumsum": "a running sum of random signs passes through zero",
    "variance": "the square of the mean may cancel the mean of the squares; use rmsnorm or layernorm",
}


@dataclass
class _Error:
    """A relative error on its way through a chain: rms and worst."""

    rms: float = 0.0
    worst: float = 0.0

    def amplified(self, factor: float) -> None:
        self.rms, self.worst = self.rms * factor, self.worst * factor

    def added(self, rms: float, worst: float) -> None:
        self.rms, self.worst = math.hypot(self.rms, rms), self.worst + worst


class _NotKnown(Exception):
    """Why a step's error is not known."""


class _Lost(_NotKnown):
    """Why nothing is left of a value after a step, so that no tolerance means anything."""


def chain_model(
    steps: Sequence[Step],
    compute: Format,
    output: Format,
    reference: Format | None,
    *,
    fast: bool = False,
    what: str = "",
) -> Model | Unknown:
    """The model of a chain that is computed in `compute` and stored as `output`. Its errors are relative to the result."""
    what = what or " → ".join(step.name for step in steps)
    error, assumptions = _Error(), [f"every operation is computed in {compute.name}"]
    if fast:
        assumptions.append("fast-math intrinsics stand for exp and divisions")
    try:
        for step in steps:
            _through(step, error, compute, fast, assumptions)
    except _Lost as why:
        return Unknown(what, str(why), None, "")
    except _NotKnown as why:
        return unknown(what, str(why), output)
    computed = Term("operations", _says(steps), per_r2=error.rms**2, worst_r=error.worst)
    return _model(what, [computed], compute, output, reference, assumptions)


def _model(
    what: str, terms: list[Term], compute: Format, output: Format, reference: Format | None, assumptions: Sequence[str]
) -> Model:
    if not output.exact and output.digits is not None and compute.digits is not None and output.digits < compute.digits:
        terms = [*terms, rounding_term("output", f"rounded once to {output.name}", output)]
    if reference is not None:
        terms = [*terms, reference_rounding(reference, output)]
    kept = "exact" if reference is None else f"in {reference.name}, computed at least as precisely as the kernel"
    said = (*assumptions, f"the reference is kept {kept}, and reads the same rounded inputs")
    return Model(what, output, tuple(terms), 1.0, 1.0, said)


def _says(steps: Sequence[Step]) -> str:
    return "errors of " + ", ".join(f"{s.name}({s.count})" if s.count > 1 else s.name for s in steps)


def _through(step: Step, error: _Error, compute: Format, fast: bool, assumptions: list[str]) -> None:
    """Take a relative error through one operation. Raises `_NotKnown`."""
    if step.name.startswith("cast:"):
        try:
            to = format_of(step.name.removeprefix("cast:"))
        except UnknownFormat as why:
            raise _NotKnown(str(why)) from None
        if to.exact:
            raise _Lost(f"a cast to {to.name} takes the fraction away, which may be all of a value")
        error.added(SPREAD * to.u, to.u)
    elif step.name in REDUCTIONS:
        _reduced(step, error, compute, assumptions)
    elif step.name in TABLE:
        known = TABLE[step.name]
        _fits(step, compute)
        error.amplified(_amplification(step, known.amplifies))
        units = known.units
        if fast and known.fast is not None:
            units = known.fast[0] + known.fast[1] * (step.magnitude or 0.0)
        # a unit in the last place is 2 u of a value just above a power of two, which is the worst
        error.added(SPREAD * 2 * units * compute.u, 2 * units * compute.u)
    else:
        others = ", ".join(sorted({*TABLE, *REDUCTIONS}))
        unheard = f"nothing is known of the operation {step.name!r}; known in chains: {others}, cast:TYPE"
        raise _NotKnown(CANCELS.get(step.name, unheard))


def _fits(step: Step, compute: Format) -> None:
    """Raise `_NotKnown` for an exponential that may leave the range of its format."""
    if step.name not in EXPONENTIALS or step.magnitude is None:
        return
    most = math.log(compute.largest, EXPONENTIALS[step.name])
    if step.magnitude > most:
        raise _Lost(
            f"{step.name} of {step.magnitude:.4g} is beyond {compute.name}, which ends at {step.name}({most:.4g})"
        )


def _amplification(step: Step, amplifies: float | str) -> float:
    if isinstance(amplifies, float):
        return amplifies
    if amplifies == "condition":
        if step.condition is None:
            raise _NotKnown(f"{step.name} may cancel; its condition (|a| + |b|) / |a ± b| is not given")
        return step.condition
    if step.magnitude is None:
        raise _NotKnown(f"{step.name} depends on how large its argument is, which is not given")
    if amplifies == "1 / magnitude":
        if not step.magnitude:
            raise _NotKnown(f"{step.name} of 1 is 0, where a relative error has no bound")
        return 1 / step.magnitude
    return step.magnitude + (1 if amplifies.startswith("1 +") else 0)


def _reduced(step: Step, error: _Error, compute: Format, assumptions: list[str]) -> None:
    """A sum of terms of one sign: their errors average out as far as they are independent, and the sum adds its own."""
    assumptions.append(f"the {step.count} terms of the {step.name} have one sign and independent errors")
    if step.name == "mean_square":
        error.amplified(2.0)
        error.added(SPREAD * compute.u, compute.u)
    kept = Accumulator(compute.name, compute)
    if stagnates(step.count, kept):
        raise _Lost(f"a {step.name} of {step.count} terms of one sign stands still in {compute.name}: terms are lost")
    summed = sum_error(step.count, POSITIVE_TERMS.kappa, kept)
    error.rms *= math.sqrt(POSITIVE_TERMS.kappa / step.count)
    error.added(math.sqrt(summed.per_s2 + summed.per_r2), summed.worst)
    if step.name == "mean_square":
        error.added(SQUARES_DRIFT * step.count * compute.u, 0.0)  # the worst of the sum holds it already
    if step.name != "sum":
        error.added(SPREAD * compute.u, compute.u)


# ---------------------------------------------------------------------------------------------------------- whole kernels


def sum_model(
    n: int,
    compute: Format,
    output: Format,
    reference: Format | None,
    *,
    same_sign: bool = False,
    inputs: Format | None = None,
) -> Model:
    """A sum of n terms, relative to S = sum |x|. `inputs`: their type, if they are whole numbers."""
    data = POSITIVE_TERMS if same_sign else NORMAL_TERMS
    if inputs is not None:
        data = whole_numbers(inputs, 1, same_sign)
    kept = Accumulator(compute.name, compute)
    error = sum_error(n, data.kappa, kept)
    says = f"{n} terms added one after the other in {compute.name}"
    term = Term("accumulation", says, error.per_s2, error.per_r2, error.worst, probable=error.probable)
    model = _model(f"sum of {n} terms", [term], compute, output, reference, [data.says])
    results = data.results(n, compute, None if inputs is None else n * inputs.magnitude)
    still = data.same_sign and stagnates(n, kept)
    return replace(model, s=data.s(n), r=data.r(n), results=results, stagnates=still)


def softmax_model(
    n: int, spread: float, compute: Format, output: Format, reference: Format | None, *, fast: bool = False
) -> Model | Unknown:
    """A softmax over n scores that lie within `spread` below their maximum.

    Both the numerator and the terms of the sum are exponentials of x - max, whose rounding is amplified by its size.
    """
    what = f"softmax of {n} scores"
    # what is farther below is no number any more, and adds nothing to the sum
    counts = min(spread, -compute.least_exponent * math.log(2))
    exponential = [Step("add_same_sign"), Step("mul"), Step("exp", magnitude=counts)]
    steps = [*exponential, Step("div")]
    sums = [*exponential, Step("sum", count=n)]
    within = f"scores lie within {spread:g} below their maximum"
    if counts < spread:
        within += f", and those farther than {counts:.0f} below are zero in {compute.name}"
    model = _both(what, steps, sums, (compute, output, reference), fast, within)
    return _of_size(model, 1 / n, f"results are of about 1 / {n}", Results(1 / n, 0.0, most=1.0))


def rmsnorm_model(
    n: int, compute: Format, output: Format, reference: Format | None, *, fast: bool = False
) -> Model | Unknown:
    """x * rsqrt(mean(x^2) + eps) * weight over n elements."""
    steps = [Step("mul"), Step("mul")]
    scale = [Step("mean_square", count=n), Step("add_same_sign"), Step("rsqrt")]
    return _both(f"rmsnorm of {n} elements", steps, scale, (compute, output, reference), fast, "eps is positive")


def layernorm_model(
    n: int, offset: float, compute: Format, output: Format, reference: Format | None, *, fast: bool = False
) -> Model | Unknown:
    """(x - mean) * rsqrt(var + eps) * weight over n elements whose mean is `offset` standard deviations from zero.

    Near the mean x - mean cancels: the error there is relative to the standard deviation, which is S of this model (1).
    """
    u = compute.u
    kappa = NORMAL_TERMS.kappa
    summed = sum_error(n, kappa, Accumulator(compute.name, compute))
    # in standard deviations: the rms of x, and the error of the mean, whose sum is n * offset and some sqrt(n)
    size = math.hypot(1.0, offset)
    mean2 = summed.per_s2 * size**2 / kappa + summed.per_r2 * (offset**2 + 1 / n) + (SPREAD * u * offset) ** 2
    says = f"x - mean, where the mean is {offset:g} deviations from zero"
    centred = Term("mean", says, mean2, 0.0, (summed.worst + u) * size)
    steps = [Step("mul"), Step("mul"), Step("mean_square", count=n), Step("rsqrt")]
    rest = chain_model(steps, compute, output, reference, fast=fast, what=f"layernorm of {n} elements")
    if isinstance(rest, Unknown):
        return rest
    said = (
        *rest.assumptions,
        f"the mean is within {offset:g} standard deviations of zero, and the variance is that of x - mean",
    )
    return Model(rest.what, output, (centred, *rest.terms), 1.0, 1.0, said)


def attention_model(
    n: int, depth: int, spread: float, inputs: Format, output: Format, reference: Format | None, *, fast: bool = False
) -> Model | Unknown:
    """softmax(Q K^T / sqrt(depth)) V over n keys, in fp32 but for the probabilities, which are rounded to the inputs' format.

    The errors of the probabilities are independent, so that the sum has their relative error: relative to the rms of the
    results (S of this model), not to each result, which may cancel.
    """
    single = format_of("float32")
    summed = sum_error(depth, NORMAL.kappa, Accumulator("float32", single))
    weights = softmax_model(n, spread, single, single, None, fast=fast)
    if isinstance(weights, Unknown):
        return weights
    # scores of normal queries and keys have rms 1, and are as much larger as they spread farther; an error of a score is a
    # relative one of its exponential, above and below the line of the softmax
    scale = max(1.0, spread / LARGEST)
    score = scale * math.sqrt(summed.per_s2 * depth / NORMAL.kappa + summed.per_r2)
    # of n values of random signs the sum of magnitudes is at most sqrt(n) times their weighted rms, which the result has
    most = math.sqrt(n)
    terms = [
        _weighted(
            "scores", f"dot products of {depth} in float32", score, 2 * scale * summed.worst * math.sqrt(depth), most
        ),
        *(_weighted("softmax", term.says, math.sqrt(term.per_r2), term.worst_r, most) for term in weights.terms),
    ]
    if inputs.digits is not None and inputs.digits < (single.digits or 0):
        says = f"rounded to {inputs.name} before they meet V"
        terms.append(_weighted("probabilities", says, SPREAD * inputs.u, inputs.u, most))
    assumptions = [
        *weights.assumptions[:-2],
        "values have random signs",
        "the reference keeps scores and probabilities in float32",
    ]
    model = _model(f"attention over {n} keys of depth {depth}", terms, single, output, reference, assumptions)
    return _of_size(model, most / n, f"values are of about 1, results of about 1 / sqrt({n})")


def _weighted(name: str, says: str, rms: float, worst: float, most: float) -> Term:
    """Independent relative errors of the weights of a sum: S is the rms of the results here."""
    return Term(name, says, per_s2=rms**2, worst_s=worst * most)


def _of_size(model: Model | Unknown, size: float, assumption: str, results: Results | None = None) -> Model | Unknown:
    """The same model for results of another size, which only an absolute tolerance and the range depend on."""
    if isinstance(model, Unknown):
        return model
    return replace(model, s=size, r=size, assumptions=(*model.assumptions, assumption), results=results)


def _both(
    what: str,
    own: list[Step],
    other: list[Step],
    formats: tuple[Format, Format, Format | None],
    fast: bool,
    assumption: str,
) -> Model | Unknown:
    """A value times or over another one that was computed apart: the relative errors add."""
    compute, output, reference = formats
    parts = [chain_model(steps, compute, compute, None, fast=fast, what=what) for steps in (own, other)]
    for part in parts:
        if isinstance(part, Unknown):
            return part if part.start is None else unknown(what, part.why, output)
    models = [part for part in parts if isinstance(part, Model)]
    terms = [term for model in models for term in model.terms]
    assumptions = dict.fromkeys(line for model in models for line in model.assumptions[:-1])
    return _model(what, terms, compute, output, reference, [assumption, *assumptions])
