"""How much a right kernel may differ from its reference, and what a measured difference says. Pure.

A `Model` is a few terms, each one cause of rounding. The mean square of a term's error at one element is linear in S^2 and r^2, where r
is the result there and S = sum |a * b| (`rounding.py` derives it); so a model is four numbers, which a caller may also apply to whole
arrays. Three figures must not be mixed up:

* the *expected* rms error, which measured errors agree with within a few ten per cent (`benchmarks/tolerance.py`);
* the *band*, which accepts: `RMS_FACTOR` times the expected rms over all elements, and `ELEMENT_FACTOR` times that of each element, plus
  the bounded errors (output rounding);
* the *ceiling*, the proven worst case: no right kernel is above it, and nearly every wrong one is below. It accepts nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from triage.numerics.formats import FORMATS, Format
from triage.numerics.rounding import (
    CUT,
    PROMOTION,
    SPREAD,
    Accumulator,
    SumError,
    accumulator_of,
    partial_sums,
    stagnates,
    sum_error,
)

#: The measured rms may be so many times the expected one. What the model does not know (order, blocks, distribution) was never worth more
#: than 1.5; the next narrower accumulator is worth 3 and more from K = 1024 on.
RMS_FACTOR = 2.0
#: One element's error may be so many times its expected rms: the largest of 10^7 normal errors is at 5.5, times 1.5 for the model.
ELEMENT_FACTOR = 8.0
#: An error fits an accumulator if its rms is within this factor of what that one makes; the formula holds within a fifth.
FIT_FACTOR = 1.5
#: The largest of 10^8 normal results over their rms.
LARGEST = 6.0
#: The smallest normal number of float32 and bfloat16; below it zero is as good.
SMALLEST = 2.0**-126
#: A race and not the order of atomic additions makes runs differ by more than this times sqrt(n) u S.
RACE_FACTOR = 10.0
#: groups in which products may have been added before an accumulator was rounded: none, an instruction's, a tile's
GROUPS = (1, 16, 32, 64, 128)


@dataclass(frozen=True)
class Tolerance:
    """What a comparison allows: `|actual - expected| <= atol + rtol * |expected|`, but for a share of the elements."""

    rtol: float
    atol: float
    max_mismatched_ratio: float = 0.0


#: Where nothing can be computed: (tolerance, where it comes from).
FALLBACK = {
    "float16": (Tolerance(1e-3, 1e-3, 0.001), "one spacing at 1, for results of about 1"),
    "bfloat16": (Tolerance(1e-2, 1e-2, 0.001), "one spacing at 1, for results of about 1"),
    "float32": (Tolerance(1.3e-6, 1e-5), "torch.testing.assert_close"),
    "float64": (Tolerance(1e-7, 1e-7), "torch.testing.assert_close"),
}
#: What TileLang's own comparisons allow unless told otherwise; printed beside what is used, for they hide faults.
UPSTREAM = {
    "tilelang.utils.tensor.torch_assert_close": Tolerance(1e-2, 1e-3, 0.001),
    "Profiler.assert_allclose": Tolerance(1e-2, 1e-2, 0.01),
}


@dataclass(frozen=True)
class Data:
    """How the terms of a sum are distributed. `kappa` = K sum p^2 / S^2; `rms` of one term.

    `measured`: both come from the program's own values, and not from an assumption.
    """

    says: str
    kappa: float
    rms: float
    same_sign: bool = False
    measured: bool = False

    def s(self, k: float) -> float:
        """S of k terms."""
        return k * self.rms / math.sqrt(self.kappa)

    def r(self, k: float) -> float:
        """The rms of their sum."""
        return self.s(k) if self.same_sign else math.sqrt(k) * self.rms

    def results(self, k: float, kept: Format | None = None, most: float | None = None) -> Results:
        """How large sums of k terms are."""
        if not self.same_sign:
            return Results(0.0, self.r(k), kept, most)
        return Results(self.s(k), self.rms * math.sqrt(k * max(0.0, 1 - 1 / self.kappa)), kept, most)


@dataclass(frozen=True)
class Results:
    """How large results are: their mean and standard deviation, and the format `kept` in which they are added up, if they are.

    `most`: no inputs whatever make a larger one; None where inputs have no end.
    """

    mean: float
    scatter: float
    kept: Format | None = None
    most: float | None = None


NORMAL = Data("inputs are normal with mean 0 and variance 1, so products have random signs", (math.pi / 2) ** 2, 1.0)
UNIFORM = Data("inputs are uniform in -1 to 1, so products have random signs", 16 / 9, 1 / 3)
POSITIVE = Data("inputs are uniform in 0 to 1, so all products have one sign and nothing cancels", 16 / 9, 1 / 3, True)
NORMAL_TERMS = Data("terms are normal with mean 0 and variance 1", math.pi / 2, 1.0)
POSITIVE_TERMS = Data("terms are uniform in 0 to 1", 4 / 3, 1 / math.sqrt(3), True)


def whole_numbers(of: Format, factors: int, same_sign: bool = False) -> Data:
    """Terms that are products of so many whole numbers, which are spread evenly over all that a format holds."""
    mean, square = (0.5, 0.5) if of.name == "bool" else (of.magnitude / 2, of.magnitude**2 / 3)
    one_sign = same_sign or of.lowest == 0
    says = f"inputs are spread evenly over all of {of.name}" + (", and all terms have one sign" if one_sign else "")
    return Data(says, (square / mean**2) ** factors, math.sqrt(square**factors), one_sign)


@dataclass(frozen=True)
class Term:
    """One cause of error: mean square `per_s2 * S^2 + per_r2 * r^2`, never above `worst_s * S + worst_r * |r|`.

    `bounded`: the worst is so near the rms that the band takes it whole, as for a single rounding. `probable` is the
    probabilistic bound in S, where there is one.
    """

    name: str
    says: str
    per_s2: float = 0.0
    per_r2: float = 0.0
    worst_s: float = 0.0
    worst_r: float = 0.0
    bounded: bool = False
    probable: float | None = None
    #: what results near zero are off by besides; absolute
    floor: float = 0.0

    def rms(self, s: float, r: float) -> float:
        return math.sqrt(self.per_s2 * s * s + self.per_r2 * r * r)

    def worst(self, s: float, r: float) -> float:
        return self.worst_s * s + self.worst_r * abs(r)


@dataclass(frozen=True)
class Dot:
    """What is known of a sum of products. `k`: how many products; `reference`: the format the reference is rounded to, None for fp64.

    `reads_rounded`: the reference is computed from the inputs as the kernel reads them. `atomics`: the result is added up
    from so many partial sums in any order; 0 for none. `declared`: the program says which accumulator it has.
    """

    k: int
    inputs: Format
    accumulator: Accumulator
    output: Format
    reference: Format | None
    data: Data = NORMAL
    reads_rounded: bool = True
    atomics: int = 0
    declared: bool = False


@dataclass(frozen=True)
class Model:
    """The terms of an operation, and what they assume. `s` and `r` are typical: S, and the rms of the results."""

    what: str
    output: Format
    terms: tuple[Term, ...]
    s: float
    r: float
    assumptions: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    dot: Dot | None = None
    #: None where nothing is known of them but their rms
    results: Results | None = None
    #: a sum of one sign whose terms become too small beside it
    stagnates: bool = False

    @property
    def floor(self) -> float:
        """What a result near zero may be off by, absolute: numbers have a smallest distance."""
        return sum(term.floor for term in self.terms)

    def rms(self, s: float, r: float) -> float:
        """The expected rms error of an element."""
        return math.hypot(*(term.rms(s, r) for term in self.terms))

    def limit(self, s: float, r: float) -> float:
        """The band of an element: an error above it is a fault."""
        random = [term for term in self.terms if not term.bounded]
        tail = ELEMENT_FACTOR * math.hypot(*(term.rms(s, r) for term in random))
        bounded = sum(term.worst(s, r) for term in self.terms if term.bounded)
        return min(tail, sum(term.worst(s, r) for term in random)) + bounded + self.floor

    def ceiling(self, s: float, r: float) -> float:
        """The worst case of an element; infinite where roundings are so coarse and many that nothing bounds them."""
        return sum(term.worst(s, r) for term in self.terms) + self.floor

    def tolerance(self, s: float, r: float) -> Tolerance:
        """The smallest rtol and atol that hold the band of every element, whatever its r, of data like the model's and S of about `s`."""
        random = [term for term in self.terms if not term.bounded]
        per_s = ELEMENT_FACTOR * math.sqrt(sum(term.per_s2 for term in random))
        per_r = ELEMENT_FACTOR * math.sqrt(sum(term.per_r2 for term in random))
        worst_s, worst_r = (sum(getattr(term, name) for term in random) for name in ("worst_s", "worst_r"))
        bounded_s = sum(term.worst_s for term in self.terms if term.bounded)
        bounded_r = sum(term.worst_r for term in self.terms if term.bounded)
        if worst_s * s + worst_r * r <= per_s * s + per_r * r:
            per_s, per_r = worst_s, worst_r
        return Tolerance(bounded_r + per_r, (bounded_s + per_s) * s + self.floor)


