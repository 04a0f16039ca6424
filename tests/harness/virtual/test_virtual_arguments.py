"""The checks of a virtual launch say what tilelang's generated host code says, call by call."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.tilelang

HOST_CHECKS = Path(__file__).with_name("host_checks.py")

KERNEL = """
import tilelang
import tilelang.language as T

def build(N, dt="float32"):
    m = T.dynamic("m")

    @T.prim_func
    def scale(A: T.Tensor((N, 8), dt), S: T.Tensor((m, 8), dt), X: T.Tensor((m, 4), "float16"), n: T.int32, f: T.float32,
              M: T.Tensor((N,), "bool"), U: T.Tensor((N, 2), "int32"), B: T.Tensor((N, 8), dt)):
        with T.Kernel(1, threads=32) as bx:
            for i, j in T.Parallel(N, 8):
                B[i, j] = A[i, j] + f + n + S[i % m, j] + T.if_then_else(M[i], 1.0, 0.0)
                if i < m:
                    X[i, j % 4] = 1

    return scale

func = build(16)
kernel = tilelang.compile(func, target={"kind": "cuda", "arch": "sm_80"}) if COMPILE else None
"""


def t(*shape, dtype="float32", strides=None, device="cuda"):
    return [device, list(shape), dtype, strides]


A, S, X, N, F = t(16, 8), t(5, 8), t(5, 4, dtype="float16"), 3, 1.5
M, U, B = t(16, dtype="bool"), t(16, 2, dtype="int32"), t(16, 8)
RIGHT = [A, S, X, N, F, M, U, B]


def changed(**by_position) -> list:
    return [by_position.get(f"a{i}", value) for i, value in enumerate(RIGHT)]


CALLS = {
    "right": RIGHT,
    "another size of the symbolic axis": changed(a1=t(9, 8), a2=t(9, 4, dtype="float16")),
    "an empty symbolic axis": changed(a1=t(0, 8), a2=t(0, 4, dtype="float16")),
    "int for a float": changed(a4=2),
    "bool as int8": changed(a5=t(16, dtype="int8")),
    "unused as None": changed(a6=None),
    "static size": changed(a0=t(17, 8)),
    "static size of the second axis": changed(a0=t(16, 9)),
    "rank below": changed(a0=t(128)),
    "rank above": changed(a7=t(1, 16, 8)),
    "dtype": changed(a0=t(16, 8, dtype="float16")),
    "dtype of an integer": changed(a6=t(16, 2, dtype="int64")),
    "bool as float": changed(a5=t(16)),
    "transposed": changed(a0=t(16, 8, strides=[1, 16])),
    "a view with a wider row": changed(a0=t(16, 8, strides=[10, 1])),
    "every second element": changed(a0=t(16, 8, strides=[16, 2])),
    "stride along the symbolic axis": changed(a1=t(5, 8, strides=[16, 1])),
    "symbolic axis of size one, odd stride": changed(a1=t(1, 8, strides=[99, 1]), a2=t(1, 4, dtype="float16")),
    "two sizes for one symbol": changed(a2=t(6, 4, dtype="float16")),
    "used as None": changed(a0=None),
    "output as None": changed(a7=None),
    "symbol carrier as None": changed(a1=None),
    "number for a tensor": changed(a0=1),
    "tensor for a number": changed(a3=t(1, dtype="int32")),
    "float for an integer": changed(a3=1.5),
    "None for an integer": changed(a3=None),
    "string for a float": changed(a4="x"),
    "host tensor": changed(a0=t(16, 8, device="cpu")),
    "host tensor last": changed(a7=t(16, 8, device="cpu")),
    "unused, wrong shape": changed(a6=t(16, 3, dtype="int32")),
    "two faults in one argument": changed(a0=t(17, 8, dtype="float16")),
    "faults in two arguments, the later one of rank": changed(a0=t(17, 8), a1=t(5)),
    "faults in two arguments": changed(a0=t(16, 8, dtype="float16"), a7=t(17, 8)),
}


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("kernel") / "kernel.py"
    path.write_text("import sys\nCOMPILE = 'host_checks' in sys.argv[0]\n" + KERNEL)
    return path


@pytest.fixture(scope="module")
def host(source) -> dict[str, str]:
    """What the generated host code says to each call."""
    environment = {**os.environ, "TILELANG_DISABLE_CACHE": "1"}
    done = subprocess.run(
        [sys.executable, str(HOST_CHECKS), str(source)],
        input=json.dumps(list(CALLS.values())),
        capture_output=True,
        text=True,
        timeout=600,
        env=environment,
    )
    line = next((x for x in done.stdout.splitlines() if x.startswith("ANSWERS")), None)
    assert line is not None, done.stderr[-2000:]
    return dict(zip(CALLS, json.loads(line.removeprefix("ANSWERS")), strict=True))


@pytest.fixture(scope="module")
def virtual(source, harness) -> dict[str, str]:
    """What the checks of a virtual launch say to each call."""
    arguments, tensors = harness("virtual.arguments"), harness("virtual.tensors")
    namespace: dict = {}
    exec(compile(source.read_text(), str(source), "exec", dont_inherit=True), namespace)
    signature = harness("virtual.signature").signature(namespace["func"], [])
    sys.path.insert(0, str(HOST_CHECKS.parent))
    from host_checks import plain

    def argument(value):
        if not isinstance(value, list):
            return value
        tensor = plain(value)
        place = tensors.DEVICE if value[0] == "cuda" else tensors.CPU
        return tensors.adopt(tensor, place=place)

    said = {}
    for name, call in CALLS.items():
        try:
            arguments.check_tvm_ffi(signature, tuple(argument(a) for a in call))
        except (RuntimeError, ValueError) as error:
            said[name] = f"{type(error).__name__}: {error}"
        else:
            said[name] = ""
    return said


@pytest.mark.parametrize("name", CALLS)
def test_the_host_code_says_the_same(host, virtual, name):
    assert virtual[name] == host[name]
