"""Run a user's script under observation: `python boot.py SPEC2.json` (docs/architecture.md).

The script sees what it would see under `python kernel.py` (or `python -m module`): `sys.argv`, `sys.path`,
`__main__`, `__file__`, the working directory. This file is run twice: once as `__main__`, where it only loads its
directory as the package `_triage_harness`, and once inside that package, where the work is done.
"""

from __future__ import annotations

import sys

if __name__ == "__main__" and not getattr(sys.flags, "safe_path", False):
    sys.path.pop(0)  # this directory: its file names must not shadow anything

import builtins
import contextlib
import faulthandler
import importlib.machinery
import importlib.util
import json
import linecache
import os
import platform
import runpy
import signal
import threading
import types
from typing import Any

PACKAGE = "_triage_harness"
SAFE_PATH = getattr(sys.flags, "safe_path", False)  # since Python 3.11


def load_package(directory: str) -> types.ModuleType:
    """Make the files of `directory` importable as `_triage_harness.*`, without touching `sys.path`."""
    package = types.ModuleType(PACKAGE)
    package.__path__ = [directory]
    package.__spec__ = importlib.machinery.ModuleSpec(PACKAGE, None, is_package=True)
    package.__spec__.submodule_search_locations = [directory]
    sys.modules[PACKAGE] = package
    return importlib.import_module(f"{PACKAGE}.boot")


def main() -> None:
    with open(sys.argv[1], encoding="utf-8") as file:
        spec = json.load(file)
    load_package(os.path.dirname(os.path.abspath(__file__))).run(spec)


def run(spec: dict[str, Any]) -> None:
    """Observe the script of `spec` to its end; leaves by `SystemExit` with the status the script would have had."""
    from . import events, target

    if spec.get("cwd"):
        os.chdir(spec["cwd"])
    context = events.Context(spec)
    _write_stacks_on_signal(spec["dir"])
    context.emit(
        "hello",
        executable=sys.executable,
        argv=spec.get("argv", []),
        cwd=os.getcwd(),
        python=platform.python_version(),
        platform=sys.platform,
        environment=events.environment(),
    )
    target.prepare(context)
    Observer(context).install()
    if spec.get("seed") is not None:
        from . import seeds

        seeds.begin(spec["seed"])
    _watch_threads(context)
    _watch_warnings(context)
    if spec.get("trace"):
        from . import lines

        lines.trace(spec["script"], os.path.join(spec["dir"], "executed"))
    Script(context).run()


class Observer:
    """Attaches the capture and the virtual device to torch and tilelang once the script has imported them."""

    WATCHED = ("torch", "tilelang", "tvm_ffi")

    def __init__(self, context: Any) -> None:
        from . import events

        self.context = context
        self.environment = events.environment()
        self._loading = 0

    def install(self) -> None:
        from . import hooks

        hooks.AfterImport(self.WATCHED, self._before, self._after, self._done).install()
        hooks.AfterImport(["numpy.testing"], lambda module: None, lambda module, _: self._watch_numpy()).install()

    def _before(self, module: types.ModuleType) -> None:
        from . import events, target

        name = module.__name__
        self.context.files.exclude(name)  # now, too: an import that fails has frames in the package
        before, now = self.environment, events.environment()
        changed = {k: now.get(k) for k in sorted(now.keys() | before.keys()) if now.get(k) != before.get(k)}
        if changed and not self._loading:  # what changes while a package loads, the package changed
            self.context.emit("env", set=changed)
        if name == "tilelang":
            target.pin(self.context)
        self.environment = events.environment()
        self._loading += 1

    def _done(self) -> None:
        from . import events

        self._loading -= 1
        self.environment = events.environment()

    def _after(self, module: types.ModuleType, seconds: float) -> None:
        name = module.__name__
        self.context.files.exclude(name)
        self.context.emit(
            "module",
            name=name,
            version=str(getattr(module, "__version__", "") or "") or None,
            file=getattr(module, "__file__", None),
            seconds=round(seconds, 4),
        )
        # before the virtual device, which answers comparisons of made-up values
        with self.context.guarded(f"watch the comparisons of {name}"):
            self._watch_comparisons(name)
        if self.context.mode == "virtual":
            self._virtual(name, module)
        if name == "torch" and self.context.twin and self.context.twin.get("seed"):
            from . import seeds

            with self.context.guarded("move the seeds of the script"):
                seeds.move(module, int(self.context.twin["seed"]))
        if name == "tilelang":
            from . import capture

            with self.context.guarded("attach the capture to tilelang"):
                capture.install(module, self.context)
        if self.context.spec.get("shadow") is not None:
            with self.context.guarded(f"follow the arithmetic of {name}"):
                self._follow(name)
        if name == "tilelang" and self.context.spec.get("references"):
            from . import references

            with self.context.guarded("compare launches with references"):
                kernel = sys.modules["tilelang.jit.kernel"].JITKernel
                references.References(self.context).watch_launches(kernel)
        if name == "tilelang" and "stages" in self.context.settings and self.context.twin is not None:
            from . import stages

            with self.context.guarded("compare tiles with the stages of a reference"):
                stages.Stages(self.context).watch_launches(sys.modules["tilelang.jit.kernel"].JITKernel)
        if name == "tilelang" and "recorded" in self.context.settings:
            from . import recorded

            with self.context.guarded("put aside what launches write"):
                recorded.Recorded(self.context).watch_launches(sys.modules["tilelang.jit.kernel"].JITKernel)

    def _watch_comparisons(self, name: str) -> None:
        from . import comparisons

        if name == "torch":
            self.context.comparisons = comparisons.Comparisons(self.context)
            self._watch_numpy()
        if name in ("torch", "tilelang") and self.context.comparisons is not None:
            self.context.comparisons.watch_package(name)

    def _follow(self, name: str) -> None:
        """From the import of torch on, compute what the script computes in float64, too."""
        if name == "torch":
            from . import shadow

            self.context.shadow = shadow.Shadow(self.context)
            self.context.shadow.watch_threads()
            self.context.shadow.watch_autocast()
            self.context.shadow.__enter__()  # to the end of the process
        elif name == "tilelang" and self.context.shadow is not None:
            self.context.shadow.watch_launches(sys.modules["tilelang.jit.kernel"].JITKernel)

    def _watch_numpy(self) -> None:
        if self.context.comparisons is not None:
            with self.context.guarded("watch the comparisons of numpy"):
                self.context.comparisons.watch_package("numpy")

    def _virtual(self, name: str, module: types.ModuleType) -> None:
        install = {"torch": "install_torch", "tilelang": "install_tilelang"}.get(name)
        virtual = virtual_device()
        if install is not None and hasattr(virtual, install):
            with self.context.guarded(f"attach the virtual device to {name}", needed=True):
                getattr(virtual, install)(module, self.context)


