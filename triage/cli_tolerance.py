"""`triage tolerance`: how much a right kernel may differ from its reference, where that comes from, and what to compare with."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

from triage.arguments import UsageError
from triage.console import FAULT, HEALTHY, UNKNOWN, show
from triage.model import to_json
from triage.numerics import operations
from triage.numerics.formats import Format, UnknownFormat, format_of
from triage.numerics.measured import Measured
from triage.numerics.ranges import Reach, beside_floor, out_of_range, reaches, without_figures
from triage.numerics.rounding import accumulator_of
from triage.numerics.tolerance import (
    ELEMENT_FACTOR,
    GROUPS,
    NORMAL,
    POSITIVE,
    RMS_FACTOR,
    UPSTREAM,
    Dot,
    Model,
    Tolerance,
    Unknown,
    dot_model,
    model_with,
    suggestion,
    unknown,
    whole_numbers,
)
from triage.numerics.verdict import Verdict, verdict

SCHEMA = "triage.tolerance/1"
WIDTH = 100
INDENT = 11


#: what each operation asks for; a chain of operations has the options of `CHAIN`
OPTIONS = {
    "gemm": {"inputs", "accum", "unrounded", "atomics", "same_sign"},
    "sum": {"inputs", "accum", "same_sign"},
    "softmax": {"accum", "range", "fast_math"},
    "rmsnorm": {"accum", "fast_math"},
    "layernorm": {"accum", "offset", "fast_math"},
    "attention": {"inputs", "range", "depth", "fast_math"},
}
CHAIN = {"accum", "range", "fast_math"}


@dataclass(frozen=True)
class Answer:
    """What is said for results of an rms: the figures of a model, or why there are none; what formats hold; what was measured."""

    model: Model | Unknown
    rms: float
    ranges: tuple[Reach, ...] = ()
    judged: Verdict | None = None


def command(args: argparse.Namespace) -> int:
    try:
        answer = _answer(args, _model(args))
    except UnknownFormat as error:
        raise UsageError(f"{error}; give one of these") from None
    if args.json is not None:
        _write_json(args.json, as_json(answer))
    if args.json != "-":
        show("\n".join(page(answer)) + "\n", {r"^[A-Z]{4,}(?: [a-z]+)?": "bold"})
    if answer.judged is not None and answer.judged.kind in ("outside", "accumulator"):
        return FAULT
    return UNKNOWN if isinstance(answer.model, Unknown) else HEALTHY


def _answer(args: argparse.Namespace, model: Model | Unknown) -> Answer:
    """What a model says for results of the given size. Raises `UsageError` where they cannot be so large."""
    if isinstance(model, Unknown):
        return Answer(model, 1.0, judged=_judge(args, model, 1.0))
    rms = model.r if args.rms is None else args.rms
    if model.results is not None and model.results.most is not None and rms > model.results.most:
        raise UsageError(f"--rms {rms:g}: no {model.what} is above {model.results.most:g}; give the rms of the results")
    ranges, why = reaches(model, rms), out_of_range(model, rms)
    if why is not None and args.rms is None:
        why += ", or say with --rms how large your results are"
    why = why or without_figures(model, rms)
    if why is None:
        return Answer(model, rms, ranges, _judge(args, model, rms))
    none = Unknown(model.what, why, None, "", model.assumptions)
    # a verdict knows that the error of a sum that stands still has no figure
    return Answer(none, rms, ranges, _judge(args, model if model.stagnates else none, rms))


def _judge(args: argparse.Namespace, model: Model | Unknown, rms: float) -> Verdict | None:
    if args.measured is None:
        return None
    wrong = args.measured * rms
    return verdict(model, Measured(1, wrong, rms, wrong, rms))  # one typical element stands for all


def _write_json(path: str, data: dict[str, Any]) -> None:
    import json
    import sys
    from pathlib import Path

    text = json.dumps(data, indent=1, allow_nan=False) + "\n"
    if path == "-":
        sys.stdout.write(text)
        return
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from None


def _model(args: argparse.Namespace) -> Model | Unknown:
    """The model that the words ask for. Raises `UnknownFormat`, `UsageError`."""
    _only_its_own(args)
    output = _stored(args.dtype)
    reference = None if args.reference == "exact" else format_of(args.reference or args.dtype)
    if args.op == "gemm":
        return _gemm(args, output, reference)
    if args.op == "sum" and output.exact:
        return _whole_sum(args, output, reference)
    if output.exact:
        return unknown(args.op, f"{output.name} holds whole numbers, and {args.op} computes others", output)
    compute = format_of(args.accum or ("float64" if output.name == "float64" else "float32"))
    if compute.exact:
        raise UsageError(
            f"--accum {args.accum}: {args.op} of {output.name} is computed with real numbers; give float32"
        )
    n, spread = args.k, 9.0 if args.range is None else args.range
    if args.op == "sum":
        return operations.sum_model(n, compute, output, reference, same_sign=args.same_sign)
    if args.op == "softmax":
        return operations.softmax_model(n, spread, compute, output, reference, fast=args.fast_math)
    if args.op == "rmsnorm":
        return operations.rmsnorm_model(n, compute, output, reference, fast=args.fast_math)
    if args.op == "layernorm":
        if n == 1:
            raise UsageError("--k 1: one element does not deviate from its mean; give 2 or more")
        offset = 1.0 if args.offset is None else args.offset
        return operations.layernorm_model(n, offset, compute, output, reference, fast=args.fast_math)
    if args.op == "attention":
        inputs = format_of(args.inputs or args.dtype)
        depth = 64 if args.depth is None else args.depth
        return operations.attention_model(n, depth, spread, inputs, output, reference, fast=args.fast_math)
    return operations.chain_model(_steps(args, spread), compute, output, reference, fast=args.fast_math)


def _only_its_own(args: argparse.Namespace) -> None:
    """Refuse options that an operation does not ask for: their values would count for nothing."""
    for name in sorted(set().union(*OPTIONS.values()) - OPTIONS.get(args.op, CHAIN)):
        if getattr(args, name):
            of = ", ".join(op for op, options in OPTIONS.items() if name in options)
            word = "in" if name == "inputs" else name.replace("_", "-")
            raise UsageError(f"--{word} is not for --op {args.op}, but for {of}; leave it out")


def _stored(name: str) -> Format:
    form = format_of(name)
    if form.name == "tfloat32":
        raise UsageError(
            f"--dtype {name}: tensor cores read tf32, and nothing is stored as it; give float32 and --in tf32"
        )
    return form


def _steps(args: argparse.Namespace, spread: float) -> list[operations.Step]:
    """A chain as `exp,mul,cast:float16`; every step has the range of the whole, every reduction its length."""
    names = [name.strip() for name in args.op.split(",")]
    if not all(names):
        raise UsageError(f"--op {args.op!r}: an operation has no name; give a chain as exp,mul,cast:float16")
    for name in names:
        if name.startswith("cast:"):
            format_of(name.removeprefix("cast:"))
    return [operations.Step(name, args.k if name in operations.REDUCTIONS else 1, spread) for name in names]


def _whole_sum(args: argparse.Namespace, output: Format, reference: Format | None) -> Model | Unknown:
    inputs = format_of(args.inputs or args.dtype)
    # torch and TileLang add narrow whole numbers up in what they are stored as
    kept = format_of(args.accum or args.dtype)
    if inputs.exact and kept.exact:
        return operations.sum_model(args.k, kept, output, reference, same_sign=args.same_sign, inputs=inputs)
    return unknown(
        f"sum of {inputs.name} in {kept.name}", f"{output.name} holds whole numbers, and the sum is none", output
    )


def _gemm(args: argparse.Namespace, output: Format, reference: Format | None) -> Model | Unknown:
    inputs = format_of(args.inputs or ("int8" if output.name == "int32" else args.dtype))
    wide = "int32" if inputs.exact else "float64" if inputs.name == "float64" else "float32"
    kept = accumulator_of(args.accum or wide, inputs)
    if inputs.exact != kept.format.exact:
        return unknown(
            f"products of {inputs.name} in {kept.name}", "whole and real numbers are mixed, as with scales", output
        )
    if output.exact and not kept.format.exact:
        return unknown(
            f"products of {inputs.name} in {kept.name}",
            f"{output.name} holds whole numbers, and the sum is none",
            output,
        )
    if kept.name.startswith("hopper") and not inputs.name.startswith("float8"):
        raise UsageError(f"--accum {args.accum} is of eight-bit inputs; give --in e4m3 or --in e5m2")
    if args.atomics > args.k:
        raise UsageError(f"--atomics {args.atomics}: there are only {args.k} products")
    data = POSITIVE if args.same_sign else NORMAL
    if inputs.exact:
        data = whole_numbers(inputs, 2, args.same_sign)
    same = not (args.unrounded or inputs.name == "tfloat32")
    return dot_model(Dot(args.k, inputs, kept, output, reference, data, same, args.atomics, args.accum is not None))


# ---------------------------------------------------------------------------------------------------------------- the page


def page(answer: Answer) -> Iterator[str]:
    """What is printed, line by line."""
    model, rms = answer.model, answer.rms
    if isinstance(model, Unknown):
        yield from _page_unknown(model)
        if answer.judged is not None and answer.judged.kind != "unknown":
            yield from _judged(answer.judged)
        return
    s = _s(model, rms)
    yield from _paragraph("", f"{model.what}; all errors over the rms of the result")
    yield ""
    yield f"{'':14} {'rms':>9} {'worst':>9}  {'expected from'}"
    for term in model.terms:
        if term.worst(s, rms) or term.name in ("inputs", "output"):
            row = f"{term.name:18} {_short(term.rms(s, rms) / rms):>9} {_short(term.worst(s, rms) / rms):>9}  "
            first, *rest = wrap(term.says, WIDTH - len(row)) or [""]
            yield row + first
            yield from (" " * len(row) + line for line in rest)
    expected, ceiling = model.rms(s, rms), model.ceiling(s, rms)
    yield f"{'together':18} {_short(expected / rms):>9} {_short(ceiling / rms):>9}"
    yield ""
    yield from _accepting(model, s, rms, wraps=any(one.fits != "always" for one in answer.ranges))
    if ceiling:
        yield from _paragraph("CEILING", _said_of_ceiling(model, ceiling / rms, rms))
    yield from _narrower(model, s, rms)
    yield from _list("RANGE", tuple(one.says for one in answer.ranges if _worth_saying(one)))
    yield from _paragraph("DEFAULTS", "; ".join(_default(name, one, rms) for name, one in UPSTREAM.items()))
    yield from _list("ASSUMED", model.assumptions)
    small = beside_floor(model, rms)
    yield from _list("NOTE", (*model.notes, *([small] if small else [])))
    if answer.judged is not None:
        yield from _judged(answer.judged)


def _worth_saying(reach: Reach) -> bool:
    """Of real numbers only what does not fit; of whole ones everything, for nobody sees that they wrap around."""
    return reach.whole or reach.fits == "partly"


def _s(model: Model, rms: float) -> float:
    return model.s * rms / model.r


def _short(value: float) -> str:
    return "0" if not value else f"{value:.1e}" if math.isfinite(value) else "no bound"


def _paragraph(heading: str, text: str) -> list[str]:
    width = WIDTH - (INDENT if heading else 0)
    lines = wrap(text, width, break_on_hyphens=False)
    pad = INDENT if heading else 0
    return [f"{heading if not n else '':{pad}}{line}" if pad else line for n, line in enumerate(lines)]


def _list(heading: str, lines: tuple[str, ...]) -> list[str]:
    """A paragraph of sentences, which take fewer lines than a list."""
    return _paragraph(heading, ". ".join(line[:1].upper() + line[1:] for line in lines) + ".") if lines else []


def _accepting(model: Model, s: float, rms: float, wraps: bool) -> Iterator[str]:
    if all(term.worst(s, rms) == 0 for term in model.terms):
        also = (
            "; where results leave their range, with a reference that does what the kernel does there" if wraps else ""
        )
        yield from _paragraph("ACCEPT", f"nothing but equality: nothing is rounded (rtol=0, atol=0){also}")
        return
    expected = model.rms(s, rms)
    band = f"an rms error up to {_short(RMS_FACTOR * expected / rms)} ({RMS_FACTOR:g} x the expected one: order, blocks and distribution are not known)"
    yield from _paragraph("ACCEPT", band)
    each = f"and of each element up to {ELEMENT_FACTOR:g} x its own rms, plus its roundings (10^7 normal errors reach 5.5 x)"
    yield from _continued(each)
    tolerance = suggestion(model, s, rms)
    used = f"rtol={tolerance.rtol:g}, atol={tolerance.atol:g}"
    yield from _continued(f"as one pair, for results of rms {rms:.4g}: {used}, max_mismatched_ratio=0")


def _continued(text: str) -> list[str]:
    return [" " * INDENT + line for line in wrap(text, WIDTH - INDENT, break_on_hyphens=False)]


def _said_of_ceiling(model: Model, ceiling: float, rms: float) -> str:
    said = f"{_short(ceiling)}, the worst case; nothing is accepted by it"
    if model.dot is not None and not model.output.exact:
        simple = model.output.u * math.sqrt(model.dot.k)
        if simple > min((one for _, one in _narrow_errors(model, rms)), default=math.inf):
            said += f". Nor by u sqrt(K) = {_short(simple)}: a narrow accumulator would pass it"
    return said


def _narrow_errors(model: Model, rms: float) -> list[tuple[str, float]]:
    """The accumulators that a kernel of such inputs may have in the place of a wide one, and their rms error over that of the result."""
    dot = model.dot
    if dot is None or dot.accumulator.format.exact or (dot.accumulator.format.digits or 0) < 24:
        return []
    names: list[tuple[str, int | None]] = (
        [("float16", group) for group in GROUPS] if (dot.inputs.digits or 0) <= 11 else []
    )
    if dot.inputs.name.startswith("float8"):
        names.append(("hopper-fp8", None))
    found = []
    for name, group in names:
        narrow = model_with(model, name, group)
        if narrow is not None and narrow.dot is not None:
            lost = narrow.stagnates or any(
                one.fits == "no" for one in reaches(narrow, rms) if one.role == "accumulator"
            )
            found.append((name, math.inf if lost else narrow.rms(_s(narrow, rms), rms) / rms))
    return found


def _narrower(model: Model, s: float, rms: float) -> Iterator[str]:
    """Whether the comparison would notice a narrow accumulator."""
    limit = RMS_FACTOR * model.rms(s, rms) / rms
    by_name: dict[str, list[float]] = {}
    for name, error in _narrow_errors(model, rms):
        by_name.setdefault(name, []).append(error)
    said = []
    for name, errors in by_name.items():
        least, most = min(errors), max(errors)
        seen = (
            "outside the band"
            if least > limit
            else "partly outside the band"
            if most > limit
            else "inside the band, and not seen"
        )
        span = f"{_short(least)} to {_short(most)}" if _short(least) != _short(most) else _short(least)
        if math.isinf(most):
            span = (
                "far more than rounding, for it stands still or overflows"
                if math.isinf(least)
                else f"{_short(least)} or far more, where it stands still"
            )
        said.append(f"a {name} accumulator errs by {span} (rms): {seen}")
    if said:
        yield from _paragraph("NARROWER", "; ".join(said))


def _default(name: str, one: Tolerance, rms: float) -> str:
    allows = (one.atol + one.rtol * rms) / rms
    return (
        f"{name} rtol={one.rtol:g}, atol={one.atol:g}, max_mismatched_ratio={one.max_mismatched_ratio:g} "
        f"(allows {_short(allows)} at the rms)"
    )


def _page_unknown(model: Unknown) -> Iterator[str]:
    yield from _paragraph("UNKNOWN", f"{model.what}: {model.why}")
    if model.start is not None:
        start = model.start
        pair = f"rtol={start.rtol:g}, atol={start.atol:g}, max_mismatched_ratio={start.max_mismatched_ratio:g}"
        yield from _paragraph("START WITH", f"{pair}: {model.origin}")
    yield from _paragraph("DEFAULTS", "; ".join(_default(name, one, 1.0) for name, one in UPSTREAM.items()))
    yield from _list("ASSUMED", model.assumptions)


def _judged(judged: Verdict) -> Iterator[str]:
    yield from _paragraph("VERDICT", f"{judged.kind}: {judged.says}")
    if judged.others:
        yield from _continued(f"errors of this size also come of {' or '.join(judged.others)}")
    if judged.check:
        yield from _continued(judged.check)


# ---------------------------------------------------------------------------------------------------------------- JSON


def as_json(answer: Answer) -> dict[str, Any]:
    """The same for other tools: errors over the rms of the result, null where nothing bounds them."""
    model, rms = answer.model, answer.rms
    upstream = {name: to_json(one) for name, one in UPSTREAM.items()}
    data: dict[str, Any] = {
        "schema": SCHEMA,
        "what": model.what,
        "assumptions": list(model.assumptions),
        "upstream": upstream,
        "range": [to_json(one) for one in answer.ranges],
    }
    if isinstance(model, Unknown):
        data |= {"state": "unknown", "why": model.why, "start": to_json(model.start), "origin": model.origin}
    else:
        s = _s(model, rms)
        expected = model.rms(s, rms) / rms
        data |= {
            "state": "known",
            "rms_result": rms,
            "s": s,
            "terms": [_term(term, s, rms) for term in model.terms],
            "expected_rms": expected,
            "accepted_rms": RMS_FACTOR * expected,
            "rms_factor": RMS_FACTOR,
            "element_factor": ELEMENT_FACTOR,
            "element_floor": model.floor,
            "ceiling": _bounded(model.ceiling(s, rms) / rms),
            "tolerance": to_json(suggestion(model, s, rms)),
            "notes": list(model.notes),
        }
    return data | {"verdict": to_json(answer.judged)}


def _term(term: Any, s: float, rms: float) -> dict[str, Any]:
    """A term: its figures for a typical element, and the coefficients of S^2, r^2, S and |r| that give those of any element."""
    return {
        **{key: _bounded(value) if isinstance(value, float) else value for key, value in to_json(term).items()},
        "rms": term.rms(s, rms) / rms,
        "worst": _bounded(term.worst(s, rms) / rms),
    }


def _bounded(value: float) -> float | None:
    return value if math.isfinite(value) else None
