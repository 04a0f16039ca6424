"""What a probed machine means: problems with what to do about them, abilities, and the inventory of upstream tools.

Pure: the reference tables come in as data (`load_reference` reads them), the machine as `probe.Machine`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from triage.abilities import (
    INSTALL_CPU_TORCH,
    INSTALL_CXX,
    INSTALL_TILELANG,
    TORCH,
    Ability,
    abilities,
    cuda_torch_line,
)
from triage.knowledge.files import read_table, taken_apart
from triage.probe import Import, ImportStatus, Machine
from triage.versions import VersionError, key, requirement, satisfies

#: distributions that a CUDA build of torch brings along
_TORCH_LIBRARIES = ("nvidia-", "cuda-", "triton")


class Weight(StrEnum):
    """`problem`: something will fail. `advice`: it works, and could be better or deserves to be known."""

    PROBLEM = "problem"
    ADVICE = "advice"


@dataclass(frozen=True)
class Problem:
    """Something wrong or worth knowing. `do` is what to do about it, alternatives on lines of their own."""

    name: str
    title: str
    why: str = ""
    do: str = ""
    source: str | None = None
    weight: Weight = Weight.PROBLEM


@dataclass(frozen=True)
class UpstreamTool:
    name: str
    title: str
    use: str = ""
    module: str | None = None
    config: str | None = None
    variable: str | None = None
    attribute: str | None = None


@dataclass(frozen=True)
class BadPair:
    name: str
    when: Mapping[str, str]
    says: str
    fix: str
    source: str
    unless_program: str | None = None


@dataclass(frozen=True)
class Reference:
    tools: tuple[UpstreamTool, ...] = ()
    pairs: tuple[BadPair, ...] = ()


@dataclass(frozen=True)
class Diagnosis:
    """`tools` maps the name of an upstream tool to `present`, `missing` or `unknown`."""

    machine: Machine
    problems: tuple[Problem, ...]
    abilities: tuple[Ability, ...]
    tools: Mapping[str, str]


def load_reference(root: Path) -> Reference:
    """Read `reference/upstream_tools.toml` and `reference/versions.toml` below the rules folder `root`.

    Raises `FileError`.
    """
    tools, pairs = root / "reference" / "upstream_tools.toml", root / "reference" / "versions.toml"
    with taken_apart(tools):
        known = tuple(UpstreamTool(**tool) for tool in read_table(tools)["tool"])
    with taken_apart(pairs):
        return Reference(known, tuple(BadPair(**pair) for pair in read_table(pairs)["pair"]))


def diagnose(machine: Machine, reference: Reference, checked_with: Mapping[str, Iterable[str]]) -> Diagnosis:
    """Judge a machine. `checked_with` maps the code of each rule to the tilelang versions it was checked against."""
    problems = [
        *_interpreter(machine),
        *_imports(machine),
        *_requirements(machine),
        *_pairs(machine, reference.pairs),
        *_torch_build(machine),
        *_toolkit(machine),
        *_shadowed(machine),
        *_unchecked(machine, checked_with),
    ]
    problems.sort(key=lambda p: p.weight == Weight.ADVICE)
    tools = {tool.name: presence(tool, machine) for tool in reference.tools}
    return Diagnosis(machine, tuple(problems), abilities(machine), tools)


def presence(tool: UpstreamTool, machine: Machine) -> str:
    """Whether the probed tilelang has a tool: `present`, `missing`, or `unknown` where it could not be asked."""
    if machine.failure or (not machine.version("tilelang") and machine.tilelang.status != ImportStatus.OK):
        return "missing" if machine.tilelang.status == ImportStatus.MISSING else "unknown"
    answers: list[bool | None] = []
    if tool.module:
        answers.append(machine.modules.get(tool.module))
    if tool.config:
        answers.append(None if machine.configs is None else tool.config in machine.configs)
    if tool.variable:
        answers.append(None if machine.variables is None else tool.variable in machine.variables)
    if tool.attribute:
        answers.append(None if machine.attributes is None else machine.attributes.get(tool.attribute, False))
    if False in answers:
        return "missing"
    return "unknown" if None in answers or not answers else "present"


def _interpreter(machine: Machine) -> Iterator[Problem]:
    if machine.failure:
        yield Problem(
            "interpreter", "The Python interpreter does not run", machine.failure, "name another: --python PATH"
        )


def _imports(machine: Machine) -> Iterator[Problem]:
    if machine.failure:
        return
    if machine.torch.status == ImportStatus.NOT_TESTED:
        yield Problem("probe-stopped", "The machine could not be looked at to the end", machine.stopped or "")
        return
    if machine.torch.status == ImportStatus.MISSING:
        yield Problem("no-torch", "torch is not installed", machine.python, f"{INSTALL_CPU_TORCH}\n{cuda_torch_line()}")
    elif machine.torch.status != ImportStatus.OK:
        yield _broken("torch", machine.torch, f"pip install --force-reinstall torch=={TORCH}")
    if machine.tilelang.status == ImportStatus.MISSING:
        yield Problem("no-tilelang", "tilelang is not installed", machine.python, INSTALL_TILELANG)
    elif machine.tilelang.status == ImportStatus.NOT_TESTED:
        yield Problem(
            "untested-tilelang", "The import of tilelang was not tested", "the import of torch ended the process"
        )
    elif machine.tilelang.status != ImportStatus.OK and not _same(machine.tilelang, machine.torch):
        yield _broken("tilelang", machine.tilelang, "pip install --force-reinstall tilelang")


def _same(one: Import, other: Import) -> bool:
    """tilelang imports torch first: then torch's error is told once, as torch's."""
    return bool(one.error) and one.error == other.error


def _broken(package: str, found: Import, do: str) -> Problem:
    verb = {
        ImportStatus.FAILED: "fails",
        ImportStatus.CRASHED: "ends the process",
        ImportStatus.TIMED_OUT: "does not end",
    }[found.status]
    last = found.detail.splitlines()[-1:] if found.detail else []
    why = "; ".join(filter(None, [found.error, f"at {found.at}" if found.at else "", *(line.strip() for line in last)]))
    return Problem(f"broken-{package}", f"The import of {package} {verb}", why, do)


def _requirements(machine: Machine) -> Iterator[Problem]:
    """Installed versions that the packages' own requirements exclude; lines with a marker are left to pip."""
    for owner in ("tilelang", "torch"):
        package = machine.packages.get(owner)
        for text in package.requires if package else ():
            wanted = requirement(text)
            if wanted is None or wanted.marker:
                continue
            have = machine.version(wanted.name)
            if have is None or _satisfied(have, wanted.specifier) is not False:
                continue
            yield Problem(
                f"requires-{wanted.name}",
                f"{owner} {machine.version(owner)} does not work with {wanted.name} {have}",
                f"{owner} requires {wanted.name}{wanted.specifier}",
                f'pip install "{wanted.name}{wanted.specifier}"',
            )