def virtual_device() -> types.ModuleType | None:
    """The package of the virtual device."""
    if importlib.util.find_spec(f"{PACKAGE}.virtual") is None:
        return None
    return importlib.import_module(f"{PACKAGE}.virtual")


class Script:
    """Runs the script as `__main__` and reports how it ended."""

    def __init__(self, context: Any) -> None:
        self.context = context
        self.spec = context.spec

    def run(self) -> None:
        module = types.ModuleType("__main__")
        module.__dict__["__builtins__"] = builtins
        sys.modules["__main__"] = module
        self.context.namespace = module.__dict__
        try:
            with contextlib.ExitStack() as device:
                self._enter(device)
                try:
                    self._execute(module)
                    self._call(module)
                except BaseException as error:
                    self._screened(error)
                    raise
                else:
                    self._screened(None)
                finally:
                    self._look_around(module)
        except SystemExit as error:
            self._exited(error)
            raise
        except BaseException as error:  # noqa: BLE001 - whatever ends the script is to be reported
            self._raised(error)
        self.context.emit("bye", how="returned", code=0, lost=self.context.log.lost)

    def _enter(self, device: contextlib.ExitStack) -> None:
        """Enter the virtual device; if that fails, the script runs without it and the events say so."""
        virtual = virtual_device() if self.context.mode == "virtual" else None
        if hasattr(virtual, "around_script"):
            with self.context.guarded("enter the virtual device", needed=True):
                device.enter_context(virtual.around_script(self.context))

    def _execute(self, module: types.ModuleType) -> None:
        argv = list(self.spec.get("argv", []))
        if self.spec.get("module"):
            sys.argv = ["-m", *argv]
            if not SAFE_PATH:
                sys.path.insert(0, os.getcwd())
            runpy._run_module_as_main(self.spec["module"], alter_argv=True)  # what `python -m` itself calls
            return
        path = self.spec["script"]
        sys.argv = [path, *argv]
        if not SAFE_PATH:
            sys.path.insert(0, os.path.dirname(os.path.realpath(path)))
        full = os.path.abspath(path)
        loader = importlib.machinery.SourceFileLoader("__main__", full)
        text = _read(full)
        if self.spec.get("text"):  # a changed copy that is to pass for the script
            text = _read(self.spec["text"])
            loader = Substitute(full, text)
        if self.spec.get("others"):
            substitute_modules({path: _read(changed) for path, changed in self.spec["others"].items()})
        module.__dict__.update(__file__=full, __loader__=loader, __cached__=None, __annotations__={})
        code = compile(text, full, "exec", dont_inherit=True)
        exec(code, module.__dict__)

    def _call(self, module: types.ModuleType) -> None:
        """Evaluate `spec["call"]` where the script left off, for files that only define kernels."""
        if self.spec.get("call"):
            eval(compile(self.spec["call"], "<--call>", "eval"), module.__dict__)

    def _screened(self, error: BaseException | None) -> None:
        """Tell a run that looks at changes that the script came to its end."""
        well = error is None or (isinstance(error, SystemExit) and not error.code)
        if well and self.context.comparisons is not None:
            self.context.comparisons.of_success()
        if self.context.screening is not None:
            self.context.screening.ended(error)
            self.context.screening.close()

    def _look_around(self, module: types.ModuleType) -> None:
        if self.context.capture is not None:
            with self.context.guarded("look at what the script defined"):
                self.context.capture.look_around(module.__dict__)

    def _exited(self, error: SystemExit) -> None:
        code = error.code
        status = code if isinstance(code, int) else 0 if code is None else 1
        if status:
            self._report(error)
        self.context.emit("bye", how="exited", code=status, lost=self.context.log.lost)

    def _raised(self, error: BaseException) -> None:
        """Print the error as the interpreter would, without the frames of the harness, and leave with status 1."""
        from . import errors

        self._report(error)
        errors.hide_harness(error)
        self.context.emit("bye", how="raised", code=1, lost=self.context.log.lost)
        if isinstance(error, KeyboardInterrupt):
            raise error
        sys.excepthook(type(error), error, error.__traceback__)
        raise SystemExit(1)

    def _report(self, error: BaseException) -> None:
        """Write the event of the error that ends the script, with the failed comparison that it rests on."""
        comparisons = self.context.comparisons
        failed = comparisons.of_error(error) if comparisons is not None else None
        rests: dict[str, Any] = {} if failed is None else {"comparison": failed}
        if failed is None and comparisons is not None and comparisons.regardless(error):
            rests["regardless"] = True
        if failed is None and comparisons is not None and comparisons.on_made_up(error):
            rests["on_made_up"] = True
        self.context.report_error(error, None, None, handled=False, **rests)


