"""`triage tolerance`: how much a right kernel may differ from its reference, where that comes from, and what to compare with."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from textwrap import wrap
from typing import Any

from triage.arguments import UsageError
from triage.console import FAULT, HEALTHY, UNKNOWN, show
from triage.model import to_json
from triage.numerics import operations
from triage.numerics.formats import Format, UnknownFormat, format_of
from triage.numerics.measured import Measured
from triage.numerics.rounding import accumulator_of, stagnates
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
    k_of_part,
    model_with,
    suggestion,
    unknown,
)
from triage.numerics.verdict import Verdict, verdict

SCHEMA = "triage.tolerance/1"
WIDTH = 100
INDENT = 11


def command(args: argparse.Namespace) -> int:
    try:
        model = _model(args)
    except UnknownFormat as error:
        raise UsageError(str(error)) from None
    rms = args.rms if args.rms is not None else (model.r if isinstance(model, Model) else 1.0)
    judged = None
    if args.measured is not None:
        wrong = args.measured * rms
        judged = verdict(model, Measured(1, wrong, rms, wrong, rms))  # one typical element stands for all
    if args.json is not None:
        _write_json(args.json, as_json(model, rms, judged))
    if args.json != "-":
        show("\n".join(page(model, rms, judged)) + "\n", {r"^[A-Z]{4,}(?: [a-z]+)?": "bold"})
    if judged is not None and judged.kind in ("outside", "accumulator"):
        return FAULT
    return UNKNOWN if isinstance(model, Unknown) else HEALTHY


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
    output = format_of(args.dtype)
    reference = None if args.reference == "exact" else format_of(args.reference or args.dtype)
    if args.op == "gemm":
        return _gemm(args, output, reference)
    for name in ("atomics", "unrounded"):
        if getattr(args, name):
            raise UsageError(f"--{name} is of a sum of products, not of {args.op}")
    if output.exact:
        return unknown(args.op, f"{output.name} holds whole numbers", output)
    compute = format_of(args.accum or ("float64" if output.name == "float64" else "float32"))
    n, spread = args.k, args.range
    if args.op == "sum":
        return operations.sum_model(n, compute, output, reference, same_sign=args.same_sign)
    if args.op == "softmax":
        return operations.softmax_model(n, spread, compute, output, reference, fast=args.fast_math)
    if args.op == "rmsnorm":
        return operations.rmsnorm_model(n, compute, output, reference, fast=args.fast_math)
    if args.op == "layernorm":
        return operations.layernorm_model(n, args.offset, compute, output, reference, fast=args.fast_math)
    if args.op == "attention":
        inputs = format_of(args.inputs or args.dtype)
        return operations.attention_model(n, args.depth, spread, inputs, output, reference, fast=args.fast_math)
    return operations.chain_model(_steps(args), compute, output, reference, fast=args.fast_math)


def _steps(args: argparse.Namespace) -> list[operations.Step]:
    """A chain as `exp,mul,cast:float16`; every step has the range of the whole, every reduction its length."""
    names = [name.strip() for name in args.op.split(",")]
    return [operations.Step(name, args.k if name in operations.REDUCTIONS else 1, args.range) for name in names]


def _gemm(args: argparse.Namespace, output: Format, reference: Format | None) -> Model | Unknown:
    inputs = format_of(args.inputs or ("int8" if output.name == "int32" else args.dtype))
    wide = "int32" if inputs.exact else "float64" if inputs.name == "float64" else "float32"
    kept = accumulator_of(args.accum or wide, inputs)
    if inputs.exact != kept.format.exact:
        return unknown(
            f"products of {inputs.name} in {kept.name}", "whole and real numbers are mixed, as with scales", output
        )
    if kept.name.startswith("hopper") and not inputs.name.startswith("float8"):
        raise UsageError(f"--accum {args.accum} is of eight-bit inputs; give --in e4m3 or --in e5m2")
    if args.atomics > args.k:
        raise UsageError(f"--atomics {args.atomics}: there are only {args.k} products")
    data = POSITIVE if args.same_sign else NORMAL
    same = not (args.unrounded or inputs.name == "tfloat32")
    return dot_model(Dot(args.k, inputs, kept, output, reference, data, same, args.atomics, args.accum is not None))


# ---------------------------------------------------------------------------------------------------------------- the page


def page(model: Model | Unknown, rms: float, judged: Verdict | None) -> Iterator[str]:
    """What is printed, line by line, for results of this rms."""
    if isinstance(model, Unknown):
        yield from _page_unknown(model)
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
    yield from _accepting(model, s, rms)
    if ceiling:
        yield from _paragraph("CEILING", _said_of_ceiling(model, ceiling / rms, rms))
    yield from _narrower(model, s, rms)
    yield from _paragraph("DEFAULTS", "; ".join(_default(name, one, rms) for name, one in UPSTREAM.items()))
    yield from _list("ASSUMED", model.assumptions)
    yield from _list("NOTE", model.notes)
    if judged is not None:
        yield from _judged(judged)


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


def _accepting(model: Model, s: float, rms: float) -> Iterator[str]:
    if all(term.worst(s, rms) == 0 for term in model.terms):
        yield from _paragraph("ACCEPT", "nothing but equality: nothing is rounded (rtol=0, atol=0)")
        return
    expected = model.rms(s, rms)
    band = f"an rms error up to {_short(RMS_FACTOR * expected / rms)} ({RMS_FACTOR:g} x: order, blocks and distribution are not known)"
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
            still = narrow.dot.data.same_sign and stagnates(k_of_part(narrow.dot), narrow.dot.accumulator)
            found.append((name, math.inf if still else narrow.rms(_s(narrow, rms), rms) / rms))
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
        span = _short(least) if least == most else f"{_short(least)} to {_short(most)}"
        if math.isinf(most):
            span = (
                "far more than rounding, for it stands still"
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


def as_json(model: Model | Unknown, rms: float, judged: Verdict | None) -> dict[str, Any]:
    """The same for other tools: errors over the rms of the result, null where nothing bounds them."""
    upstream = {name: to_json(one) for name, one in UPSTREAM.items()}
    data: dict[str, Any] = {
        "schema": SCHEMA,
        "what": model.what,
        "assumptions": list(model.assumptions),
        "upstream": upstream,
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
    return data | {"verdict": to_json(judged)}


def _term(term: Any, s: float, rms: float) -> dict[str, Any]:
    """A term: its figures for a typical element, and the coefficients of S^2, r^2, S and |r| that give those of any element."""
    return {
        **{key: _bounded(value) if isinstance(value, float) else value for key, value in to_json(term).items()},
        "rms": term.rms(s, rms) / rms,
        "worst": _bounded(term.worst(s, rms) / rms),
    }


def _bounded(value: float) -> float | None:
    return value if math.isfinite(value) else None
