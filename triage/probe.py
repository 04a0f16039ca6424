"""What this machine, this interpreter and this tilelang can do, found out in one child process.

The parent imports neither torch nor tilelang: `harness/machine.py` does, in the user's interpreter, under a time
limit, and writes down what it learned as it goes. So an import that raises, crashes or hangs is a result like any
other, with everything that was learned before it.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from triage.experiment.process import HARNESS, Exit, run_command

#: two imports and a dozen `--version` take 4 s on two busy cores; a cold disk takes much longer
TIMEOUT = 120.0
#: a program that has not told its version by then will not
PROGRAM_TIMEOUT = 15.0
#: the last part of the child's error output that is kept as the reason of a crash
STDERR_TAIL = 4000

#: environment variables that may appear in a report: those that change what the compiler does
ENVIRONMENT = (
    "TILELANG_*", "TL_*", "TVM_*", "CUDA_*", "ASCEND_*", "OMP_*", "ROCM_*", "HIP_VISIBLE_DEVICES", "CXX", "CC",
    "SKIP_LOADING_TILELANG_SO",
)  # fmt: skip

#: distributions whose versions decide whether tilelang works
PACKAGES = (
    "tilelang*", "torch", "torch-c-dlpack-ext", "apache-tvm-ffi", "numpy", "z3-solver", "ml-dtypes", "cloudpickle",
    "psutil", "tqdm", "typing-extensions", "setuptools", "nvidia-*", "cuda-*", "triton", "pytorch-triton-rocm",
)  # fmt: skip

_NSIGHT = ["{cuda}/bin/ncu", "/opt/nvidia/nsight-compute/*/ncu", "/usr/local/cuda*/bin/ncu"]
_SANITIZER = ["{cuda}/bin/compute-sanitizer", "/usr/local/cuda*/bin/compute-sanitizer"]

#: `tests` are further calls that must succeed, with their standard input: a g++ without cc1plus tells its version well
PROGRAMS: dict[str, dict[str, Any]] = {
    "nvcc": {"names": ["nvcc"], "places": ["{cuda}/bin/nvcc"], "version": ["--version"], "tail": True},
    "cxx": {
        "names": ["g++", "c++", "clang++"],
        "variable": "CXX",
        "version": ["--version"],
        "tests": [[["-x", "c++", "-fsyntax-only", "-"], "int main() { return 0; }\n"]],
    },
    "hipcc": {"names": ["hipcc"], "places": ["/opt/rocm/bin/hipcc"], "version": ["--version"]},
    "ncu": {"names": ["ncu"], "places": _NSIGHT, "version": ["--version"], "tail": True},
    "compute-sanitizer": {"names": ["compute-sanitizer"], "places": _SANITIZER, "version": ["--version"], "tail": True},
    "nvidia-smi": {
        "names": ["nvidia-smi"],
        "places": ["/usr/lib/wsl/lib/nvidia-smi"],
        "version": ["--query-gpu=driver_version", "--format=csv,noheader"],
    },
}

CAPABILITIES = ("execute", "torch", "tilelang", "cxx", "nvcc", "cuda", "ncu", "compute-sanitizer")


class ImportStatus(StrEnum):
    OK = "ok"
    MISSING = "missing"  # not installed at all
    FAILED = "failed"  # the import raised
    CRASHED = "crashed"  # the import ended the process
    TIMED_OUT = "timed_out"
    NOT_TESTED = "not_tested"  # something before it ended the process


@dataclass(frozen=True)
class Import:
    """The outcome of really importing a package. `error` is one line, `detail` the last output of a crash."""

    status: ImportStatus = ImportStatus.NOT_TESTED
    error: str = ""
    at: str | None = None
    seconds: float = 0.0
    detail: str = ""


@dataclass(frozen=True)
class Package:
    """An installed distribution; `bytes` is its size as its RECORD states it."""

    version: str
    location: str = ""
    requires: tuple[str, ...] = ()
    bytes: int = 0


@dataclass(frozen=True)
class Program:
    path: str | None = None
    version: str | None = None
    #: why it cannot be used although it is there (or was named by a variable)
    error: str | None = None

    @property
    def works(self) -> bool:
        return self.path is not None and self.error is None


@dataclass(frozen=True)
class Gpu:
    index: int
    name: str
    arch: str  # sm_90
    memory: int  # bytes


@dataclass(frozen=True)
class Machine:
    """Everything the probe learned. `failure` says why it could not learn more; then later fields are empty."""

    python: str
    interpreter: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    packages: Mapping[str, Package] = field(default_factory=dict)
    torch: Import = field(default_factory=Import)
    tilelang: Import = field(default_factory=Import)
    #: what torch was built for: version, CUDA and HIP versions; known without importing it
    torch_cuda: str | None = None
    torch_hip: str | None = None
    torch_sees_gpu: bool | None = None
    #: the file and the version of the tilelang that was imported, which need not be the installed one
    tilelang_file: str | None = None
    tilelang_version: str | None = None
    programs: Mapping[str, Program] = field(default_factory=dict)
    cuda_home: str | None = None
    driver: str | None = None
    driver_cuda: str | None = None
    driver_error: str | None = None
    gpus: tuple[Gpu, ...] = ()
    counters_restricted: bool | None = None
    #: None where tilelang could not be asked
    configs: frozenset[str] | None = None
    variables: frozenset[str] | None = None
    attributes: Mapping[str, bool] | None = None
    modules: Mapping[str, bool] = field(default_factory=dict)
    failure: str | None = None
    #: the stage that ended the child, and how it ended; None where it told all
    stopped: str | None = None

    def version(self, package: str) -> str | None:
        """The installed version of a distribution."""
        found = self.packages.get(package)
        return found.version if found else None

    def program(self, name: str) -> Program:
        return self.programs.get(name, Program())


def probe(
    python: str = sys.executable,
    *,
    modules: Iterable[str] = (),
    attributes: Iterable[str] = (),
    timeout: float = TIMEOUT,
    program_timeout: float = PROGRAM_TIMEOUT,
    environ: Mapping[str, str] | None = None,
    tick: Callable[[float], None] | None = None,
) -> Machine:
    """Look at the machine from inside the interpreter `python`; never raises for what it finds there.

    `modules` and `attributes` (`module:name`) are looked for in addition, for the inventory of upstream tools.
    `environ` is added to the child's environment. `timeout` in seconds is for all of it, `program_timeout` for
    each call of a program. `tick` is called about ten times a second with the seconds since the start.
    """
    spec = {
        "environment": ENVIRONMENT,
        "packages": PACKAGES,
        "programs": PROGRAMS,
        "program_timeout": program_timeout,
        "modules": sorted(modules),
        "attributes": sorted(attributes),
    }
    with tempfile.TemporaryDirectory(prefix="triage-probe-") as name:
        folder = Path(name)
        told = folder / "told.jsonl"
        request = folder / "request.json"
        request.write_text(json.dumps(spec), encoding="utf-8")
        command = (python, str(HARNESS / "machine.py"), str(told), str(request))
        ended = run_command(command, folder, timeout=timeout, env=environ, tick=tick)
        lines = told.read_text(encoding="utf-8").splitlines() if told.exists() else []
        stderr = folder / "stderr"
        tail = stderr.read_text(encoding="utf-8", errors="replace")[-STDERR_TAIL:] if stderr.exists() else ""
    return machine(python, lines, ended, tail)


def machine(python: str, lines: Iterable[str], ended: Exit, stderr: str = "") -> Machine:
    """Make a `Machine` of what the child wrote (pure). A torn last line is left out."""
    stages: dict[str, dict[str, Any]] = {}
    begun: str | None = None
    finished = False
    for line in lines:
        try:
            entry = json.loads(line)
        except ValueError:
            break
        if "begin" in entry:
            begun = entry["begin"]
        elif "stage" in entry:
            stages[entry["stage"]] = entry
            begun = None
        else:
            finished = True

    def data(stage: str, default: Any) -> Any:
        value = stages.get(stage, {}).get("data")
        return default if value is None else value

    packages = {name: Package(**{**p, "requires": tuple(p["requires"])}) for name, p in data("packages", {}).items()}
    build = data("torch build", {})
    driver = data("driver", {})
    programs = {name: Program(**data(f"program {name}", {})) for name in PROGRAMS}
    registered = stages.get("registered", {}).get("data")
    imports = {
        name: _import(stages.get(f"import {name}"), name in packages, begun == f"import {name}", ended, stderr)
        for name in ("torch", "tilelang")
    }
    return Machine(
        python=python,
        interpreter=data("interpreter", {}),
        environment=data("environment", {}),
        packages=packages,
        torch=imports["torch"],
        tilelang=imports["tilelang"],
        torch_cuda=build.get("cuda"),
        torch_hip=build.get("hip"),
        torch_sees_gpu=data("use torch", {}).get("cuda_available"),
        tilelang_file=data("import tilelang", {}).get("file"),
        tilelang_version=data("import tilelang", {}).get("version"),
        programs=programs,
        cuda_home=data("cuda home", None),
        driver=driver.get("version") or programs["nvidia-smi"].version,
        driver_cuda=driver.get("cuda"),
        driver_error=driver.get("error") or _stopped("driver", begun, ended),
        gpus=tuple(Gpu(**gpu) for gpu in driver.get("gpus", ())),
        counters_restricted=data("counters", None),
        configs=frozenset(registered["configs"]) if registered else None,
        variables=frozenset(registered["variables"]) if registered else None,
        attributes=stages.get("attributes", {}).get("data"),
        modules=data("modules", {}),
        failure=None if "interpreter" in stages else _failure(python, ended, stderr),
        stopped=None if finished else f"it ended at {begun or 'an unknown stage'}: {_how(ended)}",
    )


def _import(entry: Mapping[str, Any] | None, installed: bool, begun: bool, ended: Exit, stderr: str) -> Import:
    if begun:
        status = ImportStatus.TIMED_OUT if ended.status == "timed_out" else ImportStatus.CRASHED
        return Import(status, _how(ended), detail=stderr.strip())
    if entry is None:
        return Import()
    seconds = float(entry.get("seconds", 0.0))
    error = entry.get("error")
    if error is None:
        return Import(ImportStatus.OK, seconds=seconds)
    missing = not installed and error["type"] == "ModuleNotFoundError" and error["module"] in ("torch", "tilelang")
    said = f"{error['type']}: {error['message']}" if error["message"] else error["type"]
    return Import(
        ImportStatus.MISSING if missing else ImportStatus.FAILED, " ".join(said.split()), error["at"], seconds
    )


def _stopped(stage: str, begun: str | None, ended: Exit) -> str | None:
    return f"looking at it ended the process: {_how(ended)}" if begun == stage else None


def _failure(python: str, ended: Exit, stderr: str) -> str:
    if ended.error:
        return f"{python} cannot be started: {ended.error}"
    last = next((line.strip() for line in reversed(stderr.splitlines()) if line.strip()), "")
    return f"{python} could not look at the machine ({_how(ended)})" + (f": {last}" if last else "")


def _how(ended: Exit) -> str:
    if ended.status == "timed_out":
        return f"no end after {ended.seconds:.0f} s"
    if ended.signal is not None:
        return f"signal {ended.signal}"
    return f"exit status {ended.code}" if ended.code is not None else ended.status


def capabilities(found: Machine) -> frozenset[str]:
    """What the walk can rely on here, out of `CAPABILITIES`."""
    able = {
        "execute": found.failure is None,
        "torch": found.torch.status == ImportStatus.OK,
        "tilelang": found.tilelang.status == ImportStatus.OK,
        "cxx": found.program("cxx").works,
        "nvcc": found.program("nvcc").works and found.program("cxx").works,
        "cuda": bool(found.gpus) and found.torch_sees_gpu is True,
        "ncu": found.program("ncu").works,
        "compute-sanitizer": found.program("compute-sanitizer").works,
    }
    return frozenset(name for name in CAPABILITIES if able[name])
