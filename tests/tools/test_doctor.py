"""The doctor looks at real interpreters: bare ones, and ones with packages that raise, crash or hang on import."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from triage import abilities, diagnosis, probe
from triage.diagnosis import Reference, Weight, diagnose, load_reference, presence
from triage.experiment.process import Exit
from triage.knowledge.files import rules_root
from triage.model import from_json, to_json
from triage.probe import Gpu, Import, ImportStatus, Machine, Package, Program, capabilities
from triage.report import machine_page
from triage.tools import doctor

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = load_reference(rules_root())
CHECKED = {"TLG001": ("0.1.15",), "TLG002": ("0.1.15",)}


class Bench:
    """An interpreter without site-packages, a folder of packages for it, and a folder of programs."""

    def __init__(self, folder: Path) -> None:
        self.packages = folder / "packages"
        self.programs = folder / "programs"
        self.packages.mkdir()
        self.programs.mkdir()
        self.python = folder / "bare-python"
        self.script(self.python, f'exec "{sys.executable}" -S "$@"')

    def script(self, path: Path, body: str) -> None:
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)

    def program(self, name: str, body: str) -> None:
        self.script(self.programs / name, body)

    def package(self, name: str, version: str, code: str = "", requires: tuple[str, ...] = (), size: int = 10) -> None:
        """Install a distribution whose module (the name with underscores) runs `code` on import."""
        module = name.replace("-", "_")
        folder = self.packages / module
        folder.mkdir(exist_ok=True)
        (folder / "__init__.py").write_text(f"__version__ = {version!r}\n{code}\n")
        info = self.packages / f"{module}-{version}.dist-info"
        info.mkdir()
        lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
        (info / "METADATA").write_text("\n".join([*lines, *(f"Requires-Dist: {r}" for r in requires)]) + "\n")
        (info / "RECORD").write_text(f"{module}/__init__.py,,{size}\n")

    def torch(self, code: str = "", cuda: str = "None", sees_gpu: bool = False) -> None:
        good = f"class version:\n    cuda = None\nclass cuda:\n    is_available = staticmethod(lambda: {sees_gpu})"
        self.package("torch", "2.13.0", code or good, size=4_000_000_000)
        (self.packages / "torch" / "version.py").write_text(f"cuda: Optional[str] = {cuda}\nhip: str = None\n")

    def probe(self, timeout: float = 60.0, **environ: str) -> Machine:
        env = {
            "PYTHONPATH": str(self.packages),
            "PATH": str(self.programs),
            "CUDA_HOME": "",
            "CUDA_PATH": "",
            "CXX": "",
        }
        return probe.probe(
            str(self.python),
            modules=["tilelang.autodd"],
            timeout=timeout,
            program_timeout=3,
            environ={**env, **environ},
        )


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def problems(machine: Machine, reference: Reference = REFERENCE) -> dict[str, diagnosis.Problem]:
    return {p.name: p for p in diagnose(machine, reference, CHECKED).problems}


def test_nothing_is_installed(bench: Bench) -> None:
    machine = bench.probe()
    assert (machine.torch.status, machine.tilelang.status) == (ImportStatus.MISSING, ImportStatus.MISSING)
    assert capabilities(machine) == {"execute"}
    found = problems(machine)
    assert "--extra-index-url https://download.pytorch.org/whl/cpu" in found["no-torch"].do
    assert found["no-tilelang"].do == "pip install tilelang"
    diagnosed = diagnose(machine, REFERENCE, CHECKED)
    assert set(diagnosed.tools.values()) == {"missing"}
    page = machine_page.render(diagnosed, REFERENCE)
    assert "TOOLS OF THIS TILELANG" not in page
    assert page.count("→ pip install torch==2.13.0") == 3  # CPU and CUDA as a problem, CPU as an ability


def test_an_import_that_raises(bench: Bench) -> None:
    bench.torch("raise OSError('libcudart.so.12: cannot open shared object file')")
    bench.package("tilelang", "0.1.15", "import torch")
    machine = bench.probe()
    assert machine.torch.status == ImportStatus.FAILED
    assert machine.torch.error == "OSError: libcudart.so.12: cannot open shared object file"
    assert machine.torch.at is not None and machine.torch.at.endswith("torch/__init__.py:2")
    assert machine.version("torch") == "2.13.0"
    found = problems(machine)
    assert "libcudart.so.12" in found["broken-torch"].why
    assert "broken-tilelang" not in found  # the same error is told once


def test_a_missing_module_inside_a_package_is_no_missing_package(bench: Bench) -> None:
    bench.torch()
    bench.package("tilelang", "0.1.15", "import not_there")
    machine = bench.probe()
    assert machine.tilelang.status == ImportStatus.FAILED
    assert "No module named 'not_there'" in problems(machine)["broken-tilelang"].why


def test_an_import_that_crashes(bench: Bench) -> None:
    bench.torch()
    bench.package("tilelang", "0.1.15", "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    machine = bench.probe()
    assert machine.torch.status == ImportStatus.OK
    assert machine.tilelang.status == ImportStatus.CRASHED
    assert "signal 11" in machine.tilelang.error
    assert "Segmentation fault" in machine.tilelang.detail
    assert "tilelang" not in capabilities(machine) and "execute" in capabilities(machine)
    assert "ends the process" in problems(machine)["broken-tilelang"].title


def test_after_a_crash_of_torch_nobody_knows_about_tilelang(bench: Bench) -> None:
    bench.torch("import os; os.abort()")
    bench.package("tilelang", "0.1.15")
    machine = bench.probe()
    assert (machine.torch.status, machine.tilelang.status) == (ImportStatus.CRASHED, ImportStatus.NOT_TESTED)
    assert machine.version("tilelang") == "0.1.15"
    tool = next(t for t in REFERENCE.tools if t.config)
    assert presence(tool, machine) in ("unknown", "missing")


def test_an_import_that_hangs(bench: Bench) -> None:
    bench.torch("import time; time.sleep(600)")
    machine = bench.probe(timeout=8.0)
    assert machine.torch.status == ImportStatus.TIMED_OUT
    assert "does not end" in problems(machine)["broken-torch"].title


def test_an_import_that_exits(bench: Bench) -> None:
    bench.torch("import sys; sys.exit(3)")
    machine = bench.probe()
    assert machine.torch.status == ImportStatus.FAILED
    assert machine.torch.error == "SystemExit: 3"


def test_what_an_import_prints_or_puts_in_the_way_does_no_harm(bench: Bench) -> None:
    bench.torch("import os; os.write(1, b'{\"stage\": \"forged\"}\\n'); os.chdir('/'); os.environ.clear()")
    (bench.packages / "events.py").write_text("raise SystemExit('a module of the user, named like one of ours')\n")
    machine = bench.probe()
    assert machine.torch.status == ImportStatus.FAILED  # this torch has no version.cuda
    assert machine.interpreter["version"]


def test_a_module_of_the_user_is_not_replaced_by_one_of_the_harness(bench: Bench) -> None:
    (bench.packages / "events.py").write_text("MINE = True\n")
    bench.torch()
    bench.package("tilelang", "0.1.15", "import events; assert events.MINE")
    assert bench.probe().tilelang.status == ImportStatus.OK


@pytest.mark.parametrize("python", ["/nonexistent/python", "/bin/true", "/bin/false", "/"])
def test_what_is_no_interpreter_is_a_failure_in_words(python: str) -> None:
    machine = probe.probe(python, timeout=30)
    assert machine.failure and python in machine.failure
    assert capabilities(machine) == frozenset()
    found = diagnose(machine, REFERENCE, CHECKED)
    assert [p.name for p in found.problems] == ["interpreter"]
    assert "The Python interpreter does not run" in machine_page.render(found, REFERENCE)


def test_a_cuda_build_of_torch_without_a_gpu(bench: Bench) -> None:
    bench.torch(cuda="'13.0'")
    bench.package("nvidia-cublas", "13.0", size=500_000_000)
    machine = replace(bench.probe(), gpus=())
    problem = problems(machine)["cuda-torch-without-gpu"]
    assert problem.weight == Weight.ADVICE
    assert "CUDA 13.0 build" in problem.title and "4.5 GB" in problem.why
    assert problem.do.endswith("/whl/cpu")


def test_known_bad_pairs(bench: Bench) -> None:
    bench.torch()
    bench.package("tilelang", "0.1.8")
    bench.package("apache-tvm-ffi", "0.1.10")
    problem = problems(bench.probe())["tvm-ffi-slots"]
    assert problem.title == "tilelang 0.1.8 with apache-tvm-ffi 0.1.10: known not to work"
    assert "_NestedLoopCheckVisitor" in problem.why and problem.do == 'pip install "apache-tvm-ffi<0.1.10"'


def test_a_requirement_that_is_not_met(bench: Bench) -> None:
    requires = ("apache-tvm-ffi<0.1.13,>=0.1.11", 'torch>=9; platform_system == "Darwin"', "numpy")
    bench.package("tilelang", "0.1.15", requires=requires)
    bench.package("apache-tvm-ffi", "0.1.9")
    found = problems(bench.probe())
    assert found["requires-apache-tvm-ffi"].do == 'pip install "apache-tvm-ffi<0.1.13,>=0.1.11"'
    assert not [name for name in found if name in ("requires-torch", "requires-numpy")]


def test_programs(bench: Bench) -> None:
    bench.program("nvcc", "echo 'nvcc: NVIDIA (R) Cuda compiler driver'; echo 'release 12.8, V12.8.93'; echo Build")
    bench.program(
        "g++", 'case "$1" in --version) echo "g++ 12.2.0";; *) cat >/dev/null; echo "no cc1plus" >&2; exit 1;; esac'
    )
    bench.program("ncu", "sleep 60")
    machine = bench.probe(PATH=f"{bench.programs}{os.pathsep}/usr/bin{os.pathsep}/bin")
    assert machine.program("nvcc").version == "12.8"
    assert machine.program("cxx").version == "12.2.0"
    assert "no cc1plus" in (machine.program("cxx").error or "")
    assert "did not end within" in (machine.program("ncu").error or "")
    assert capabilities(machine) == {"execute"}
    assert problems(machine)["no-host-compiler"].title == "nvcc has no host compiler"


def test_a_toolkit_folder_without_nvcc(bench: Bench) -> None:
    machine = bench.probe(CUDA_HOME="/nonexistent/cuda")
    assert "/nonexistent/cuda/bin/nvcc" in problems(machine)["cuda-home"].why


#: what the child wrote on a machine with a GPU and without tilelang
RECORDED = [
    {"stage": "interpreter", "data": {"executable": "/venv/bin/python3", "version": "3.12.3", "system": "Linux"}},
    {
        "stage": "packages",
        "data": {"torch": {"version": "2.11.0", "location": "/venv", "requires": [], "bytes": 1135606183}},
    },
    {"stage": "torch build", "data": {"__version__": "2.11.0+cu130", "cuda": "13.0", "hip": None}},
    {"stage": "cuda home", "data": "/usr/local/cuda"},
    {"stage": "program nvcc", "data": {"path": "/usr/local/cuda/bin/nvcc", "version": "13.0", "error": None}},
    {"stage": "program cxx", "data": {"path": "/usr/bin/g++", "version": "13.3.0", "error": None}},
    {"stage": "program ncu", "data": {"path": "/usr/local/cuda/bin/ncu", "version": "2025.3.1.0", "error": None}},
    {"stage": "counters", "data": False},
    {
        "stage": "driver",
        "data": {
            "library": True,
            "error": None,
            "cuda": "13.0",
            "version": "580.159.04",
            "gpus": [{"index": 0, "name": "NVIDIA H200", "arch": "sm_90", "memory": 150109880320}],
        },
    },
    {"stage": "import torch", "data": {"version": "2.11.0+cu130", "cuda": "13.0", "hip": None}, "seconds": 4.73},
    {"stage": "use torch", "data": {"cuda_available": True}},
    {
        "stage": "import tilelang",
        "error": {
            "type": "ModuleNotFoundError",
            "message": "No module named 'tilelang'",
            "at": None,
            "module": "tilelang",
        },
    },
    {"done": True},
]
#: the number of stages before the first import
IMPORTS = 1 + next(n for n, entry in enumerate(RECORDED) if entry.get("stage") == "import torch")


def test_a_recording_from_a_machine_with_a_gpu() -> None:
    lines = [json.dumps(entry) for entry in RECORDED]
    machine = probe.machine("/venv/bin/python3", lines, Exit("succeeded", 0))
    assert capabilities(machine) == {"execute", "torch", "cxx", "nvcc", "cuda", "ncu"}
    assert list(problems(machine)) == ["no-tilelang"]
    page = machine_page.render(diagnose(machine, REFERENCE, CHECKED), REFERENCE)
    assert "NVIDIA H200 (sm_90, 140 GiB)" in page and "580.159.04, CUDA 13.0" in page


@pytest.mark.parametrize("cut", range(len(RECORDED)))
def test_a_recording_that_was_cut_short_is_read_as_far_as_it_goes(cut: int) -> None:
    lines = [json.dumps(entry) for entry in RECORDED[:cut]]
    machine = probe.machine("python", [*lines, '{"begin": "drive', "x"], Exit("killed", signal=9))
    assert (machine.failure is None) == (cut > 0)
    assert machine.stopped and "signal 9" in machine.stopped
    names = set(problems(machine))
    assert ("interpreter" in names) == (cut == 0)
    assert ("probe-stopped" in names) == (0 < cut < IMPORTS)
    machine_page.render(diagnose(machine, REFERENCE, CHECKED), REFERENCE)


MACHINE = Machine(
    "python",
    interpreter={"version": "3.11.7"},
    packages={"tilelang": Package("0.1.15", "/p"), "torch": Package("2.13.0")},
    torch=Import(ImportStatus.OK),
    tilelang=Import(ImportStatus.OK),
    torch_cuda="13.0",
    torch_sees_gpu=True,
    tilelang_file="/p/tilelang/__init__.py",
    tilelang_version="0.1.15",
    programs={"nvcc": Program("/usr/bin/nvcc", "13.0"), "cxx": Program("/usr/bin/g++", "12")},
    driver="580.1",
    driver_cuda="13.0",
    gpus=(Gpu(0, "NVIDIA H200", "sm_90", 150 << 30),),
    configs=frozenset(),
    variables=frozenset(),
    attributes={},
)


def test_a_sound_gpu_machine_has_no_problem() -> None:
    assert problems(MACHINE) == {}
    assert {"cuda", "nvcc", "tilelang", "torch", "execute", "cxx"} == capabilities(MACHINE)


@pytest.mark.parametrize(
    ("changes", "problem", "weight"),
    [
        ({"torch_cuda": None, "torch_sees_gpu": False}, "cpu-torch-with-gpu", Weight.PROBLEM),
        ({"driver_cuda": "12.4", "programs": {}}, "driver-older-than-torch", Weight.PROBLEM),
        ({"driver_cuda": "12.4", "torch_cuda": "12.8"}, "driver-older-than-nvcc", Weight.PROBLEM),
        ({"tilelang_file": "/home/user/src/tilelang/__init__.py"}, "shadowed-tilelang", Weight.ADVICE),
        ({"tilelang_version": "0.1.16"}, "unchecked-version", Weight.ADVICE),
        (
            {"counters_restricted": True, "programs": {**MACHINE.programs, "ncu": Program("/usr/bin/ncu", "2025.3")}},
            "restricted-counters",
            Weight.ADVICE,
        ),
    ],
)
def test_one_thing_wrong(changes: dict, problem: str, weight: Weight) -> None:
    found = problems(replace(MACHINE, **changes))
    assert list(found) == [problem]
    assert found[problem].weight == weight


def test_torch_that_does_not_see_the_gpu_means_no_cuda() -> None:
    machine = replace(MACHINE, torch_cuda=None, torch_sees_gpu=False)
    assert "cuda" not in capabilities(machine)
    ability = next(a for a in abilities.abilities(machine) if a.name == "cuda")
    assert "built for the CPU, does not see it" in ability.why and ability.do


def test_an_unchecked_version_names_the_rules() -> None:
    problem = problems(replace(MACHINE, tilelang_version="0.1.14"))["unchecked-version"]
    assert "none of the rules was checked against tilelang 0.1.14" in problem.title
    assert "TLG001, TLG002" in problem.why
    one = diagnose(replace(MACHINE, tilelang_version="0.1.14"), REFERENCE, {"TLG001": ["0.1.15"], "TLG002": ["0.1.14"]})
    assert one.problems[0].title == "1 rule was not checked against tilelang 0.1.14"
    assert "TLG002" not in one.problems[0].why
    assert problems(replace(MACHINE, tilelang_version="0.1.15+cu130")) == {}


def test_presence_needs_every_sign() -> None:
    tool = diagnosis.UpstreamTool("t", "t", module="tilelang.t", config="tl.t")
    there = replace(MACHINE, modules={"tilelang.t": True}, configs=frozenset({"tl.t"}))
    assert presence(tool, there) == "present"
    assert presence(tool, replace(there, configs=frozenset())) == "missing"
    assert presence(tool, replace(there, modules={"tilelang.t": False})) == "missing"
    assert presence(tool, replace(there, configs=None)) == "unknown"
    assert presence(tool, replace(there, modules={"tilelang.t": False}, configs=None)) == "missing"


def test_the_readme_gives_the_same_advice() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    assert abilities.INSTALL_CPU_TORCH in readme and f"`{abilities.INSTALL_CUDA_TORCH}`" in readme


def test_the_page_fits_and_says_what_is_missing() -> None:
    machine = replace(MACHINE, gpus=(), driver_cuda=None, driver_error="libcuda.so.1: cannot open", torch_cuda=None)
    page = machine_page.render(diagnose(machine, REFERENCE, CHECKED), REFERENCE, ["cuda", "nvcc"])
    assert " ".join(page.split()).startswith(
        "✗ required, and not here: cuda (no NVIDIA driver answers (libcuda.so.1: cannot open))"
    )
    assert "required, and not here: nvcc" not in page
    by_module_alone = sum(not (t.config or t.variable or t.attribute) for t in REFERENCE.tools)
    asked = len(REFERENCE.tools) - by_module_alone
    assert f"TOOLS OF THIS TILELANG ({asked} missing, {by_module_alone} unknown)" in page
    # commands stay whole, whatever their length
    assert all(len(line) <= machine_page.WIDTH for line in page.splitlines() if "→" not in line)


def test_hostile_text_in_the_environment_is_shown_not_obeyed() -> None:
    machine = replace(
        MACHINE, environment={"TL_X": "\x1b[2J::error::x\n::set-output name=a::b"}, cuda_home="::warning::x"
    )
    page = machine_page.render(diagnose(machine, REFERENCE, CHECKED), REFERENCE)
    assert "\x1b" not in page
    assert not [line for line in page.splitlines() if line.lstrip().startswith("::")]


def test_json_holds_the_same() -> None:
    data = json.loads(machine_page.as_json(diagnose(MACHINE, REFERENCE, CHECKED), REFERENCE, ["ncu"]))
    assert data["schema"] == "triage.doctor/1"
    assert data["missing"] == ["ncu"] and "cuda" in data["capabilities"]
    assert len(data["upstream_tools"]) == len(REFERENCE.tools)
    assert from_json(Gpu, data["machine"]["gpus"][0]) == MACHINE.gpus[0]
    assert to_json(MACHINE.torch) == data["machine"]["torch"]


def test_the_command(bench: Bench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("PYTHONPATH", str(bench.packages))
    out = io.StringIO()
    assert doctor.command(["execute"], str(bench.python), stream=out) == 0
    assert "torch is not installed" in out.getvalue()
    assert doctor.command(["execute,tilelang"], str(bench.python), as_json=True, stream=(again := io.StringIO())) == 1
    assert json.loads(again.getvalue())["missing"] == ["tilelang"]
    assert doctor.command(["teleport"], str(bench.python)) == 2
    assert "teleport" in capsys.readouterr().err


def test_the_parent_imports_neither_torch_nor_tilelang(bench: Bench) -> None:
    code = (
        "import io, sys\nfrom triage.tools import doctor\n"
        f"doctor.command((), {str(bench.python)!r}, stream=io.StringIO())\n"
        "print(sorted({'torch', 'tilelang', 'tvm', 'numpy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "[]", done.stderr


@pytest.mark.tilelang
def test_the_installed_tilelang() -> None:
    found, reference = doctor.examine(sys.executable)
    machine = found.machine
    assert {"execute", "torch", "tilelang"} <= capabilities(machine)
    assert machine.tilelang.seconds > 0
    assert machine.tilelang_version == machine.version("tilelang")
    assert "unknown" not in found.tools.values()
    if machine.tilelang_version == "0.1.15":
        assert set(found.tools.values()) == {"present"}
    ghost = diagnosis.UpstreamTool("ghost", "ghost", module="tilelang.tools.ghost", config="tl.ghost")
    assert presence(ghost, machine) in ("missing", "unknown")
    assert {t.name for t in reference.tools} == set(found.tools)
