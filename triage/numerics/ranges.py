"""Whether formats hold the results of a model, and where its figures mean nothing. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

from triage.numerics.formats import Format
from triage.numerics.tolerance import LARGEST, RMS_FACTOR, Model, Results


@dataclass(frozen=True)
class Reach:
    """How far results go in a format that keeps them, as `role` (`accumulator`, `output`).

    `typical` is their rms, `largest` the largest of 10^8, `share` how many of them the format does not hold. `fits`: `always` (whatever
    the inputs), `usually`, `partly`, `no` (most do not fit).
    """

    role: str
    format: str
    whole: bool
    lowest: float
    highest: float
    typical: float
    largest: float
    share: float
    fits: str
    #: no inputs whatever make a larger result; None where inputs have no end
    most: float | None
    says: str


def reaches(model: Model, rms: float) -> tuple[Reach, ...]:
    """The formats that hold results of this rms on their way, each once."""
    results = model.results or Results(0.0, model.r)
    kept = results.kept
    roles = {"accumulator": kept, "output": model.output}
    if kept == model.output:
        del roles["accumulator"]
    scale = rms / model.r if model.r else 1.0
    mean, scatter = results.mean * scale, results.scatter * scale
    return tuple(
        _reach(role, form, mean, scatter, results.most)
        for role, form in roles.items()
        if form is not None and form.name != "bool"
    )


def _reach(role: str, form: Format, mean: float, scatter: float, most: float | None) -> Reach:
    typical, largest = math.hypot(mean, scatter), abs(mean) + LARGEST * scatter
    if most is not None:
        largest = min(largest, most)
    share = _beyond(form.largest - mean, scatter) + _beyond(mean - form.lowest, scatter)
    signed = form.lowest < 0 or mean > 0
    if most is not None and most <= form.largest and signed:
        fits = "always"
    elif share >= 0.5 or typical > form.largest:
        fits = "no"
    else:
        fits = "usually" if largest <= form.largest and signed else "partly"
    says = _says(role, form, fits, typical, largest, most, share)
    return Reach(role, form.name, form.exact, form.lowest, form.largest, typical, largest, share, fits, most, says)


def _beyond(room: float, scatter: float) -> float:
    """The share of normal numbers that are farther above their mean than `room`."""
    if not scatter:
        return float(room < 0)
    return math.erfc(room / scatter / math.sqrt(2)) / 2


def _says(role: str, form: Format, fits: str, typical: float, largest: float, most: float | None, share: float) -> str:
    where = f"{form.name}, in which they are added up," if role == "accumulator" else f"{form.name}"
    ends = f"{where} ends at {form.largest:.10g}" if form.lowest else f"{where} holds 0 to {form.largest:.10g}"
    if fits == "always":
        return f"no inputs make a result above {most:.3g}, and {ends}"
    said = f"results have an rms of {typical:.3g} and reach about {largest:.3g}, and {ends}"
    if fits == "usually":
        return said + (
            f". Other inputs can make {most:.3g}, which {_too_large(role, form)}" if most is not None else ""
        )
    rest = "" if form.exact or fits == "no" else "; the figures are those of the rest"
    return f"{said}: {_share(share)} not fit, and {_too_large(role, form, many=True)}{rest}"


def _share(share: float) -> str:
    if share > 0.995:
        return "nearly all do"
    return f"{100 * share:.2g}% of them do" if share >= 1e-3 else f"one in {1 / share:.0e} does"


def _too_large(role: str, form: Format, many: bool = False) -> str:
    """What becomes of a number that a format does not hold."""
    s = "" if many else "s"
    if form.exact:
        return f"wrap{s} around" + (f", or saturate{s} where the kernel clamps" if role == "output" else "")
    if form.name.startswith(("float8", "float4")):
        return f"saturate{s} in a kernel, while torch may make inf or NaN of the same value"
    return f"become{s} infinite"


# ------------------------------------------------------------------------------------------------------- no figures


def out_of_range(model: Model, rms: float) -> str | None:
    """Why results of this rms cannot be stored, or added up, as a model says; None where most of them can."""
    for reach in reaches(model, rms):
        if reach.fits == "no" and not reach.whole:
            return f"{reach.says}; scale the inputs, or take a type with more range"
    least = 2 * model.output.floor
    if rms < least:
        return (
            f"results of {rms:.3g} are below the smallest number of {model.output.name}, {least:.2g}; scale the inputs"
        )
    return None


def without_figures(model: Model, rms: float) -> str | None:
    """Why the figures of a model mean nothing for results of this rms, whatever their format holds; None where they hold."""
    if model.stagnates and model.results is not None and model.results.kept is not None:
        return (
            f"a sum of one sign stands still in {model.results.kept.name}: it becomes so large that its terms are rounded away, and the error may be as "
            "large as the result; take a wider accumulator, or add up parts apart"
        )
    expected = model.rms(model.s * rms / model.r, rms) / rms if model.r else 0.0
    if RMS_FACTOR * expected >= 1:
        return (
            f"rounding alone is expected to make an error of {expected:.2g} times the result, so that hardly a digit is left and a result "
            "of zeros would pass; compute in a wider type, or with shorter sums or arguments that are less extreme"
        )
    return None


def beside_floor(model: Model, rms: float) -> str | None:
    """What to know of results that are so small that their format has fewer digits for them."""
    normal = 2.0**model.output.least_exponent
    if model.output.exact or rms >= normal:
        return None
    return (
        f"numbers below {normal:.2g} have fewer digits in {model.output.name}: each may be off by {model.output.floor:.2g} besides, which "
        "atol holds and the errors over the rms do not"
    )
