"""Number formats: how precisely and how far each of them reaches.

`u`, the unit roundoff, is half the distance of 1 to the next number: rounding to nearest changes a normal number by at most
this part of it. Integers round nothing; what they cannot hold wraps around.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


class UnknownFormat(ValueError):
    """No number format is called that; the message lists those that are known."""


@dataclass(frozen=True)
class Format:
    """A type of numbers. `digits` are the bits of its significand, the hidden one too; None for integers, which are exact."""

    name: str
    digits: int | None
    #: the largest finite number
    largest: float
    #: the exponent of the smallest normal number
    least_exponent: int = 0

    @property
    def u(self) -> float:
        """The unit roundoff; 0 for integers."""
        return 0.0 if self.digits is None else 2.0**-self.digits

    @property
    def exact(self) -> bool:
        return self.digits is None

    @property
    def lowest(self) -> float:
        """The smallest number: zero of what has no sign."""
        if not self.exact:
            return -self.largest
        return 0.0 if self.name.startswith("u") or self.name == "bool" else -self.largest - 1

    @property
    def magnitude(self) -> float:
        """The largest |number|."""
        return max(self.largest, -self.lowest)

    @property
    def floor(self) -> float:
        """The largest error of rounding a number that is too small for a full significand; absolute."""
        return 0.0 if self.digits is None else self.u * 2.0**self.least_exponent


_INTEGERS = tuple(
    Format(f"{sign}int{bits}", None, 2.0 ** (bits if sign else bits - 1) - 1) for bits in (4, 8, 16, 32, 64) for sign in ("", "u")
)  # fmt: skip
FORMATS = {
    one.name: one
    for one in (
        Format("float64", 53, 1.7976931348623157e308, -1022),
        Format("float32", 24, 3.4028234663852886e38, -126),
        Format("tfloat32", 11, 3.4011621342146535e38, -126),
        Format("float16", 11, 65504.0, -14),
        Format("bfloat16", 8, 3.3895313892515355e38, -126),
        Format("float8_e4m3", 4, 448.0, -6),
        Format("float8_e5m2", 3, 57344.0, -14),
        Format("float4_e2m1", 2, 6.0, 0),
        Format("bool", None, 1.0),
        *_INTEGERS,
    )
}
_SHORT = {
    "fp64": "float64", "double": "float64", "fp32": "float32", "float": "float32", "tf32": "tfloat32",
    "tensorfloat32": "tfloat32", "fp16": "float16", "half": "float16", "bf16": "bfloat16", "e4m3": "float8_e4m3",
    "fp8": "float8_e4m3", "e5m2": "float8_e5m2", "fp4": "float4_e2m1", "e2m1": "float4_e2m1", "e4m3_float8": "float8_e4m3",
    "e5m2_float8": "float8_e5m2", "float_e4m3": "float8_e4m3", "float_e5m2": "float8_e5m2",
}  # fmt: skip


def format_of(name: str) -> Format:
    """The format of a dtype as torch, TileLang or people write it. Raises `UnknownFormat`.

    The variants `fn` and `fnuz` of the eight-bit formats round alike; where `fnuz` ends is not told apart, but for e4m3.
    """
    plain = name.strip().lower().removeprefix("torch.").removeprefix("t.")
    plain = re.sub(r"(?<=e\dm\d)(fnuz|fn)$", "", plain)
    plain = re.sub(r"^fp8_", "float8_", plain)
    found = FORMATS.get(_SHORT.get(plain, plain))
    if found is None:
        raise UnknownFormat(f"{name!r} is no number format that is known; known: {', '.join(FORMATS)}")
    if name.lower().endswith("e4m3fnuz"):
        return Format(found.name, found.digits, 240.0, -7)
    return found
