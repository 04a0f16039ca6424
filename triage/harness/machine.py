"""Look at this machine from inside the user's interpreter: `python machine.py OUT.jsonl SPEC.json`.

Writes one JSON object a line to OUT, `{"begin": stage}` before and `{"stage", "data"}` after each stage, so that the
reader knows where it died if an import crashes or hangs. Nothing risky comes before what is safe: versions from
metadata, programs, the driver, and last the imports. Standard library only, and any Python from 3.8 on, because
an interpreter too old for tilelang is a thing to report.
"""

from __future__ import annotations

import sys

# this folder has modules with everyday names; none of them may stand in for one of the user's
sys.path[:1] = []

import ctypes  # noqa: E402
import faulthandler  # noqa: E402
import glob  # noqa: E402
import importlib.metadata as metadata  # noqa: E402
import importlib.util  # noqa: E402
import json  # noqa: E402
import os  # noqa: E402
import platform  # noqa: E402
import re  # noqa: E402
import shutil  # noqa: E402
import subprocess  # noqa: E402
import time  # noqa: E402
import traceback  # noqa: E402
from typing import Any, Callable  # noqa: E402, UP035 - Python 3.8

VERSION = re.compile(r"\d+(?:\.\d+)+")


class Log:
    def __init__(self, path: str) -> None:
        self.fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0), 0o600)

    def write(self, entry: dict[str, Any]) -> None:
        os.write(self.fd, (json.dumps(entry) + "\n").encode())

    def stage(self, name: str, work: Callable[[], Any]) -> None:
        """Run one stage; a Python exception becomes its result, what kills the process leaves only the beginning."""
        self.write({"begin": name})
        start = time.monotonic()
        try:
            entry = {"stage": name, "data": work()}
        except BaseException as error:  # noqa: BLE001 - SystemExit and KeyboardInterrupt of a module are findings too
            entry = {"stage": name, "error": describe(error)}
        entry["seconds"] = round(time.monotonic() - start, 3)
        self.write(entry)


def describe(error: BaseException) -> dict[str, Any]:
    last = traceback.extract_tb(error.__traceback__)[-1:]
    return {
        "type": type(error).__name__,
        "message": str(error)[:2000],
        "at": f"{last[0].filename}:{last[0].lineno}" if last else None,
        "module": getattr(error, "name", None) if isinstance(error, ImportError) else None,
    }


def interpreter() -> dict[str, Any]:
    return {
        "executable": sys.executable,
        "version": platform.python_version(),
        "implementation": platform.python_implementation(),
        "system": platform.system(),
        "release": platform.release(),
        "machine": platform.machine(),
        "libc": " ".join(platform.libc_ver()),
        "prefix": sys.prefix,
    }


def environment(patterns: list[str]) -> dict[str, str]:
    """Variables by allowlist: a name, or a prefix that ends in `*`."""

    def listed(name: str) -> bool:
        return any(name.startswith(p[:-1]) if p.endswith("*") else name == p for p in patterns)

    return {name: value for name, value in sorted(os.environ.items()) if listed(name)}


def packages(names: list[str]) -> dict[str, Any]:
    """Version, location, requirements and installed bytes of the distributions whose name matches (`*` at the end)."""
    found: dict[str, Any] = {}
    for dist in metadata.distributions():
        name = re.sub(r"[-_.]+", "-", (dist.metadata["Name"] or "")).lower()
        if name in found or not any(name.startswith(n[:-1]) if n.endswith("*") else name == n for n in names):
            continue  # the first one on the path is the one that is imported
        found[name] = {
            "version": dist.version,
            "location": str(dist.locate_file("")),
            "requires": list(dist.requires or ()),
            "bytes": sum(file.size or 0 for file in dist.files or ()),
        }
    return found


def torch_build() -> dict[str, Any] | None:
    """What torch was built for, read from its version.py: known even where torch cannot be imported."""
    spec = importlib.util.find_spec("torch")
    if spec is None or not spec.submodule_search_locations:
        return None
    for folder in spec.submodule_search_locations:
        path = os.path.join(folder, "version.py")
        if os.path.isfile(path):
            with open(path, encoding="utf-8") as file:
                text = file.read()
            assigned = re.findall(r"^(cuda|hip|__version__)\b[^=\n]*=\s*(None|'[^']*'|\"[^\"]*\")", text, re.M)
            return {name: None if value == "None" else value[1:-1] for name, value in assigned}
    return None


