"""The rounding errors of a sum of K terms, as a random walk through its partial sums.

Each addition rounds the partial sum it makes. Over many sums the leading digits of partial sums are spread evenly on a
logarithmic scale (Benford), so that an addition changes its partial sum s by a random error of rms `SPREAD * u * |s|`, and, where
the hardware cuts off instead of rounding, by a mean of `CUT * u * |s|` towards zero besides.

What partial sums are met follows from three numbers of the terms p: S = sum |p|, r = sum p, and their unevenness
`kappa = K * sum p^2 / S^2` (1 for equal magnitudes). In random order partial sum number j of n is a bridge from 0 to r:
`E s_j^2 = v * j * (n - j) / n + (j / n)^2 * r^2`, where v is the variance of one step. So the squared error of a sum is a linear function of
S^2 and r^2, for zero-mean terms (r^2 about kappa * S^2 / K) and for terms of one sign (|r| = S) alike.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from triage.numerics.formats import FORMATS, Format, format_of

#: rms of the error of one rounding over u * |value|, and mean of what one truncation takes, for log-uniform significands:
#: E[1 / (3 m^2)] = 1 / (8 ln 2) and E[1 / m] = 1 / (2 ln 2) for m in [1, 2)
SPREAD = 1 / math.sqrt(8 * math.log(2))
CUT = 1 / (2 * math.log(2))
#: sqrt(2 ln(2 K / p)) with a failure probability p of 1e-4 at K = 4096 (Higham and Mary, SISC 2019)
LAMBDA = 6.0
#: n equal terms are lost from n u = 1 on (a term is then half a spacing of the sum); errors are no longer random from a third of that
STANDSTILL = 0.35


@dataclass(frozen=True)
class Accumulator:
    """How a sum is kept: its format, how many terms are added exactly before it is rounded once, and how it is rounded.

    `promoted`: after so many terms the sum is added to another one in fp32 and starts from zero; None if it never is.
    """

    name: str
    format: Format
    group: int = 1
    truncates: bool = False
    promoted: int | None = None

    @property
    def u(self) -> float:
        return self.format.u


#: The tensor cores of Hopper and Ada keep about 14 significant bits of a sum of eight-bit products and cut the rest off.
HOPPER_BITS = Format("14 bits", 14, FORMATS["float32"].largest, -126)
#: products that one instruction adds up (K of the mma shape), by the format of the inputs: 32 bytes of each operand
MMA_GROUP = {"float16": 16, "bfloat16": 16, "tfloat32": 8, "float8_e4m3": 32, "float8_e5m2": 32, "float4_e2m1": 64}
#: a sum of eight-bit products is moved to fp32 after so many of them, where a kernel does (4 instructions)
PROMOTION = 128


def accumulator_of(name: str, inputs: Format) -> Accumulator:
    """The accumulator of a matrix product: a format by name, `hopper-fp8` or `hopper-fp8-promoted`.

    Of inputs that tensor cores take, the products of one instruction are added before anything is rounded; a sum in fp32 is
    cut off there, one in fp16 is rounded. Other inputs are added one by one. Raises `UnknownFormat`.
    """
    group = MMA_GROUP.get(inputs.name, 1)
    if name in ("hopper-fp8", "hopper-fp8-promoted"):
        return Accumulator(name, HOPPER_BITS, 32, True, PROMOTION if name.endswith("promoted") else None)
    kept = format_of(name)
    return Accumulator(kept.name, kept, group, truncates=group > 1 and kept.name == "float32")


@dataclass(frozen=True)
class SumError:
    """The error of a sum: its mean square is `per_s2 * S^2 + per_r2 * r^2`; it is never above `worst * S`."""

    per_s2: float
    per_r2: float
    worst: float
    #: the probabilistic bound of Higham and Mary, in S
    probable: float

    def __add__(self, other: SumError) -> SumError:
        """Both errors at once: they are independent of each other."""
        return SumError(
            self.per_s2 + other.per_s2, self.per_r2 + other.per_r2, self.worst + other.worst, self.probable + other.probable
        )  # fmt: skip


def gamma(n: float, u: float) -> float:
    """The worst that n roundings can do to a sum, over S: n u / (1 - n u); infinite where that bounds nothing."""
    return n * u / (1 - n * u) if n * u < 1 else math.inf


def stagnates(k: float, kept: Accumulator) -> bool:
    """Whether terms of one sign become too small beside their own sum: they are then lost, and the sum stands still."""
    length = min(k, kept.promoted or k)
    return not kept.format.exact and length / kept.group * kept.u > STANDSTILL


def sum_error(k: float, kappa: float, kept: Accumulator, parts: int = 1) -> SumError:
    """The error of a sum of k terms in random order, kept as `kept` says, each of `parts` equal parts in a sum of its own.

    Adding up the parts is not counted; `partial_sums` tells what that costs.
    """
    if kept.format.exact or k < 1:
        return SumError(0.0, 0.0, 0.0, 0.0)
    if kept.promoted is None or kept.promoted * parts >= k:
        return _walks(k, kappa, kept, parts)
    outer = _walks(k, kappa, Accumulator("float32", FORMATS["float32"], kept.promoted), parts)
    return _walks(k, kappa, kept, math.ceil(k / kept.promoted)) + outer


def partial_sums(k: float, kappa: float, n: int, into: Format, rounded: bool) -> SumError:
    """The error of adding n partial sums of a sum of k terms into a number of format `into`, in random order.

    `rounded`: each partial sum is rounded to that format first.
    """
    if into.exact or n < 1:
        return SumError(0.0, 0.0, 0.0, 0.0)
    added = _walks(k, kappa, Accumulator(into.name, into, max(1, math.ceil(k / n))), parts=1)
    if not rounded:
        return added
    # E of the sum of squares of the partial sums: (kappa S^2 - r^2) / K * (1 - 1 / n) + r^2 / n
    square, others = (SPREAD * into.u) ** 2, (1 - 1 / n) / k
    return added + SumError(square * kappa * others, square * max(0.0, 1 / n - others), into.u, into.u)


def _walks(k: float, kappa: float, kept: Accumulator, parts: int) -> SumError:
    """The sum in `parts` walks of equal length, each of which starts from zero; adding them up is not counted."""
    n = max(1, math.ceil(k / parts / kept.group))
    u = kept.u
    # sum of E s_j^2 over the walk, and E (sum of s_j)^2: what is proportional to a step's variance, and to the square of the end
    steps, ends = (n * n - 1) / 6, (n + 1) * (2 * n + 1) / (6 * n)
    drift_steps, drift_end = n * (n * n - 1) / 12, (n + 1) ** 2 / 4
    # of all terms: a step has the variance (kappa S^2 - r^2) / K^2 * K / (parts n); the squares of the ends of all walks add up to
    # (kappa S^2 - r^2) / K * (1 - 1 / parts) + r^2 / parts, the ends themselves to r
    variance = 1 / (k * parts * n)
    random = (parts * steps * variance + ends * (1 - 1 / parts) / k, ends / parts)
    drift = (parts * drift_steps * variance, drift_end) if kept.truncates else (0.0, 0.0)
    about_mean, of_end = (u * u * (SPREAD**2 * a + CUT**2 * b) for a, b in zip(random, drift, strict=True))
    each = 2 * u if kept.truncates else u
    bound = gamma(n, each)
    return SumError(kappa * about_mean, max(0.0, of_end - about_mean), bound, min(bound, LAMBDA * math.sqrt(n) * each))