def one_two_five(value: float) -> float:
    """The next number of the row 1, 2, 5, 10 … that is not below a value; zero stays."""
    if not value:
        return 0.0
    power = 10.0 ** math.floor(math.log10(value))
    # a value that is a member of the row but for its last bits stays
    return next(float(f"{step * power:.0e}") for step in (1, 2, 5, 10) if step * power >= value * (1 - 1e-9))


def suggestion(model: Model, s: float, r: float) -> Tolerance:
    """The smallest rtol and atol in steps of 1-2-5 that hold the band, for results of rms `r`.

    What a step of rtol misses may go into atol for results up to `LARGEST` r; the pair that allows less at r is taken.
    """
    exact = model.tolerance(s, r)
    pairs = [Tolerance(one_two_five(exact.rtol), one_two_five(exact.atol))]
    bounded = one_two_five(sum(term.worst_r for term in model.terms if term.bounded))
    if 0 < bounded < pairs[0].rtol:
        pairs.append(Tolerance(bounded, one_two_five(exact.atol + (exact.rtol - bounded) * LARGEST * r)))
    best = min(pairs, key=lambda pair: pair.atol + pair.rtol * r)
    return best if best.atol >= SMALLEST else replace(best, atol=0.0)


# ---------------------------------------------------------------------------------------------------------------- models


