"""Changed scripts in forks of the template: what they show is what a process of their own shows, and nothing is left."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from triage.experiment.errors import Observed, errors_of, read_events
from triage.experiment.kernels import kernels_of
from triage.experiment.process import Subject, run_subject
from triage.experiment.scripts import Candidate, ScriptRunner, Shown

pytestmark = pytest.mark.tilelang

HEAD = """import tilelang
import tilelang.language as T
"""
#: what stays of a product of one block when its faults are taken away
PRODUCT = (
    HEAD
    + """

def product(rows, inner):
    @T.prim_func
    def main(A: T.Tensor((rows, inner), "float16"), B: T.Tensor((inner, 64), "float16"), C: T.Tensor((rows, 64), "float32")):
        with T.Kernel(1, threads=128) as _:
            left = T.alloc_shared((rows, inner), "float16")
            right = T.alloc_shared((inner, 64), "float16")
            total = T.alloc_fragment((rows, 64), "float32")
            T.clear(total)
            T.copy(A, left)
            T.copy(B, right)
            T.gemm(left, right, total)
            T.copy(total, C)

    return main


tilelang.compile(product(64, 32), out_idx=[-1])
"""
)
WRONG_TILE = PRODUCT.replace("T.gemm(left, right, total)", "T.gemm(left, right, total, transpose_B=True)")
WRONG_ROWS = PRODUCT.replace("product(64, 32)", "product(100, 32)")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("user")
    (folder / "kernel.py").write_text(WRONG_TILE)
    (folder / "shapes.py").write_text("ROWS = 64\n")
    (folder / "numbers.txt").write_text("1 2 3\n")
    return folder


@pytest.fixture(scope="module")
def runner(folder, tmp_path_factory):
    pytest.importorskip("tilelang")
    where = tmp_path_factory.mktemp("runner")
    with ScriptRunner(where, folder / "kernel.py", compile=False, cwd=folder, file_limit=32 << 20) as running:
        yield running


def told(shown: Shown, type: str) -> list[dict]:
    return [event for event in read_events(shown.directory) if event["type"] == type]


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("source", [WRONG_TILE, WRONG_ROWS], ids=["in the DSL", "in a pass"])
def test_a_candidate_shows_what_a_process_of_its_own_shows(runner, folder, tmp_path, source) -> None:
    script = folder / "kernel.py"
    script.write_text(source)
    cold = run_subject(Subject(script=script, cwd=folder, compile=False), tmp_path / "cold", tmp_path / "blobs")
    script.write_text(WRONG_TILE)
    kernels = list(kernels_of(cold.events).values())
    observed = Observed(cold.directory, cold.events, kernels, lambda sha: (tmp_path / "blobs" / sha).read_bytes())
    expected = errors_of(observed, observed.readings())[-1]
    shown = runner.run(Candidate(source))
    assert (shown.status, shown.why) == ("failed", "")
    found = shown.errors[-1]
    assert (found.type, found.message, found.phase) == (expected.type, expected.message, expected.phase)
    assert found.frames[-1] == expected.frames[-1]
    assert [f for f in found.frames if f.user] == [f for f in expected.frames if f.user] != []
    assert told(shown, "kernel") or source is WRONG_TILE


def test_a_candidate_that_is_well_succeeds(runner) -> None:
    shown = runner.run(Candidate(PRODUCT))
    assert (shown.status, shown.errors, shown.arch) == ("succeeded", (), "sm_90a")
    assert [e["phase"] for e in told(shown, "compile.begin")][:2] == ["lower", "codegen"]


def test_tilelang_finds_the_virtual_device_wherever_it_looks(runner) -> None:
    source = PRODUCT.replace("tilelang.compile(", "kernel = tilelang.compile(")
    source += "import torch\nfrom tilelang.profiler import bench\nassert bench.device == 'cuda:0'\n"
    source += "assert bench.Event is torch.cuda.Event\nkernel.get_profiler().do_bench()\n"
    shown = runner.run(Candidate(source))
    assert (shown.status, shown.errors) == ("succeeded", ())


def test_no_candidate_is_answered_with_a_kernel_of_another(runner) -> None:
    with_cache = 'import os\nos.environ["TILELANG_DISABLE_CACHE"] = "0"\n' + PRODUCT
    with_cache += "from tilelang.cache.kernel_cache import KernelCache\nprint(sorted(os.listdir(os.environ['TILELANG_CACHE_DIR'])))\n"
    first, second = runner.again(Candidate(with_cache)), runner.again(Candidate(with_cache))
    for shown in (first, second):
        assert shown.status == "succeeded"
        assert [e["phase"] for e in told(shown, "compile.begin")][:2] == ["lower", "codegen"]
    assert runner.run(Candidate(with_cache.replace("product(64, 32)", "product(100, 32)"))).status == "failed"


def test_nothing_is_in_the_memory_of_tilelang_before_the_script(runner) -> None:
    source = HEAD + (
        "import gc\nfrom tilelang.cache.kernel_cache import KernelCache\nfrom tilelang.autotuner import AutoTuner\n"
        "assert not AutoTuner._memory_cache\n"
        "for known in gc.get_objects():\n    assert not (isinstance(known, KernelCache) and known._memory_cache)\n"
        "assert not KernelCache._memory_cache\n"
    )
    shown = runner.run(Candidate(source))
    assert (shown.status, shown.errors) == ("succeeded", ())


def test_the_source_of_functions_is_that_of_the_candidate(runner, folder) -> None:
    source = (
        "import inspect, linecache, traceback\nfrom shapes import ROWS\n\n\ndef of_the_candidate():\n    return ROWS\n\n\n"
        f"assert __file__ == {str(folder / 'kernel.py')!r}\n"
        "assert 'return ROWS' in inspect.getsource(of_the_candidate)\n"
        "linecache.checkcache()\nassert linecache.getline(__file__, 6) == '    return ROWS\\n'\n"
        "print(__loader__.get_source('__main__').count('of_the_candidate'))\n"
    )
    shown = runner.run(Candidate(source))
    assert (shown.status, shown.errors) == ("succeeded", ())
    assert (shown.directory / "stdout").read_text() == "3\n"


def test_a_candidate_writes_into_a_copy_of_the_working_directory(runner, folder) -> None:
    source = (
        "import os, tempfile\nassert open('numbers.txt').read() == '1 2 3\\n'\nopen('numbers.txt', 'w').write('gone')\n"
        "open('new.txt', 'w').close()\nprint(tempfile.gettempdir(), os.path.expanduser('~'), sep='\\n')\n"
    )
    shown = runner.run(Candidate(source))
    assert shown.status == "succeeded"
    assert (folder / "numbers.txt").read_text() == "1 2 3\n"
    assert not (folder / "new.txt").exists()
    for place in (shown.directory / "stdout").read_text().split():
        assert str(runner.directory) in place and not Path(place).exists()


def test_variables_set_before_the_import_count(runner) -> None:
    chosen = 'import os\nos.environ["TILELANG_DEFAULT_TARGET"] = \'{"kind": "cuda", "arch": "sm_\' + "80" + \'"}\'\n'
    shown = runner.run(Candidate(chosen + PRODUCT))
    assert (shown.status, shown.arch) == ("succeeded", "sm_80")
    assert [set(e["set"]) for e in told(shown, "env")] == [{"TILELANG_DEFAULT_TARGET"}]
    assert {"torch", "tvm_ffi", "tilelang"} == {e["name"] for e in told(shown, "module")}


@pytest.mark.slow
def test_a_variable_that_is_read_while_packages_load_needs_a_process_of_its_own(runner, folder, tmp_path) -> None:
    source = "import os\nos.environ['CUDA_HOME'] = '/no/cuda'\nfrom tilelang.env import CUDA_HOME\nprint(CUDA_HOME, os.getcwd())\nassert 0\n"
    shown = runner.run(Candidate(source, trace=True))
    assert (shown.status, shown.errors[-1].type, shown.errors[-1].frames[-1].line) == ("failed", "AssertionError", 5)
    assert shown.executed == {1, 2, 3, 4, 5}
    home, place = (shown.directory / "stdout").read_text().split()
    assert (home, Path(place).parent.parent) == ("/no/cuda", runner.directory)
    count = runner.count
    assert runner.run(Candidate(source, trace=True)) == shown
    assert runner.count == count
    same = {"CUDA_HOME": "/no/cuda"}
    with ScriptRunner(tmp_path, folder / "kernel.py", env=same, cwd=folder) as told_before:
        warm = told_before.run(Candidate(source))
    assert warm.errors[-1].frames[-1].line == 5
    assert "exit" in json.loads((warm.directory / "result.json").read_text())["facts"]  # no process of its own


def test_nothing_is_imported_before_the_script_does(runner) -> None:
    source = (
        "import sys\nassert not {'torch', 'tilelang', 'tvm', 'tvm_ffi', 'torch.nn'} & set(sys.modules)\n"
        "import torch\nassert torch.cuda.get_device_capability() == (9, 0) and 'tilelang' not in sys.modules\n"
        "import tilelang\nfrom tvm import tirx\nassert tilelang.language.PrimFunc and 'torch.nn' in sys.modules\n"
    )
    shown = runner.run(Candidate(source))
    assert (shown.status, shown.errors) == ("succeeded", ())
    assert next(e["name"] for e in told(shown, "module")) == "torch"


@pytest.mark.parametrize("first", ["tvm", "tvm_ffi", "torch", "tilelang"])
def test_packages_may_be_imported_in_any_order(runner, first) -> None:
    source = (
        f"try:\n    import {first}\nexcept ModuleNotFoundError as error:\n    assert error.name == 'tvm'\n" + PRODUCT
    )
    assert runner.run(Candidate(source)).status == "succeeded"


def may_leave_the_network() -> bool:
    command = ["unshare", "--net"] if os.getuid() == 0 else ["unshare", "--user", "--net"]
    return shutil.which("unshare") is not None and subprocess.run([*command, "true"], check=False).returncode == 0


@pytest.mark.skipif(not may_leave_the_network(), reason="this kernel does not let a process leave its network")
def test_a_candidate_has_no_network_but_its_own(runner) -> None:
    own = "import socket\nserver = socket.create_server(('127.0.0.1', 0))\nsocket.create_connection(server.getsockname())\n"
    assert runner.run(Candidate(own)).status == "succeeded"
    shown = runner.run(Candidate("import socket\nsocket.create_connection(('192.0.2.1', 80), timeout=5)\n"))
    assert "unreachable" in shown.errors[-1].message


def test_forks_do_not_share_their_random_numbers(runner) -> None:
    source = "import random, numpy, torch\nprint(random.random(), numpy.random.rand(), torch.rand(1).item())\n"
    printed = [(runner.again(Candidate(source)).directory / "stdout").read_text().split() for _ in range(2)]
    assert not set(printed[0]) & set(printed[1])


def test_what_c_printed_is_not_lost(runner) -> None:
    shown = runner.run(Candidate("import ctypes\nctypes.CDLL(None).printf(b'from C\\n')\n"))
    assert (shown.directory / "stdout").read_text() == "from C\n"


def test_a_hang_is_timed_out_and_all_it_started_is_gone(runner, tmp_path) -> None:
    source = f"""import os, subprocess
