"""See every kernel that is compiled: its PrimFunc, what became of each phase, its sources, its errors.

tilelang compiles through `tilelang.jit.cached`; `tilelang.lower` and `JITKernel` meet it in
`lower_to_host_device_ir`. Both are wrapped where they are looked up, never changed.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import shutil
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator
from typing import Any

from . import layouts, lowered, outputs, places, record, screening, segments, spans, target, tir

LINE_DIRECTIVES = "tl.emit_line_directives"
#: launches of one kernel that are told
LAUNCH_LIMIT = 64


def install(tilelang: types.ModuleType, context: Any) -> None:
    """Attach to an imported tilelang. Raises, with nothing attached, if it has not all of the functions looked for."""
    jit, engine = sys.modules["tilelang.jit"], sys.modules["tilelang.engine.lower"]
    phases = [
        (getattr(engine, name), phase)  # all of them before anything is replaced: half a capture would mislead
        for name, phase in (
            ("lower_to_host_device_ir", "lower"),
            ("device_codegen", "codegen"),
            ("device_codegen_without_compile", "codegen"),
        )
    ]
    capture = Capture(context)
    context.capture = capture
    replace_everywhere(jit.cached, functools.wraps(jit.cached)(capture.cached(jit.cached)))
    for original, phase in phases:
        replace_everywhere(original, functools.wraps(original)(capture.phase(original, phase)))
    # before 0.1.14 a compile outside of `cached` has no context to be told by
    if hasattr(engine, "lower_with_context"):
        for name in ("lower_to_host_device_ir", "lower_with_context"):
            original = getattr(engine, name)
            replace_everywhere(original, functools.wraps(original)(capture.session(original)))
    nvcc = sys.modules.get("tilelang.contrib.nvcc")
    if nvcc is not None:
        nvcc.compile_cuda = functools.wraps(nvcc.compile_cuda)(capture.device(nvcc.compile_cuda))
    libraries = sys.modules.get("tilelang.jit.adapter.libgen")
    if libraries is not None:
        generator = libraries.LibraryGenerator
        generator.compile_lib = functools.wraps(generator.compile_lib)(capture.library(generator.compile_lib))
    builder = sys.modules["tilelang.language.eager.builder"].Builder
    builder.prim_func = functools.wraps(builder.prim_func)(capture.building(builder.prim_func))
    spans.name_user_lines(builder, context)
    if context.twin is not None and "screen" in context.twin:
        context.screening = screening.Screening(context, context.twin["screen"])
        context.screening.names.watch(builder, context.screening.script)
    jit.JITImpl.get_tir = functools.wraps(jit.JITImpl.get_tir)(capture.asked(jit.JITImpl.get_tir))
    if context.mode == "virtual":
        _pin_detection(context)
    kernel_class = sys.modules["tilelang.jit.kernel"].JITKernel
    kernel_class.__call__ = functools.wraps(kernel_class.__call__)(capture.launch(kernel_class.__call__))


@functools.cache
def has_line_directives() -> bool:
    """Whether this compiler can write line directives; one that cannot refuses the pass config, and with it every kernel."""
    from tilelang import tvm

    return LINE_DIRECTIVES in tvm.ir.transform.PassContext.list_configs()


def replace_everywhere(old: Any, new: Any) -> int:
    """Put `new` for `old` in every module of tilelang that holds it under some name; returns how many did."""
    count = 0
    for name, module in list(sys.modules.items()):
        if module is not None and name.partition(".")[0] == "tilelang":
            for key, value in list(vars(module).items()):
                if value is old:
                    setattr(module, key, new)
                    count += 1
    return count


def _pin_detection(context: Any) -> None:
    """Where tilelang asks the GPU for its architecture ("auto", "cuda"), the virtual device answers."""
    cuda = sys.modules.get("tilelang.cuda.target")
    if cuda is not None and hasattr(cuda, "_detect_torch_cuda_arch"):
        cuda._detect_torch_cuda_arch = lambda: context.arch


#: what tilelang looks for as the host compiler of nvcc
HOST_COMPILERS = ("g++", "clang++", "c++")


class Kernel:
    """One compile: its identity in the events, and the phase it is in."""

    def __init__(self, id: str, func: Any) -> None:
        self.id = id
        self.func = func
        self.phase = "lower"
        self.source: str | None = None
        #: the copies of its tiles that it makes, if it was changed to make them
        self.segments: segments.Segments | None = None


class Capture:
    def __init__(self, context: Any) -> None:
        self.context = context
        self._numbers = itertools.count(1)
        self._launches = itertools.count(1)
        self._local = threading.local()
        #: PrimFuncs that were compiled, kept alive so that identity stays meaningful
        self.seen: list[Any] = []
        #: what launches wrote
        self.outputs = outputs.Outputs(keep=context.twin is not None)
        #: `id`s of `@tilelang.jit` functions that were asked for a PrimFunc
        self.used: set[int] = set()

    @property
    def current(self) -> Kernel | None:
        """The kernel this thread is compiling."""
        return getattr(self._local, "kernel", None)

    # -- wrappers -------------------------------------------------------------------------------------

    def cached(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def cached(func: Any = None, out_idx: Any = None, *args: Any, **options: Any) -> Any:
            requested = options.get("target")
            if self.context.mode == "virtual":
                options = self._virtual_options(options)
            kernel = self.announce(func, out_idx, requested, options)
            if self.context.settings.get("kernel") == kernel.id:
                func, out_idx, options = self._as_asked(kernel, func, out_idx, options)
            if self.context.twin is not None and target.is_cuda(options.get("target", self.context.target)):
                return self._hand_out(None, func, out_idx, kernel)  # the twin reads the PrimFunc as it was written
            with self._compiling(kernel):
                real = original(func, out_idx, *args, **options)
            return self._hand_out(real, func, out_idx, kernel)

        return cached

    def _as_asked(
        self, kernel: Kernel, func: Any, out_idx: Any, options: dict[str, Any]
    ) -> tuple[Any, Any, dict[str, Any]]:
        """The kernel under the switches that an experiment sets, and with copies of its tiles if that asks for them."""
        asked = self.context.settings
        func, options = _changed(func, options, asked)
        if "segments" in asked:
            out_idx = [
                index % len(func.params) for index in _indices(out_idx)
            ] or None  # from the end no more: more follow
            kernel.segments = segments.instrument(func, self.context.is_user, bool(asked["segments"]))
            func = kernel.segments.func
        return func, out_idx, options

    def session(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Around a compile that did not come through `cached` (`tilelang.lower`, `lower_to_host_device_ir`)."""

        def compile(subject: Any, backend: Any, *args: Any, **options: Any) -> Any:
            if self.current is not None:
                return original(subject, backend, *args, **options)
            kernel = self.announce(_prim_func(subject), None, None, {"target": getattr(backend, "target", None)})
            with self._compiling(kernel):
                return original(subject, backend, *args, **options)

        return compile

    def phase(self, original: Callable[..., Any], phase: str) -> Callable[..., Any]:
        def run(*args: Any, **options: Any) -> Any:
            if self.current is None:
                return original(*args, **options)
            backend = next((arg for arg in args if hasattr(arg, "target")), None)
            return self._timed(
                phase, lambda: original(*args, **options), target.plain(getattr(backend, "target", None))
            )

        return run

    def device(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def compile_cuda(code: Any, *args: Any, **options: Any) -> Any:
            kernel = self.current
            if kernel is None:
                return original(code, *args, **options)
            with self.context.guarded("keep the generated source", kernel.id):
                kernel.source = self.context.blob(str(code))
            skipped = self._why_no_device_compile()
            if skipped is not None:
                self.context.emit("compile.begin", kernel=kernel.id, phase="device")
                self.context.emit(
                    "compile.end",
                    kernel=kernel.id,
                    phase="device",
                    ok=None,
                    seconds=0.0,
                    source=kernel.source,
                    skipped=skipped,
                )
                return bytearray(b"not compiled")  # loaded only by a launch, which the virtual device replaces
            return self._timed("device", lambda: original(code, *args, **options))

        return compile_cuda

    def library(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Around the C++ compiler that builds a kernel as a shared library (backend cython)."""

        def compile_lib(generator: Any, *args: Any, **options: Any) -> Any:
            if self.current is None:
                return original(generator, *args, **options)
            return self._timed("device", lambda: original(generator, *args, **options))

        return compile_lib

    def launch(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Around the calls of kernels; only the first of each are told, a benchmark makes thousands."""

        def __call__(kernel: Any, *args: Any, **options: Any) -> Any:
            state = kernel.__dict__
            count = state["_triage_launches"] = state.get("_triage_launches", 0) + 1
            if count > LAUNCH_LIMIT:
                return original(kernel, *args, **options)
            here = target.is_cuda(kernel.target) or self.context.twin is not None
            virtual = (
                self.context.mode == "virtual" and here
            )  # that device tells of them itself, and of what they wrote
            try:
                if virtual:
                    self.context.computed = None
                    return original(kernel, *args, **options)
                with self._launching(state, args) as launch:
                    result = self._run(original, kernel, args, options)
                with self.context.guarded("remember what a launch wrote", state.get("_triage_id")):
                    self.note(launch, state, args, result)
                return result
            except Exception as error:
                self.context.report_error(error, "call", state.get("_triage_id"), handled=True)
                raise

        return __call__

    def _run(self, original: Callable[..., Any], kernel: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """A launch on a device; the first one of a kernel that copies its tiles is held against the twin."""
        state = kernel.__dict__
        made = state.get("_triage_segments")
        if made is None:
            return original(kernel, *args, **options)
        one = segments.Launch(made, state["_triage_outputs"], args)
        result = original(kernel, *args, *one.copies, **options)
        if state["_triage_launches"] == 1:
            with self.context.guarded("compare what a launch wrote with the twin", state["_triage_id"]):
                for told in one.compare(result):
                    self.context.emit("segment", kernel=state["_triage_id"], **told)
        return result

    @contextlib.contextmanager
    def _launching(self, kernel: dict[str, Any], args: tuple[Any, ...]) -> Iterator[str]:
        told = {"launch": f"r{next(self._launches)}", "kernel": kernel.get("_triage_id"), "virtual": False}
        names = [p["name"] for p in kernel.get("_triage_inputs", ())]
        described = [_argument(n, a) for n, a in itertools.zip_longest(names[: len(args)], args)]
        self.context.emit("launch.begin", **told, args=described, at=self.context.user_frame())
        ok = False
        try:
            yield told["launch"]
            ok = True
        finally:
            self.context.emit("launch.end", **told, ok=ok)

    def note(self, launch: str, kernel: dict[str, Any], args: tuple[Any, ...], result: Any) -> None:
        """Remember what a launch of a kernel, given by what was noted of it, has written."""
        if "_triage_name" not in kernel:
            kernel["_triage_name"] = places.qualified_name(kernel["_triage_func"]) or name_of(kernel["_triage_func"])
        written = record.stored(kernel["_triage_func"])
        inputs = [(p["name"], _values(value)) for p, value in zip(kernel["_triage_inputs"], args, strict=False)]
        stored = [(name, value) for name, value in inputs if name in written]
        stored += zip(kernel["_triage_returned"], map(_values, outputs.returned(result)), strict=False)
        read = [value for name, value in inputs if name not in written]
        self.outputs.note(launch, kernel["_triage_id"], kernel["_triage_name"], stored, read)

    def asked(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Around `JITImpl.get_tir`: that function of the script was used, whatever comes of it."""

        def get_tir(jit: Any, *args: Any, **options: Any) -> Any:
            self.used.add(id(jit))
            return original(jit, *args, **options)

        return get_tir

    def building(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Around the building of one PrimFunc from its Python function; the script may catch its errors."""

        @contextlib.contextmanager
        def prim_func(builder: Any, name: str) -> Iterator[Any]:
            with original(builder, name) as value:
                try:
                    yield value
                except Exception as error:
                    self.context.report_error(error, "build", None, handled=True)
                    raise

        return prim_func

    # -- one compile ----------------------------------------------------------------------------------

    def announce(
        self, func: Any, out_idx: Any, requested: Any, options: dict[str, Any], compiled: bool = True
    ) -> Kernel:
        """Write the `kernel` event; a failure to describe the kernel leaves fields out, never stops the script."""
        kernel = Kernel(f"k{next(self._numbers)}", func)
        self.seen.append(func)
        fields: dict[str, Any] = {"primfunc": None, "record": None, "defined_at": None}
        with self.context.guarded("serialize the PrimFunc", kernel.id):
            fields["primfunc"] = {"blob": self.context.blob(sys.modules["tvm"].ir.save_json(func))}
        with self.context.guarded("find the definition", kernel.id):
            fields["defined_at"] = places.definition(func)
        resolved = options.get("target")
        if resolved is None:
            resolved = os.environ.get(target.VARIABLE)
        if requested is None and compiled:
            requested = self.context.requested_default
        plain = {
            "target": target.plain(resolved),
            "pass_configs": {str(getattr(k, "value", k)): v for k, v in (options.get("pass_configs") or {}).items()},
            "out_idx": _indices(out_idx),
        }
        with self.context.guarded("record the kernel", kernel.id):
            fields["record"] = {"blob": self.context.blob(record.dump(func, **plain))}
        self.context.emit(
            "kernel",
            id=kernel.id,
            name=name_of(func),
            requested_target=target.plain(requested),
            backend=options.get("execution_backend"),
            called_at=self.context.user_frame(),
            compiled=compiled,
            **plain,
            **fields,
        )
        return kernel

    @contextlib.contextmanager
    def _compiling(self, kernel: Kernel) -> Iterator[None]:
        outer, self._local.kernel = self.current, kernel
        try:
            yield
        except Exception as error:
            self.context.report_error(error, kernel.phase, kernel.id, handled=True)
            raise
        finally:
            self._local.kernel = outer

    def _timed(self, phase: str, work: Callable[[], Any], resolved: Any = None) -> Any:
        """`resolved` is the target that the compile ended up with, where it is known: `auto` says nothing."""
        kernel = self.current
        assert kernel is not None
        outer, kernel.phase = kernel.phase, phase
        self.context.emit("compile.begin", kernel=kernel.id, phase=phase, target=resolved)
        start = time.monotonic()
        ended: dict[str, Any] = {"ok": False}
        try:
            result = work()
            ended["ok"] = True
            with self.context.guarded(f"describe the result of {phase}", kernel.id):
                ended |= self._result(phase, result, kernel)
        finally:
            seconds = round(time.monotonic() - start, 4)
            ended = {"source": kernel.source, "skipped": None} | ended
            self.context.emit("compile.end", kernel=kernel.id, phase=phase, seconds=seconds, **ended)
        kernel.phase = outer if phase == "device" else "load" if phase == "codegen" else phase
        return result

    def _result(self, phase: str, result: Any, kernel: Kernel) -> dict[str, Any]:
        if phase == "lower":
            return lowered.describe(result[1])
        if phase == "codegen" and kernel.source is None:
            kernel.source = self.context.blob(str(result.inspect_source()))
            return {"source": kernel.source}
        return {}

    # -- after the script ---------------------------------------------------------------------------

    def look_around(self, namespace: dict[str, Any]) -> None:
        """Capture what the script defined and left alone: PrimFuncs, and names of `@tilelang.jit` functions."""
        prim_func = sys.modules["tvm"].tirx.PrimFunc
        jit = sys.modules["tilelang.jit"].JITImpl
        for name, value in list(namespace.items()):
            with self.context.guarded(f"look at {name} of the script"):
                if isinstance(value, prim_func) and not any(value is func for func in self.seen):
                    self.announce(value, None, None, {}, compiled=False)
                elif isinstance(value, jit) and id(value) not in self.used:
                    self.context.emit(
                        "uncalled", name=name, signature=str(value.signature), at=places.of_code(value.func)
                    )

    # -- the virtual device ---------------------------------------------------------------------------

    def _virtual_options(self, options: dict[str, Any]) -> dict[str, Any]:
        """Options under which the kernel compiles for the pinned device, with line directives in its source."""
        options = dict(options)
        asked = options.get("target")
        wanted = os.environ.get(target.VARIABLE) if asked is None else asked
        options["target"] = target.resolve(wanted, self.context)
        if options["target"] is None:
            del options["target"]
        if has_line_directives():
            options["pass_configs"] = {**(options.get("pass_configs") or {}), LINE_DIRECTIVES: True}
        if options.get("execution_backend") == "cython" and target.is_cuda(options.get("target")):
            options["execution_backend"] = "tvm_ffi"  # linking a CUDA library needs the driver
            self.context.virtual("execution_backend cython built as tvm_ffi")
        return options

    def _hand_out(self, real: Any, func: Any, out_idx: Any, kernel: Kernel) -> Any:
        from . import boot

        handed = real
        virtual = boot.virtual_device() if self.context.mode == "virtual" else None
        if hasattr(virtual, "wrap_kernel"):
            with self.context.guarded("wrap the kernel for the virtual device", kernel.id, needed=True):
                handed = virtual.wrap_kernel(real, func, out_idx, self.context, kernel.id)
        with self.context.guarded("mark the kernel", kernel.id):
            handed.__dict__["_triage_id"] = kernel.id
            handed.__dict__["_triage_inputs"] = record.inputs(func, _indices(out_idx))
            handed.__dict__["_triage_returned"] = record.returned(func, _indices(out_idx))
            handed.__dict__["_triage_func"] = func
            handed.__dict__["_triage_segments"] = kernel.segments
            handed.__dict__["_triage_outputs"] = _indices(out_idx)
        return handed

    def _why_no_device_compile(self) -> str | None:
        if self.context.mode != "virtual":
            return None
        if self.context.spec.get("compile") is False:
            return "not asked for"
        return missing_compiler(self.context.first_path)


def missing_compiler(first_path: str | None) -> str | None:
    """What of nvcc and its host compiler this machine lacks; None if both are there.

    `first_path` is PATH as it was before the script ran. Where the script took a compiler off its own PATH, or where the
    environment says where CUDA is and it is not there, that is a fault to be seen, not a lack of the machine.
    """
    if os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH"):
        return None
    nvcc = sys.modules["tilelang.contrib.nvcc"]
    try:
        found = shutil.which(nvcc.get_nvcc_compiler()) is not None
    except Exception:  # noqa: BLE001 - tilelang raises whatever it likes where it finds no CUDA at all
        found = False
    if not found:
        return None if shutil.which("nvcc", path=first_path) else "nvcc not found"
    if nvcc.get_cplus_compiler() or any(shutil.which(name, path=first_path) for name in HOST_COMPILERS):
        return None
    return "no C++ compiler for nvcc found"


def _values(value: Any) -> Any:
    """A tensor of a virtual device as the one that holds its values; anything else as it is."""
    return getattr(value, "payload", value)


def name_of(func: Any) -> str | None:
    """The kernel's global symbol."""
    attrs = getattr(func, "attrs", None)
    symbol = attrs.get("global_symbol") if attrs else None
    return str(symbol) if symbol is not None else None


def _argument(name: str | None, value: Any) -> dict[str, Any]:
    """An argument of a launch: shape, dtype, strides and device of a tensor, the value of a number."""
    if not hasattr(value, "shape") or not hasattr(value, "dtype"):
        return {
            "name": name,
            "value": value if isinstance(value, (int, float, bool, type(None))) else type(value).__name__,
        }
    strides = value.stride() if callable(getattr(value, "stride", None)) else None
    return {
        "name": name,
        "shape": [int(n) for n in value.shape],
        "dtype": str(value.dtype).removeprefix("torch."),
        "stride": None if strides is None else [int(n) for n in strides],
        "device": str(getattr(value, "device", None)),
    }


def _prim_func(subject: Any) -> Any:
    """The PrimFunc of a module with one function; anything else unchanged."""
    functions = list(getattr(subject, "functions", {}).values()) if hasattr(subject, "functions") else []
    return functions[0] if len(functions) == 1 else subject


def _indices(out_idx: Any) -> list[int]:
    if out_idx is None:
        return []
    return [int(i) for i in out_idx] if isinstance(out_idx, (list, tuple)) else [int(out_idx)]


def _changed(func: Any, options: dict[str, Any], settings: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """A kernel and the options of its compile under other switches: `configs` set, `without` taken away, `changes` of its IR."""
    given = {str(getattr(key, "value", key)): value for key, value in (options.get("pass_configs") or {}).items()}
    kept = {key: value for key, value in given.items() if key not in settings.get("without", ())}
    changes = settings.get("changes") or []
    if changes:
        tvm = sys.modules["tvm"]
        func = tir.apply(layouts.load(tir.edit_json(tvm.ir.save_json(func), changes)), changes)
    return func, {**options, "pass_configs": {**kept, **settings.get("configs", {})}}