def cuda_home() -> str | None:
    """Where tilelang will look for the toolkit: CUDA_HOME, CUDA_PATH, nvcc on PATH, the pip package, /usr/local/cuda."""
    for name in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(name):
            return os.environ[name]
    nvcc = shutil.which("nvcc")
    if nvcc:
        prefix = os.path.dirname(os.path.dirname(nvcc))
        if not os.path.exists(os.path.join(prefix, "include", "cuda_runtime.h")):
            prefix = os.path.dirname(os.path.dirname(os.path.realpath(nvcc)))
        return prefix
    try:
        files = metadata.files("nvidia-cuda-nvcc") or []
    except metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name == "nvcc":
            return os.path.dirname(os.path.dirname(str(file.locate())))
    return next((path for path in ("/usr/local/cuda",) if os.path.isdir(path)), None)


def find_program(name: str, places: list[str]) -> str | None:
    """On PATH, else in the first of `places` (glob patterns; `{cuda}` is the toolkit) that has it."""
    on_path = shutil.which(name)
    if on_path:
        return on_path
    home = cuda_home()
    for place in places:
        if "{cuda}" in place and not home:
            continue
        for candidate in sorted(glob.glob(place.replace("{cuda}", home or "")), reverse=True):
            if os.access(candidate, os.X_OK) and os.path.isfile(candidate):
                return candidate
    return None


def program(entry: dict[str, Any], timeout: float) -> dict[str, Any]:
    """Path and version of one program; `error` where it is there but does not run."""
    preferred = os.environ.get(entry.get("variable") or "")
    names = [preferred] if preferred else entry["names"]
    path = next(filter(None, (find_program(name, entry.get("places", [])) for name in names)), None)
    if path is None:
        return {"path": None, "version": None, "error": f"{preferred} not found" if preferred else None}
    result: dict[str, Any] = {"path": path, "version": None, "error": None}
    for arguments, given in ((entry["version"], ""), *((test, text) for test, text in entry.get("tests", []))):
        try:
            done = subprocess.run(
                [path, *arguments],
                input=given,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=timeout,
            )
        except subprocess.TimeoutExpired:
            result["error"] = f"`{' '.join([path, *arguments])}` did not end within {timeout:g} s"
            break
        except OSError as error:
            result["error"] = str(error)
            break
        lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
        if done.returncode != 0:
            said = lines[-1] if lines else f"exit status {done.returncode}"
            result["error"] = f"`{' '.join([path, *arguments])}`: {said}"[:500]
            break
        if result["version"] is None:
            # the last line with a version: banners come first, and nvcc tells its release at the end
            told = [VERSION.search(line) for line in (lines[-2:] if entry.get("tail") else lines)]
            result["version"] = next((match.group() for match in told if match), None)
    return result


def driver() -> dict[str, Any]:
    """NVIDIA driver and devices through libcuda, the library that every CUDA program goes through."""
    names = ["nvcuda.dll"] if sys.platform == "win32" else ["libcuda.so.1", "libcuda.so"]
    lib = None
    reason = ""
    for name in names:
        try:
            lib = ctypes.CDLL(name)
            break
        except OSError as error:
            reason = reason or str(error)
    result: dict[str, Any] = {"library": lib is not None, "error": None, "cuda": None, "version": None, "gpus": []}
    result["version"] = kernel_module()
    if lib is None:
        result["error"] = reason
        return result

    def call(function: str, *arguments: Any) -> None:
        status = getattr(lib, function)(*arguments)
        if status != 0:
            text = ctypes.c_char_p()
            lib.cuGetErrorName(status, ctypes.byref(text))
            raise OSError(f"{function}: {text.value.decode() if text.value else status}")

    number = ctypes.c_int()
    try:
        call("cuDriverGetVersion", ctypes.byref(number))
        result["cuda"] = f"{number.value // 1000}.{number.value % 1000 // 10}"
        call("cuInit", 0)
        call("cuDeviceGetCount", ctypes.byref(number))
        for index in range(number.value):
            result["gpus"].append(device(call, index))
    except OSError as error:
        result["error"] = str(error)
    return result