def dot_model(dot: Dot) -> Model:
    """The model of a sum of products: inputs, accumulation, atomics, output, reference."""
    k = dot.k
    s, r = dot.data.s(k), dot.data.r(k)
    terms = [_inputs(dot), _accumulation(dot)]
    if dot.atomics:
        terms.append(_atomics(dot))
    terms += [_output(dot), *_reference(dot)]
    what = (
        f"sum of {k} products of {dot.inputs.name}, accumulated in {dot.accumulator.name}, stored as {dot.output.name}"
    )
    assumptions = [_said_of_reference(dot)]
    if not dot.accumulator.format.exact:
        assumptions.append("terms come in an order that has nothing to do with their values")
    assumptions.insert(0, dot.data.says)
    if not dot.declared:
        assumptions.append(f"the accumulator is {dot.accumulator.name}; the program was not asked")
    results = dot.data.results(k, dot.accumulator.format, k * dot.inputs.magnitude**2 if dot.inputs.exact else None)
    still = dot.data.same_sign and stagnates(k_of_part(dot), dot.accumulator)
    return Model(what, dot.output, tuple(terms), s, r, tuple(assumptions), _notes(dot), dot, results, still)


def _kept(kept: Accumulator) -> str:
    how = "cut off" if kept.truncates else "rounded to nearest"
    group = f"{kept.group} products at a time" if kept.group > 1 else "one term at a time"
    promoted = f", moved to float32 after every {kept.promoted}" if kept.promoted else ""
    return f"{group} into {kept.format.digits} significant bits, {how}{promoted}"


def _inputs(dot: Dot) -> Term:
    u = dot.inputs.u
    if dot.reads_rounded or not u:
        return Term("inputs", "the reference reads the same rounded inputs" if u else "integers are exact")
    each = 2 * (SPREAD * u) ** 2 * dot.data.kappa / dot.k
    if dot.inputs.name == "tfloat32":  # tensor cores drop the last bits: both operands, and so all products, shrink
        says = "both operands lose their last 13 bits, towards zero; the reference reads them whole"
        return Term("inputs", says, each, (2 * CUT * u) ** 2, 4 * u + 4 * u * u)
    return Term(
        "inputs", f"both operands were rounded, the reference's were not (u = {_power(u)})", each, 0.0, 2 * u + u * u
    )


def _accumulation(dot: Dot) -> Term:
    kept = dot.accumulator
    if kept.format.exact:
        return Term("accumulation", "integers are added exactly")
    error = sum_error(dot.k, dot.data.kappa, kept, max(1, dot.atomics))
    return _sum_term("accumulation", f"{_kept(kept)} (u = {_power(kept.u)})", error, kept.format)


def _sum_term(name: str, says: str, error: SumError, kept: Format) -> Term:
    return Term(name, says, error.per_s2, error.per_r2, error.worst, 0.0, False, error.probable, kept.floor)


def _atomics(dot: Dot) -> Term:
    into = dot.output
    error = partial_sums(dot.k, dot.data.kappa, dot.atomics, into, _narrower(into, dot.accumulator.format))
    return _sum_term("atomics", f"{dot.atomics} partial sums added in {into.name} in any order", error, into)


def _output(dot: Dot) -> Term:
    out = dot.output
    if dot.atomics:
        return Term("output", "stored by the last addition")
    if out.exact:
        return _output_of_integers(out, dot.accumulator.format)
    if _whole(dot, out):
        return Term("output", f"{out.name} holds whole numbers of this size exactly")
    if not _narrower(out, dot.accumulator.format):
        return Term("output", f"{out.name} has all digits of the accumulator")
    return rounding_term("output", f"rounded once to {out.name} (u = {_power(out.u)})", out)


