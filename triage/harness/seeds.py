"""The random inputs of an unchanged script: the same in every run, or others, by moving every seed that it sets."""

from __future__ import annotations

import contextlib
import functools
import random
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

#: seeds are taken modulo this: NumPy takes 32 bits
LIMIT = 1 << 32


def begin(number: int) -> None:
    """Have every generator start from `number`. A script that seeds one itself gets what it asked for."""
    from . import hooks

    random.seed(number)
    starts = {"torch": _start_torch, "numpy.random": _start_numpy}
    for name, start in starts.items():
        if name in sys.modules:
            start(sys.modules[name], number)
    hooks.AfterImport(
        list(starts), lambda module: None, lambda module, _: starts[module.__name__](module, number)
    ).install()


@contextlib.contextmanager
def kept(device: bool) -> Iterator[None]:
    """Random numbers that are drawn inside are not missing afterwards; `device`: a GPU has generators of its own."""
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy.random")
    own = random.getstate()
    of_torch = torch.get_rng_state() if torch is not None else None
    of_numpy = numpy.get_state() if numpy is not None else None
    of_device = torch.cuda.get_rng_state_all() if torch is not None and device else None
    try:
        yield
    finally:
        random.setstate(own)
        if torch is not None:
            torch.set_rng_state(of_torch)
        if numpy is not None:
            numpy.set_state(of_numpy)
        if torch is not None and of_device is not None:
            torch.cuda.set_rng_state_all(of_device)


def _start_torch(torch: ModuleType, number: int) -> None:
    torch.manual_seed(number)


def _start_numpy(module: ModuleType, number: int) -> None:
    module.seed(number)
    original = module.default_rng

    @functools.wraps(original)
    def default_rng(seed: Any = None) -> Any:
        return original(number if seed is None else seed)

    module.default_rng = default_rng  # type: ignore[attr-defined]


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
