"""Autotuning without a device: the first configuration that compiles is the answer, and the report says so."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from . import session


def install() -> None:
    tuner = getattr(sys.modules.get("tilelang.autotuner.tuner"), "AutoTuner", None)
    if tuner is not None:
        tuner.run = _first_that_compiles(tuner.run)


def _first_that_compiles(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        configs = list(_configurations(self))
        if len(configs) < 2:
            return original(self, *args, **kwargs)
        session.virtual("autotuning: the first configuration that compiles")
        kwargs["enable_grouped_compile"] = False  # it compiles several in one module, past the launches made here
        failure: Exception | None = None
        for config in configs:
            self.configs = [config]
            try:
                return original(self, *args, **kwargs)
            except RuntimeError as error:  # the tuner drops a configuration that does not compile
                if not str(error).startswith("Auto-tuning failed"):
                    raise
                failure = error
            finally:
                self.configs = configs
        assert failure is not None
        raise failure

    return run


def _configurations(tuner: Any) -> Any:
    """The configuration space; where it is a function, it is called as the tuner calls it."""
    if not callable(tuner.configs):
        return tuner.configs
    positional, keyword = tuner._kernel_parameters
    return tuner.configs(*positional, **dict(keyword))