class Substitute(importlib.machinery.SourceFileLoader):
    """Loads `__main__` from another text than its file holds; whoever asks for its source lines gets that text."""

    def __init__(self, path: str, text: bytes) -> None:
        super().__init__("__main__", path)
        self.text = text
        _remember_lines(path, text)

    def get_data(self, path: str) -> bytes:
        return self.text if path == self.path else super().get_data(path)


def substitute_modules(texts: dict[str, bytes]) -> None:
    """From now on, modules at these paths are imported from other texts than their files hold, and from no bytecode."""
    original = importlib.machinery.SourceFileLoader.get_code

    def get_code(self: Any, name: str) -> Any:
        path = os.path.abspath(self.get_filename(name))
        text = texts.get(path)
        if text is None:
            return original(self, name)
        _remember_lines(path, text)
        return self.source_to_code(text, path)

    importlib.machinery.SourceFileLoader.get_code = get_code  # type: ignore[method-assign]


def _remember_lines(path: str, text: bytes) -> None:
    lines = importlib.util.decode_source(text).splitlines(keepends=True) if _decodes(text) else []
    linecache.cache[path] = (len(text), None, lines, path)  # without a time it is never checked against the file


def _decodes(text: bytes) -> bool:
    try:
        importlib.util.decode_source(text)
    except (UnicodeDecodeError, SyntaxError):
        return False
    return True


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _write_stacks_on_signal(directory: str) -> None:
    """SIGUSR1 (sent by the keeper at the deadline) and crashes write every thread's stack to `stacks.txt`."""
    file = open(os.path.join(directory, "stacks.txt"), "w", encoding="utf-8")  # noqa: SIM115 - stays open for the signal
    faulthandler.enable(file=file, all_threads=True)
    if hasattr(signal, "SIGUSR1"):
        faulthandler.register(signal.SIGUSR1, file=file, all_threads=True, chain=False)


def _watch_threads(context: Any) -> None:
    """Report exceptions that end a thread; the interpreter only prints them."""
    original = threading.excepthook

    def hook(args: Any) -> None:
        if args.exc_value is not None and not isinstance(args.exc_value, SystemExit):
            context.report_error(args.exc_value, None, None, handled=True)
        original(args)

    threading.excepthook = hook


def _watch_warnings(context: Any) -> None:
    """Report what `warnings.warn` shows; the warning itself takes its usual way."""
    import warnings

    original = warnings.showwarning

    def show(
        message: Any, category: Any, filename: str, lineno: int, file: Any = None, line: str | None = None
    ) -> None:
        at = {"file": os.path.abspath(filename), "line": lineno} if context.is_user(filename) else context.user_frame()
        context.warn(f"{category.__name__}: {message}", "python", at)
        original(message, category, filename, lineno, file, line)

    warnings.showwarning = show


if __name__ == "__main__":
    main()
