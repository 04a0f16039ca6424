"""Import hooks: act after the script's own import of a package has finished, and import nothing themselves."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
import time
from collections.abc import Callable, Sequence
from types import ModuleType


class AfterImport(importlib.abc.MetaPathFinder):
    """Calls `before(module)` when a watched package is about to be loaded, `after(module, seconds)` when it is, and
    `done()` at the end of either a load that succeeded or one that failed.

    The real finders find and the real loader loads; only `exec_module` of the one loader instance is wrapped while
    it runs, so that the module looks as it would without the hook.
    """

    def __init__(
        self,
        names: Sequence[str],
        before: Callable[[ModuleType], None],
        after: Callable[[ModuleType, float], None],
        done: Callable[[], None] = lambda: None,
    ) -> None:
        self.names = set(names)
        self.before = before
        self.after = after
        self.done = done

    def install(self) -> None:
        sys.meta_path.insert(0, self)

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in self.names:
            return None
        spec = self._find(fullname, path, target)
        if spec is None or spec.loader is None or not hasattr(spec.loader, "exec_module"):
            return spec
        loader, execute = spec.loader, spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            self.before(module)
            start = time.monotonic()
            try:
                execute(module)
            finally:
                vars(loader).pop("exec_module", None)
                self.done()
            self.after(module, time.monotonic() - start)

        try:
            loader.exec_module = exec_module  # type: ignore[method-assign]
        except AttributeError:  # a loader without instance attributes cannot be watched
            return spec
        return spec

    def _find(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None
    ) -> importlib.machinery.ModuleSpec | None:
        for finder in sys.meta_path[sys.meta_path.index(self) + 1 :]:
            if not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(fullname, path, target)
            if spec is not None:
                return spec
        return None