def _pairs(machine: Machine, pairs: Iterable[BadPair]) -> Iterator[Problem]:
    versions: dict[str, str | None] = {name: package.version for name, package in machine.packages.items()}
    versions |= {
        "python": machine.interpreter.get("version"),
        "nvcc": machine.program("nvcc").version,
        "driver-cuda": machine.driver_cuda,
        "torch-cuda": machine.torch_cuda,
        "torch-hip": machine.torch_hip,
    }
    for pair in pairs:
        if pair.unless_program and machine.program(pair.unless_program).works:
            continue
        if all(_satisfied(versions.get(name), wanted) for name, wanted in pair.when.items()):
            together = " with ".join(f"{name} {versions[name]}" for name in pair.when)
            yield Problem(pair.name, f"{together}: known not to work", pair.says, pair.fix, pair.source)


def _satisfied(version: str | None, specifier: str) -> bool | None:
    """None where there is no version, or one that nobody can compare."""
    if version is None:
        return None
    try:
        return satisfies(version, specifier)
    except VersionError:
        return None


def _torch_build(machine: Machine) -> Iterator[Problem]:
    version = machine.version("torch")
    if version is None:
        return
    if machine.torch_cuda and not machine.gpus:
        size = sum(
            p.bytes for name, p in machine.packages.items() if name == "torch" or name.startswith(_TORCH_LIBRARIES)
        )
        yield Problem(
            "cuda-torch-without-gpu",
            f"torch {version} is a CUDA {machine.torch_cuda} build on a machine without a usable NVIDIA GPU",
            f"it works, and takes {size / 1e9:.1f} GB with its libraries; the CPU build takes under 1 GB",
            INSTALL_CPU_TORCH,
            weight=Weight.ADVICE,
        )
    if machine.gpus and not machine.torch_cuda and not machine.torch_hip:
        yield Problem(
            "cpu-torch-with-gpu",
            f"torch {version} is a CPU build, so no kernel can run on {machine.gpus[0].name}",
            "tilelang passes torch's CUDA tensors to its kernels",
            cuda_torch_line(),
        )
    if _major(machine.torch_cuda) > _major(machine.driver_cuda) > 0:
        yield Problem(
            "driver-older-than-torch",
            f"torch is built for CUDA {machine.torch_cuda}, the driver serves CUDA {machine.driver_cuda} at most",
            f"driver {machine.driver or 'of unknown version'}",
            "update the driver, or install a torch build for that CUDA (https://pytorch.org/get-started/locally/)",
        )


