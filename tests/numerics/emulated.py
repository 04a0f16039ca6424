"""Kernels emulated in numpy as their accumulators work: what the tolerance model is held against."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from triage.numerics.formats import FORMATS, Format
from triage.numerics.measured import Measured
from triage.numerics.rounding import Accumulator
from triage.numerics.tolerance import Data, Dot, Model

Array = np.ndarray


def rounded(x: Array, to: Format, truncates: bool = False) -> Array:
    """Values of float64 as a format holds them: to nearest even, or cut off. Nothing overflows here."""
    if to.digits is None or to.digits >= 53:
        return x
    _, exponent = np.frexp(x)
    # below the smallest normal number the distance of two numbers stays what it is there
    exponent = np.maximum(exponent, to.least_exponent + 1)
    scaled = np.ldexp(x, to.digits - exponent)
    return np.ldexp(np.trunc(scaled) if truncates else np.rint(scaled), exponent - to.digits)


def accumulated(products: Array, kept: Accumulator) -> Array:
    """The sums over the last axis, as an accumulator keeps them: in groups, rounded after each, promoted where it is."""
    length = products.shape[-1]
    total = np.zeros(products.shape[:-1])
    promoted = np.zeros_like(total)
    for start in range(0, length, kept.group):
        total = rounded(total + products[..., start : start + kept.group].sum(-1), kept.format, kept.truncates)
        if kept.promoted is not None and (start + kept.group) % kept.promoted == 0:
            promoted, total = rounded(promoted + total, FORMATS["float32"]), np.zeros_like(total)
    return rounded(promoted + total, FORMATS["float32"]) if kept.promoted is not None else total


DISTRIBUTIONS: dict[str, Callable[[tuple[int, ...], np.random.Generator], Array]] = {
    "normal": lambda shape, g: g.standard_normal(shape),
    "uniform": lambda shape, g: g.uniform(-1, 1, shape),
    "positive": lambda shape, g: g.random(shape),
    "few large": lambda shape, g: np.where(g.random(shape) < 0.01, 30.0, 1.0) * g.standard_normal(shape),
    "small": lambda shape, g: 1e-3 * g.standard_normal(shape),
    "large": lambda shape, g: 20 * g.standard_normal(shape),
    "ones": lambda shape, g: np.ones(shape),
    "integers": lambda shape, g: g.integers(-2, 3, shape).astype(float),
    "sparse": lambda shape, g: np.where(g.random(shape) < 0.05, 1.0, 0.0) * g.standard_normal(shape),
    "offset": lambda shape, g: 3 + g.standard_normal(shape),
    "lognormal": lambda shape, g: np.exp(2 * g.standard_normal(shape)),
    "cauchy": lambda shape, g: g.standard_cauchy(shape),
    "rows of unlike size": lambda shape, g: np.exp(2 * g.standard_normal((shape[0], 1))) * g.standard_normal(shape),
}


def inputs(name: str, shape: tuple[int, ...], generator: np.random.Generator) -> Array:
    return DISTRIBUTIONS[name](shape, generator)


@dataclass(frozen=True)
class Case:
    """What came out: errors, and S and r of every element."""

    error: Array
    s: Array
    r: Array


def dot_case(dot: Dot, distribution: str, results: int, generator: np.random.Generator) -> tuple[Case, Dot]:
    """A sum of products as the kernel computes it against float64, and the model's input with the data's own unevenness."""
    wide = [inputs(distribution, (results, dot.k), generator) for _ in range(2)]
    a, b = (rounded(x, dot.inputs, truncates=dot.inputs.name == "tfloat32") for x in wide)
    products = a * b
    exact = products.sum(-1) if dot.reads_rounded else (wide[0] * wide[1]).sum(-1)
    s = np.abs(products).sum(-1)
    kappa = float(dot.k * (products**2).sum(-1).mean() / (s**2).mean())
    if dot.atomics:
        parts = rounded(accumulated(products.reshape(results, dot.atomics, -1), dot.accumulator), dot.output)
        computed = accumulated(parts, Accumulator(dot.output.name, dot.output))
    else:
        computed = rounded(accumulated(products, dot.accumulator), dot.output)
    data = Data(distribution, kappa, float(np.sqrt((products**2).mean())), distribution == "positive", measured=True)
    return Case(computed - exact, s, exact), replace(dot, data=data)


def measured(case: Case, model: Model | None = None) -> Measured:
    """What a comparison would know of a case; with a model it counts the elements above its band."""
    outside = None
    if model is not None:
        limits = [model.limit(s, r) for s, r in zip(case.s.tolist(), np.abs(case.r).tolist(), strict=True)]
        outside = int((np.abs(case.error) > limits).sum())
    square = float((case.r**2).sum())
    return Measured(
        case.error.size,
        float(np.sqrt((case.error**2).mean())),
        float(np.sqrt((case.r**2).mean())),
        float(np.abs(case.error).max()),
        float(np.abs(case.r).max()),
        outside=outside,
        gain=float((case.error * case.r).sum() / square) if square else None,
    )