child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
open({str(tmp_path / "pids")!r}, "w").write(f"{{child.pid}} {{os.getpid()}}")
while True:
    pass
"""
    shown = runner.run(Candidate(source), seconds=1.0)
    assert shown.status == "timed_out"
    assert (shown.errors[-1].kind, shown.errors[-1].frames[-1].user) == ("timeout", True)
    assert shown.errors[-1].frames[-1].line in (4, 5)
    assert not any(alive(int(pid)) for pid in (tmp_path / "pids").read_text().split())


@pytest.mark.parametrize(
    ("source", "type", "message"),
    [
        ("import os\nos._exit(3)\n", "SystemExit", "exit status 3"),
        ("import sys\nsys.exit('no such shape')\n", "SystemExit", "no such shape"),
        ("import atexit, os\natexit.register(os._exit, 5)\n", "SystemExit", "exit status 5"),
        ("1 +\n", "SyntaxError", "invalid syntax"),
        ("import not_there\n", "ModuleNotFoundError", "not_there"),
    ],
)
def test_other_ends_are_told(runner, source, type, message) -> None:
    shown = runner.run(Candidate(source))
    assert (shown.status, shown.errors[-1].type) == ("failed", type)
    assert message in shown.errors[-1].message


def test_a_crash_is_a_signal_at_the_line_that_ran(runner) -> None:
    shown = runner.run(Candidate(HEAD + "import ctypes\n\n\ndef read():\n    ctypes.string_at(0)\n\n\nread()\n"))
    assert (shown.status, shown.errors[-1].kind, shown.errors[-1].type) == ("failed", "signal", "SIGSEGV")
    assert [f.line for f in shown.errors[-1].frames if f.user] == [10, 7]


def test_output_is_kept_up_to_a_limit(runner) -> None:
    shown = runner.run(Candidate("line = 'x' * 9999\nfor _ in range(3000):\n    print(line)\n"))
    assert shown.status == "succeeded"
    assert 8 << 20 < (shown.directory / "stdout").stat().st_size < 9 << 20


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (
            "try:\n    open('big', 'wb').write(bytes(64 << 20))\nexcept OSError:\n    pass\n",
            "more than a file may hold",
        ),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n", "from outside"),
        (
            "import subprocess\nfor _ in range(70):\n    last = subprocess.Popen(['sleep', '100'])\nlast.wait()\n",
            "processes",
        ),
    ],
    ids=["written", "killed", "processes"],
)
def test_what_a_limit_ends_says_nothing_about_the_script(runner, source, why) -> None:
    shown = runner.run(Candidate(source), 20.0)
    assert shown.status == "infra_error"
    assert why in shown.why


def test_the_lines_that_ran_are_known(runner) -> None:
    source = "if True:\n    a = 1\nelse:\n    a = 2\n\n\ndef never():\n    return 3\n\n\ndef once():\n    return 4\n\n\nonce()\nimport os\nos._exit(0)\nlast = 5\n"
    assert runner.run(Candidate(source)).executed is None
    assert runner.run(Candidate(source, trace=True)).executed == {1, 2, 7, 11, 12, 15, 16, 17}


def test_lines_of_a_kernel_run_when_it_is_built(runner) -> None:
    lines = WRONG_TILE.splitlines()
    shown = runner.run(Candidate(WRONG_TILE, trace=True))
    failing = next(n for n, line in enumerate(lines, 1) if "transpose_B" in line)
    assert {failing - 1, failing} <= shown.executed
    assert failing + 1 not in shown.executed
    assert all(lines[n - 1].strip() for n in shown.executed)


def test_arguments_and_the_call_reach_the_script(runner) -> None:
    source = "import sys\n\n\ndef main(n):\n    raise ValueError(f'{n} {sys.argv[1:]}')\n"
    shown = runner.run(Candidate(source, argv=("--rows", "7"), call="main(3)"))
    assert shown.errors[-1].message == "3 ['--rows', '7']"


def test_a_module_in_memory_that_the_folder_shadows_is_not_run_past(tmp_path) -> None:
    pytest.importorskip("tilelang")
    (tmp_path / "numpy.py").write_text("")
    (tmp_path / "kernel.py").write_text("import numpy\nnumpy.ones\n")
    with ScriptRunner(tmp_path / "runner", tmp_path / "kernel.py", cwd=tmp_path) as runner:
        shown = runner.run(Candidate("import numpy\nnumpy.ones\n"))
    assert shown.status == "infra_error"
    assert "numpy.py" in shown.why


def test_a_candidate_is_answered_from_disk_by_a_new_runner(folder, tmp_path) -> None:
    pytest.importorskip("tilelang")
    slow = Candidate("import time\ntime.sleep(1)\n")
    with ScriptRunner(tmp_path, folder / "kernel.py", cwd=folder) as runner:
        first = runner.run(Candidate(WRONG_TILE))
        assert runner.run(slow, 0.5).status == "timed_out"
        assert runner.count == 2
    with ScriptRunner(tmp_path, folder / "kernel.py", cwd=folder) as runner:
        assert runner.run(Candidate(WRONG_TILE)) == first
        assert runner.run(slow, 0.3).status == "timed_out"  # would not have ended either
        assert runner.count == 0
        assert runner.run(slow, 10.0).status == "succeeded"
        assert runner.identity(slow) != runner.identity(Candidate(slow.source, argv=("1",)))
    with ScriptRunner(tmp_path, folder / "kernel.py", cwd=folder, arch="sm_80") as runner:
        assert runner.run(Candidate(PRODUCT)).arch == "sm_80"
        runner.run(Candidate(WRONG_TILE))
        assert runner.count == 2


def test_a_kill_of_triage_leaves_no_process_and_no_result(folder, tmp_path) -> None:
    pytest.importorskip("tilelang")
    pids = tmp_path / "pids"
    source = f"""import os, subprocess, time