def device(call: Callable[..., None], index: int) -> dict[str, Any]:
    handle, major, minor = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    size = ctypes.c_size_t()
    name = ctypes.create_string_buffer(256)
    call("cuDeviceGet", ctypes.byref(handle), index)
    call("cuDeviceGetName", name, len(name), handle)
    call("cuDeviceTotalMem_v2", ctypes.byref(size), handle)
    call("cuDeviceGetAttribute", ctypes.byref(major), 75, handle)  # compute capability, major
    call("cuDeviceGetAttribute", ctypes.byref(minor), 76, handle)  # and minor
    return {
        "index": index,
        "name": name.value.decode(errors="replace"),
        "arch": f"sm_{major.value}{minor.value}",
        "memory": size.value,
    }


def kernel_module() -> str | None:
    """The version of the loaded NVIDIA kernel module."""
    try:
        with open("/proc/driver/nvidia/version", encoding="ascii", errors="replace") as file:
            found = VERSION.search(file.readline())
    except OSError:
        return None
    return found.group() if found else None


def counters_restricted() -> bool | None:
    """Whether the driver keeps performance counters from everyone but administrators; None where it does not say."""
    try:
        with open("/proc/driver/nvidia/params", encoding="ascii", errors="replace") as file:
            found = re.search(r"RmProfilingAdminOnly:\s*(\d)", file.read())
    except OSError:
        return None
    return found.group(1) == "1" if found else None


def import_torch() -> dict[str, Any]:
    import torch

    return {"version": torch.__version__, "cuda": torch.version.cuda, "hip": getattr(torch.version, "hip", None)}


def use_torch() -> dict[str, Any]:
    import torch

    return {"cuda_available": bool(torch.cuda.is_available())}


def import_tilelang() -> dict[str, Any]:
    import tilelang

    return {"version": getattr(tilelang, "__version__", None), "file": tilelang.__file__}


def modules(names: list[str]) -> dict[str, bool]:
    """Which of these modules exist, found as files below their packages, importing none."""
    return {name: module_exists(name) for name in names}


def module_exists(name: str) -> bool:
    top, _, rest = name.partition(".")
    spec = importlib.util.find_spec(top)
    if spec is None:
        return False
    if not rest:
        return True
    parts = rest.split(".")
    for root in spec.submodule_search_locations or ():
        stem = os.path.join(root, *parts)
        if os.path.isdir(stem) or glob.glob(glob.escape(stem) + ".py") or glob.glob(glob.escape(stem) + ".*.so"):
            return True
    return False


def registered() -> dict[str, Any]:
    """What the imported tilelang itself says it knows: pass configuration keys, environment variables."""
    from tilelang.env import Environment
    from tvm.ir.transform import PassContext

    return {
        "configs": sorted(PassContext.list_configs()),
        "variables": sorted({v.key for v in vars(Environment).values() if isinstance(getattr(v, "key", None), str)}),
    }


def attributes(names: list[str]) -> dict[str, bool]:
    """Which `module:attribute` exist, after their modules were imported."""
    found = {}
    for name in names:
        module, _, attribute = name.partition(":")
        found[name] = hasattr(importlib.import_module(module), attribute)
    return found


def main(out: str, spec_path: str) -> int:
    faulthandler.enable()
    with open(spec_path, encoding="utf-8") as file:
        spec = json.load(file)
    log = Log(out)
    log.stage("interpreter", interpreter)
    log.stage("environment", lambda: environment(spec["environment"]))
    log.stage("packages", lambda: packages(spec["packages"]))
    log.stage("torch build", torch_build)
    log.stage("cuda home", cuda_home)
    for name, entry in spec["programs"].items():
        log.stage(f"program {name}", lambda entry=entry: program(entry, spec["program_timeout"]))  # type: ignore[misc]
    log.stage("modules", lambda: modules(spec["modules"]))
    log.stage("counters", counters_restricted)
    log.stage("driver", driver)
    log.stage("import torch", import_torch)
    log.stage("use torch", use_torch)
    log.stage("import tilelang", import_tilelang)
    log.stage("registered", registered)
    log.stage("attributes", lambda: attributes(spec["attributes"]))
    log.write({"done": True})
    return 0


if __name__ == "__main__":
    # interpreter shutdown runs foreign exit handlers, which may crash after everything has been told
    status = main(sys.argv[1], sys.argv[2])
    sys.stdout.flush()
    os._exit(status)
