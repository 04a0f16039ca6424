"""Packages that are loaded already, hidden until the script imports them.

A fork of the template has torch and tilelang in memory. The script's own `import` is still what brings them: only then
do the hooks act, and variables that the script sets before it count, as in a process of its own.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import os
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import NoReturn

from . import hooks

#: package -> top-level packages that are loaded by it alone
PACKAGES = {
    "torch": ("torch", "torchgen", "functorch"),
    "tvm_ffi": ("tvm_ffi",),
    "tvm": ("tvm",),
    "tilelang": ("tilelang",),
}


#: variables that packages read while they load, or that decide how their libraries load
READ_ON_LOADING = (
    "TILELANG_",
    "TL_",
    "TVM_",
    "CUDA_",
    "ASCEND_",
    "OMP_",
    "TORCH",
    "PYTORCH",
    "MKL_",
    "KMP_",
    "LD_",
    "DMLC_",
)
ALSO_READ = ("PATH", "HOME")
#: of these, what tilelang asks for whenever it needs it, and what only a real GPU obeys
ASKED_LATER = (
    *("TILELANG_DEFAULT_TARGET", "TILELANG_DISABLE_CACHE", "TILELANG_AUTO_TUNING_DISABLE_CACHE"),
    *("TILELANG_CACHE_DIR", "TILELANG_TMP_DIR", "TILELANG_PRINT_ON_COMPILATION"),
    *("CUDA_VISIBLE_DEVICES", "CUDA_LAUNCH_BLOCKING", "CUDA_DEVICE_ORDER"),
)


def read_on_loading(name: str) -> bool:
    return name not in ASKED_LATER and (name in ALSO_READ or name.startswith(READ_ON_LOADING))


class Loaded:
    """What the template imported, and in which order. `load` imports it, `settle` ends that; `hide` is for a fork."""

    def __init__(self) -> None:
        #: package -> the other packages whose import it starts, in this order
        self.starts: dict[str, list[str]] = {name: [] for name in PACKAGES}
        self.modules: dict[str, dict[str, ModuleType]] = {}
        self._under_way: list[str] = []
        self._device: Callable[[], None] | None = None
        #: what `device` replaced: module, name, value before
        self._lent: list[tuple[ModuleType, str, object]] = []
        self._path: list[str] = []
        self._first: list[str] = []
        self._environment: dict[str, str] = {}
        #: variables that the import of tilelang set
        self._set: dict[str, str] = {}
        self._at_start: dict[str, str] = {}

    def load(self, device: Callable[[], None] | None = None) -> None:
        """Import tilelang, which imports the others. Raises what the import raises.

        `device` gives torch a device. tilelang looks for one while it loads, and is to find what it will find in a fork;
        afterwards torch has none again, as before the script's own import.
        """
        self._device = device
        self._path, self._environment = list(sys.path), dict(os.environ)
        watch = hooks.AfterImport(list(PACKAGES), self._begin, self._after, self._end)
        watch.install()
        try:
            importlib.import_module("tilelang")
        finally:
            sys.meta_path.remove(watch)
            for module, name, value in self._lent:
                setattr(module, name, value)
        before = self._environment
        self._set = {name: value for name, value in os.environ.items() if before.get(name) != value}
        added = len(sys.path) - len(self._path)
        self._first = sys.path[:added] if sys.path[added:] == self._path else []

    def _begin(self, module: ModuleType) -> None:
        if self._under_way:
            self.starts[self._under_way[-1]].append(module.__name__)
        self._under_way.append(module.__name__)

    def _after(self, module: ModuleType, seconds: float) -> None:
        if module.__name__ == "torch" and self._device is not None:
            loaded = [one for name, one in list(sys.modules.items()) if name.partition(".")[0] == "torch"]
            before = [(one, dict(vars(one))) for one in loaded if isinstance(one, ModuleType)]
            self._device()
            self._lent = [
                (one, name, value)
                for one, names in before
                for name, value in names.items()
                if vars(one).get(name) is not value
            ]

    def _end(self) -> None:
        self._under_way.pop()

    def settle(self) -> None:
        """Nothing more will be loaded: remember once, for all forks, which modules belong to which package."""
        everything = list(sys.modules.items())
        for package, roots in PACKAGES.items():
            self.modules[package] = {name: one for name, one in everything if name.partition(".")[0] in roots}

    def hide(self, give_up: Callable[[list[str]], NoReturn]) -> None:
        """Make it look as if nothing had been imported, and answer the imports of the script.

        `give_up` is called with the names of variables that the script set and a package would have read on loading.
        """
        self._give_up = give_up
        for modules in self.modules.values():
            for name in modules:
                sys.modules.pop(name, None)
        sys.path[:] = self._path
        for name in self._set:
            os.environ.pop(name, None)
            if name in self._environment:
                os.environ[name] = self._environment[name]
        self._at_start = dict(os.environ)
        sys.meta_path.insert(0, Finder(self))

    def restore(self, package: str) -> None:
        """The script imports a package: bring it back, those that it imports first."""
        now, before = dict(os.environ), self._at_start
        changed = sorted(name for name in now.keys() | before.keys() if now.get(name) != before.get(name))
        if any(map(read_on_loading, changed)):
            self._give_up([name for name in changed if read_on_loading(name)])
        if package == "tilelang":  # which finds its own tvm only so
            sys.path[:0] = [entry for entry in self._first if entry not in sys.path]
            for name, value in self._set.items():
                if os.environ.get(name) == self._environment.get(name):  # unless the script set it before
                    self._at_start[name] = os.environ[name] = value
        for other in self.starts[package]:
            importlib.import_module(other)
        sys.modules.update(self.modules[package])

    def shadows(self, folder: str) -> str | None:
        """A file of the folder whose name is that of a module in memory; a process of its own might load that file."""
        loaded = {name.partition(".")[0] for name in sys.modules} - set(PACKAGES) - set(sys.builtin_module_names)
        try:
            entries = sorted(os.listdir(folder))
        except OSError:
            return None
        for entry in entries:
            stem, suffix = os.path.splitext(entry)
            source = suffix == ".py" or os.path.isfile(os.path.join(folder, entry, "__init__.py"))
            file = getattr(sys.modules.get(stem), "__file__", None)
            if source and stem in loaded and file and not os.path.realpath(file).startswith(os.path.realpath(folder)):
                return entry
        return None


class Finder(importlib.abc.MetaPathFinder):
    """Finds the packages in memory, unless the script would find another file by that name."""

    def __init__(self, loaded: Loaded) -> None:
        self.loaded = loaded

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        module = self.loaded.modules.get(fullname, {}).get(fullname)
        if module is None or fullname in sys.modules:
            return None
        others = sys.meta_path[sys.meta_path.index(self) + 1 :]
        specs = (finder.find_spec(fullname, path, target) for finder in others if hasattr(finder, "find_spec"))
        found = next((spec for spec in specs if spec is not None), None)
        if found is None or found.origin != getattr(module.__spec__, "origin", None):
            return None
        own = Once(self.loaded, module)
        return importlib.machinery.ModuleSpec(fullname, own, origin=found.origin, is_package=True)


class Once(importlib.abc.Loader):
    """The loader of one import: hands out the module in memory as it is."""

    def __init__(self, loaded: Loaded, module: ModuleType) -> None:
        self.loaded = loaded
        self.module = module
        self.spec = module.__spec__

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return self.module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.spec
        self.loaded.restore(module.__name__)