child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
open({str(pids)!r} + "~", "w").write(f"{{child.pid}} {{os.getpid()}}")
os.rename({str(pids)!r} + "~", {str(pids)!r})
time.sleep(1000)
"""
    client = f"""from pathlib import Path
from triage.experiment.scripts import Candidate, ScriptRunner
with ScriptRunner(Path({str(tmp_path / "runner")!r}), Path({str(folder / "kernel.py")!r}), cwd=Path({str(folder)!r})) as runner:
    runner.run(Candidate({source!r}))
"""
    root = str(Path(__file__).resolve().parents[2])
    triage = subprocess.Popen([sys.executable, "-c", client], env={**os.environ, "PYTHONPATH": root})
    deadline = time.monotonic() + 60
    while not pids.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    started = [int(pid) for pid in pids.read_text().split()]
    assert all(alive(pid) for pid in started)
    triage.send_signal(signal.SIGKILL)
    triage.wait()
    deadline = time.monotonic() + 10
    while any(alive(pid) for pid in started) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(alive(pid) for pid in started)
    with ScriptRunner(tmp_path / "runner", folder / "kernel.py", cwd=folder) as runner:
        assert runner.run(Candidate(source), 1.0).status == "timed_out"
        assert runner.count == 1


def test_the_first_in_order_is_the_answer_whichever_ends_first(folder, tmp_path) -> None:
    texts = [
        "assert 1",
        "import time\ntime.sleep(1.0)\nassert 0, 'slow'",
        "assert 0, 'quick'",
        "import time\ntime.sleep(60)\nassert 0, 'never'",
    ]
    with ScriptRunner(tmp_path, folder / "kernel.py", cwd=folder, jobs=3) as runner:
        found = runner.first(map(Candidate, texts), lambda shown: shown.status == "failed", 90.0)
        assert found is not None
        candidate, shown = found
        assert (candidate.source, shown.errors[-1].message) == (texts[1], "slow")
        assert shown.seconds < 30
        again = runner.count
        assert runner.run(Candidate(texts[1])).id == shown.id
        assert runner.count == again
        assert runner.first(map(Candidate, texts[:1]), lambda shown: shown.status == "failed") is None
        assert runner.run(Candidate("assert 0, 'after'")).errors[-1].message == "after"
    left = {path.name for path in tmp_path.iterdir() if path.is_dir()} - {"blobs"}
    assert all(len(name) == 32 for name in left), left


def test_what_was_given_up_is_ended_when_the_search_for_candidates_breaks_off(folder, tmp_path) -> None:
    def texts():
        yield Candidate("import time\ntime.sleep(60)\n")
        raise KeyError("no more")

    with ScriptRunner(tmp_path, folder / "kernel.py", cwd=folder, jobs=2) as runner:
        with pytest.raises(KeyError):
            runner.first(texts(), lambda shown: True, 90.0)
        began = time.monotonic()
        assert runner.run(Candidate("assert 0, 'after'")).errors[-1].message == "after"
    assert time.monotonic() - began < 30  # far below what the first would have slept
