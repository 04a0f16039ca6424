"""Other random inputs for an unchanged script: every seed that it sets is moved by a number."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from types import ModuleType
from typing import Any

#: seeds are taken modulo this: NumPy takes 32 bits
LIMIT = 1 << 32


def move(torch: ModuleType, by: int) -> None:
    """Seed all generators from `by`, and move what the script seeds them with from now on. Call once, after the import of torch."""
    import numpy

    for owner, name in (
        (torch, "manual_seed"),
        (numpy.random, "seed"),
        (random, "seed"),
        (torch.Generator, "manual_seed"),
    ):
        setattr(owner, name, _moved(getattr(owner, name), by, position=int(owner is torch.Generator)))
    numpy.random.default_rng = _moved(numpy.random.default_rng, by, 0)
    torch.manual_seed(0)
    numpy.random.seed(0)
    random.seed(0)


def _moved(original: Callable[..., Any], by: int, position: int) -> Callable[..., Any]:
    @functools.wraps(original)
    def seed(*args: Any, **kwargs: Any) -> Any:
        values = list(args)
        if len(values) > position and isinstance(values[position], int):
            values[position] = (values[position] + by) % LIMIT
        named = {key: (v + by) % LIMIT if key == "seed" and isinstance(v, int) else v for key, v in kwargs.items()}
        return original(*values, **named)

    return seed