def _whole(dot: Dot, form: Format) -> bool:
    """Whether a format of real numbers holds every result and every partial sum of it exactly: whole numbers that are not too large."""
    return dot.inputs.exact and dot.k * dot.inputs.magnitude**2 <= 2.0 ** (form.digits or 0)


def _output_of_integers(out: Format, kept: Format) -> Term:
    if out.name == "bool":
        return Term("output", "bool keeps only whether a sum is zero")
    if kept.exact:
        return Term("output", f"whole numbers are stored as they are, as far as {out.name} holds them")
    says = f"{out.name} has no fractions: a sum beside a whole number goes to either side"
    return Term("output", says, bounded=True, floor=1.0)


def rounding_term(name: str, says: str, to: Format) -> Term:
    """One rounding of the result."""
    return Term(name, says, per_r2=(SPREAD * to.u) ** 2, worst_r=to.u, bounded=True, floor=to.floor)


def _reference(dot: Dot) -> list[Term]:
    if dot.reference is None or dot.reference.exact or dot.reference.digits == FORMATS["float64"].digits:
        return [Term("reference", "computed and kept in float64" if dot.reference else "exact")]
    single = Accumulator("float32", FORMATS["float32"])
    if _whole(dot, dot.reference) and _whole(dot, single.format):
        return [Term("reference", "float32 adds whole numbers of this size exactly")]
    if _whole(dot, single.format):
        summed = Term("reference", "float32 adds whole numbers of this size exactly")
    else:
        error = sum_error(dot.k, dot.data.kappa, single)
        summed = _sum_term("reference", "summed in float32, one after the other at worst", error, single.format)
    return [summed, reference_rounding(dot.reference, dot.output)]


def reference_rounding(reference: Format, output: Format) -> Term:
    """The rounding of the reference. One to the output's own format mostly gives the same number: it adds to the band, not to the rms."""
    term = rounding_term("reference rounding", f"rounded once to {reference.name}", reference)
    if reference.digits == output.digits and not output.exact:
        says = f"to {reference.name} as the result is: mostly to the same number, else to the next one"
        return replace(term, says=says, per_r2=0.0)
    return term


def _said_of_reference(dot: Dot) -> str:
    kept = "exact" if dot.reference is None else f"in {dot.reference.name}"
    return f"the reference is kept {kept} and reads {'the rounded inputs' if dot.reads_rounded else 'inputs that were not rounded'}"


def k_of_part(dot: Dot) -> float:
    """How many products go into one accumulator."""
    return dot.k / max(1, dot.atomics)


def _narrower(one: Format, other: Format) -> bool:
    return one.digits is not None and (other.digits is None or one.digits < other.digits)


def _notes(dot: Dot) -> tuple[str, ...]:
    notes = []
    if dot.inputs.name.startswith("float8") and dot.accumulator.name == "float32":
        notes.append(
            f"tensor cores of Hopper keep 14 bits of such sums; where a kernel does not move them to float32 after every {PROMOTION} "
            "products, ask again with --accum hopper-fp8"
        )
    if dot.accumulator.name.startswith("hopper"):
        notes.append("what is lost where the products of one instruction are aligned is not in the model")
    return tuple(notes)


def _power(u: float) -> str:
    return f"2^{math.log2(u):.0f}"


def run_to_run(dot: Dot, s: float, r: float) -> tuple[float, float]:
    """Of a result that is added up by atomics: the rms difference of two runs, and what only a race exceeds."""
    term = _atomics(dot)
    return math.sqrt(2) * term.rms(s, r), RACE_FACTOR * math.sqrt(dot.atomics) * dot.output.u * s


def model_with(model: Model, accumulator: str, group: int | None = None) -> Model | None:
    """The same sum of products with another accumulator; None for a model of something else."""
    if model.dot is None:
        return None
    kept = accumulator_of(accumulator, model.dot.inputs)
    return dot_model(replace(model.dot, accumulator=kept if group is None else replace(kept, group=group)))


@dataclass(frozen=True)
class Unknown:
    """Nothing can be computed: why, and the tolerance to start from, with its origin; None where no tolerance means anything."""

    what: str
    why: str
    start: Tolerance | None
    origin: str
    assumptions: tuple[str, ...] = field(default=())


def unknown(what: str, why: str, output: Format) -> Unknown:
    """What to use where there is no model of an operation that computes with real numbers."""
    if output.name == "bool":
        return Unknown(what, why, Tolerance(0.0, 0.0), "truth values are equal or not")
    if output.exact:
        origin = f"one step of {output.name}, for values that lie beside the border of two"
        return Unknown(what, why, Tolerance(0.0, 1.0), origin)
    if output.name in FALLBACK:
        start, origin = FALLBACK[output.name]
        return Unknown(what, why, start, origin, ("results are of about 1; scale atol with them",))
    return Unknown(what, why, Tolerance(2 * output.u, 2 * output.u), f"one spacing of {output.name} at 1")
