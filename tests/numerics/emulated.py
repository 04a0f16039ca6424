"""Kernels emulated in numpy as their accumulators work: what the tolerance model is held against."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from triage.numerics.formats import FORMATS, Format
from triage.numerics.rounding import Accumulator
from triage.numerics.tolerance import Data, Dot

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


def inputs(name: str, shape: tuple[int, ...], generator: np.random.Generator) -> Array:
    if name == "positive":
        return generator.random(shape)
    if name == "uniform":
        return generator.uniform(-1, 1, shape)
    values = generator.standard_normal(shape)
    return np.where(generator.random(shape) < 0.01, 30 * values, values) if name == "few large" else values


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