def _major(version: str | None) -> int:
    try:
        return key(version)[0][0] if version else 0
    except VersionError:
        return 0


def _toolkit(machine: Machine) -> Iterator[Problem]:
    nvcc, cxx = machine.program("nvcc"), machine.program("cxx")
    for name in ("CUDA_HOME", "CUDA_PATH"):
        value = machine.environment.get(name)
        if value and machine.cuda_home == value and not (nvcc.path or "").startswith(value.rstrip("/") + "/"):
            other = f"; the nvcc found is {nvcc.path}" if nvcc.path else ""
            yield Problem(
                "cuda-home",
                f"{name} names a folder that nvcc was not found in",
                f"tilelang runs {value.rstrip('/')}/bin/nvcc{other}",
                f"unset {name}, or set it to the folder that holds bin/nvcc",
            )
            break
    if nvcc.works and not cxx.works:
        yield Problem("no-host-compiler", "nvcc has no host compiler", cxx.error or "no g++ was found", INSTALL_CXX)
    if _major(nvcc.version) > _major(machine.driver_cuda) > 0:
        yield Problem(
            "driver-older-than-nvcc",
            f"nvcc {nvcc.version} is newer than the driver, which serves CUDA {machine.driver_cuda} at most",
            "what it compiles may not load",
            "update the driver, or use an nvcc of that CUDA",
        )
    if machine.gpus and machine.counters_restricted and machine.program("ncu").works:
        yield Problem(
            "restricted-counters",
            "the driver shows performance counters to administrators only",
            "ncu then ends with ERR_NVGPUCTRPERM",
            "run ncu with administrator rights, or see https://developer.nvidia.com/ERR_NVGPUCTRPERM",
            weight=Weight.ADVICE,
        )


def _shadowed(machine: Machine) -> Iterator[Problem]:
    package = machine.packages.get("tilelang")
    file = machine.tilelang_file
    if package and file and package.location and not Path(file).is_relative_to(package.location):
        yield Problem(
            "shadowed-tilelang",
            f"tilelang is imported from {Path(file).parent}, not from where {package.version} is installed",
            f"the installed one is in {package.location}",
            "check PYTHONPATH and the working directory",
            weight=Weight.ADVICE,
        )


def _unchecked(machine: Machine, checked_with: Mapping[str, Iterable[str]]) -> Iterator[Problem]:
    version = machine.tilelang_version or machine.version("tilelang")
    if version is None or not checked_with:
        return
    codes = sorted(code for code, versions in checked_with.items() if not _among(version, versions))
    if codes:
        known = sorted({v for code in codes for v in checked_with[code]})
        which = "1 rule was not" if len(codes) == 1 else f"{len(codes)} rules were not"
        which = "none of the rules was" if len(codes) == len(checked_with) else which
        yield Problem(
            "unchecked-version",
            f"{which} checked against tilelang {version}",
            f"they were checked against {', '.join(known)}; what they find is stated one step less sure: {_few(codes)}",
            weight=Weight.ADVICE,
        )


def _among(version: str, versions: Iterable[str]) -> bool:
    """Local parts (`+cu121`) do not make another version."""
    return any(_satisfied(version, f"=={known}") for known in versions)


def _few(codes: list[str]) -> str:
    return ", ".join(codes[:6]) + (f" and {len(codes) - 6} more" if len(codes) > 6 else "")
