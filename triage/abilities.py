"""What a probed machine can do, why, and what would make it able; with the install lines that all advice uses."""

from __future__ import annotations

from dataclasses import dataclass

from triage.probe import CAPABILITIES, ImportStatus, Machine, capabilities

#: what the README tells too; one place to change when a newer torch was tried
TORCH = "2.13.0"
INSTALL_CPU_TORCH = f"pip install torch=={TORCH} --extra-index-url https://download.pytorch.org/whl/cpu"
INSTALL_CUDA_TORCH = f"pip install torch=={TORCH}"
INSTALL_TILELANG = "pip install tilelang"
INSTALL_NVCC = 'pip install "nvidia-cuda-nvcc>=13.0.48" "nvidia-cuda-cccl>=13.0.50"'
INSTALL_CXX = "apt install g++ (Debian, Ubuntu), dnf install gcc-c++ (Fedora, RHEL), or name one with CXX=…"


def cuda_torch_line() -> str:
    """What brings a torch that can use a GPU."""
    return f"{INSTALL_CUDA_TORCH} for a CUDA build (Linux)"


@dataclass(frozen=True)
class Ability:
    """One capability of this machine: `what` it allows, `why` it is (not) there, and what to `do` to get it."""

    name: str
    able: bool
    what: str
    why: str
    do: str = ""


def abilities(machine: Machine) -> tuple[Ability, ...]:
    """Every capability with its reason, in the order of `probe.CAPABILITIES`."""
    if machine.failure:
        execute = Ability(
            "execute", False, "run the script", machine.failure, "name another interpreter: --python PATH"
        )
        return (execute, *(Ability(name, False, "", "not looked at") for name in CAPABILITIES if name != "execute"))
    able = capabilities(machine)
    version = machine.interpreter.get("version", "")
    rows = (
        ("execute", "run the script", f"Python {version}", ""),
        ("torch", "hold tensors", _import_reason(machine, "torch"), INSTALL_CPU_TORCH),
        ("tilelang", "lower kernels and generate source", _import_reason(machine, "tilelang"), INSTALL_TILELANG),
        ("cxx", "compile host code and kernels for the CPU", _program_reason(machine, "cxx"), INSTALL_CXX),
        ("nvcc", "compile CUDA source", _nvcc_reason(machine), INSTALL_NVCC),
        ("cuda", "run kernels on an NVIDIA GPU", *_gpu_reason(machine)),
        ("ncu", "profile kernels", _program_reason(machine, "ncu"), "install Nsight Compute (CUDA toolkit)"),
        (
            "compute-sanitizer",
            "check kernels for memory errors and races",
            _program_reason(machine, "compute-sanitizer"),
            "install the CUDA toolkit's compute-sanitizer",
        ),
    )
    return tuple(Ability(name, name in able, what, why, "" if name in able else do) for name, what, why, do in rows)


def _import_reason(machine: Machine, package: str) -> str:
    found = machine.torch if package == "torch" else machine.tilelang
    version = machine.version(package)
    if package == "tilelang" and machine.tilelang_version:
        version = machine.tilelang_version
    if found.status == ImportStatus.OK:
        return f"{package} {version or '(version unknown)'}"
    if found.status == ImportStatus.MISSING:
        return "not installed"
    if found.status == ImportStatus.NOT_TESTED:
        return "not tested: something before it ended the process"
    return f"{package} {version or ''}: {found.status.replace('_', ' ')}: {found.error}".replace(" :", ":")


def _program_reason(machine: Machine, name: str) -> str:
    found = machine.program(name)
    if found.error:
        return found.error
    return f"{found.path} {found.version or ''}".strip() if found.path else "not found"


def _nvcc_reason(machine: Machine) -> str:
    if machine.program("nvcc").works and not machine.program("cxx").works:
        return "no host compiler for nvcc"
    return _program_reason(machine, "nvcc")


def _gpu_reason(machine: Machine) -> tuple[str, str]:
    if not machine.gpus:
        return (
            f"no NVIDIA driver answers ({machine.driver_error})" if machine.driver_error else "the driver lists no GPU",
            "go on with the case on a machine that has one: triage resume CASE",
        )
    names = ", ".join(f"{gpu.name} ({gpu.arch}, {gpu.memory / 2**30:.0f} GiB)" for gpu in machine.gpus)
    if machine.torch_sees_gpu:
        return names, ""
    build = f"CUDA {machine.torch_cuda}" if machine.torch_cuda else "the CPU"
    return f"{names}; torch, built for {build}, does not see it", cuda_torch_line()
