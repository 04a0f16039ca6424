"""Benchmarks on the virtual device: the benchmarked function runs once, the time is made up and says so."""

from __future__ import annotations

import sys
from typing import Any

from . import session
from .patching import replace, replace_everywhere

#: the time that every virtual measurement gives, in milliseconds; it measures nothing
MILLISECONDS = 1.0


def made_up(function: str) -> float:
    """A time in milliseconds that nobody measured, recorded as such."""
    context = session.context()
    session.virtual(function)
    at = context.user_frame()
    if session.first_time("timing", function, at):
        context.emit("timing", function=function, values_ms=[MILLISECONDS], caliber="virtual", at=at)
    return MILLISECONDS


def install_tilelang(arch: str) -> None:
    """Replace `tilelang.profiler.do_bench` wherever it was copied to."""
    module = sys.modules.get("tilelang.profiler.bench")
    original = getattr(module, "do_bench", None)
    if original is not None:
        replace_everywhere("tilelang", "do_bench", original, do_bench)
        replace_everywhere("__main__", "do_bench", original, do_bench)


def do_bench(fn: Any = None, *args: Any, quantiles: Any = None, return_mode: Any = "mean", **kwargs: Any) -> Any:
    """`tilelang.profiler.do_bench` and `triton.testing.do_bench`: call `fn` once."""
    if callable(fn):
        fn()
    time = made_up("do_bench")
    if quantiles is not None and len(quantiles) > 1:
        return [time] * len(quantiles)
    return [time] if return_mode == "all" else time


def install_timer(benchmark: Any) -> None:
    """`torch.utils.benchmark.Timer`: one run, and a measurement that is made up."""
    timer = benchmark.Timer

    def measure(self: Any, number: int = 1, *args: Any, **kwargs: Any) -> Any:
        self._timer.timeit(1)
        time = made_up("torch.utils.benchmark.Timer") / 1000
        return benchmark.Measurement(number_per_run=1, raw_times=[time], task_spec=self._task_spec)

    for name in ("timeit", "blocked_autorange", "adaptive_autorange"):
        replace(timer, name, measure)
