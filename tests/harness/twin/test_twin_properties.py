"""Random elementwise expressions against NumPy: each operator rounds as its type says."""

import linecache
import operator

import ml_dtypes
import numpy as np
import pytest
import tilelang.language as T
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

LENGTH = 37

NUMPY = {"bfloat16": ml_dtypes.bfloat16}

FLOATS = ("float32", "float16", "bfloat16", "float64")
INTEGERS = ("int32", "int8", "uint8", "int64", "uint32")

FLOAT_OPERATORS = {
    "{} + {}": operator.add,
    "{} - {}": operator.sub,
    "{} * {}": operator.mul,
    "T.max({}, {})": np.fmax,
    "T.min({}, {})": np.fmin,
    "T.if_then_else({0} < {1}, {0}, {1} - {0})": lambda a, b: np.where(a < b, a, b - a),
}
INTEGER_OPERATORS = {
    "{} + {}": operator.add,
    "{} - {}": operator.sub,
    "{} * {}": operator.mul,
    "T.max({}, {})": np.maximum,
    "T.min({}, {})": np.minimum,
    "({} & {})": operator.and_,
    "({} | {})": operator.or_,
    "({} ^ {})": operator.xor,
    "T.floordiv({}, {})": lambda a, b: np.where(b == 0, 0, a // np.where(b == 0, 1, b)).astype(a.dtype),
    "T.floormod({}, {})": lambda a, b: np.where(b == 0, 0, a % np.where(b == 0, 1, b)).astype(a.dtype),
    "T.if_then_else({0} >= {1}, {0}, {1})": np.maximum,
}


def expressions(operators):
    """Texts of expressions over `A[i]`, `B[i]` and `C[i]`, each with what computes the same from three arrays."""
    leaves = st.sampled_from([(f"{name}[i]", index) for index, name in enumerate("ABC")]).map(
        lambda leaf: (leaf[0], lambda *arrays: arrays[leaf[1]])
    )

    def combine(children):
        def join(parts):
            (text, function), (left, of_left), (right, of_right) = parts
            return f"({text.format(left, right)})", lambda *arrays: function(of_left(*arrays), of_right(*arrays))

        return st.tuples(st.sampled_from(list(operators.items())), children, children).map(join)

    return st.recursive(leaves, combine, max_leaves=6)


def kernel_of(text, dtype, lanes):
    """A kernel that computes the expression for every element: as a parallel loop, or by single threads."""
    body = {
        "parallel": f"        for i in T.Parallel({LENGTH}):\n            D[i] = {text}\n",
        "threads": f"        i = T.get_thread_binding()\n        if i < {LENGTH}:\n            D[i] = {text}\n",
        "serial": f"        for i in T.serial({LENGTH}):\n            D[i] = {text}\n",
    }[lanes]
    parameters = ", ".join(f'{name}: T.Tensor(({LENGTH},), "{dtype}")' for name in "ABCD")
    source = f"@T.prim_func\ndef main({parameters}):\n    with T.Kernel(1, threads=64):\n{body}"
    name = f"<kernel {abs(hash(source))}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    namespace = {"T": T}
    exec(compile(source, name, "exec"), namespace)
    return namespace["main"]


def check(twin, text, expected, dtype, lanes, seed):
    kind = np.dtype(NUMPY.get(dtype, dtype))
    random = np.random.default_rng(seed)
    if dtype in FLOATS:
        arrays = [(random.standard_normal(LENGTH) * 3).astype(kind) for _ in range(3)]
    else:
        info = np.iinfo(kind)
        arrays = [random.integers(info.min, info.max, LENGTH, dtype=kind, endpoint=True) for _ in range(3)]
    got = twin.poison(np.empty(LENGTH, kind))
    outcome = twin.run(kernel_of(text, dtype, lanes), [*arrays, got], fresh=[3])
    with np.errstate(all="ignore"):
        want = np.broadcast_to(expected(*arrays), (LENGTH,)).astype(kind)
    assert got.tobytes() == want.tobytes(), (text, got, want)
    assert {h.kind for h in outcome.happenings} <= {"division-by-zero"}


COMMON = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
LANES = st.sampled_from(["parallel", "threads", "serial"])


@COMMON
@given(expressions(FLOAT_OPERATORS), st.sampled_from(FLOATS), LANES, st.integers(0, 1000))
def test_floats(twin, expression, dtype, lanes, seed):
    check(twin, *expression, dtype, lanes, seed)


@COMMON
@given(expressions(INTEGER_OPERATORS), st.sampled_from(INTEGERS), LANES, st.integers(0, 1000))
def test_integers(twin, expression, dtype, lanes, seed):
    check(twin, *expression, dtype, lanes, seed)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize(
    ("text", "function"),
    [
        ("T.exp(A[i])", np.exp),
        ("T.exp2(A[i])", np.exp2),
        ("T.log(T.abs(A[i]) + 1)", lambda x: np.log(np.abs(x) + 1)),
        ("T.log2(T.abs(A[i]) + 1)", lambda x: np.log2(np.abs(x) + 1)),
        ("T.sqrt(T.abs(A[i]))", lambda x: np.sqrt(np.abs(x))),
        ("T.rsqrt(T.abs(A[i]) + 1)", lambda x: 1 / np.sqrt(np.abs(x) + 1)),
        ("T.tanh(A[i])", np.tanh),
        ("T.sigmoid(A[i])", lambda x: 1 / (1 + np.exp(-x))),
        ("T.sin(A[i])", np.sin),
        ("T.cos(A[i])", np.cos),
        ("T.floor(A[i])", np.floor),
        ("T.ceil(A[i])", np.ceil),
        ("T.erf(A[i])", lambda x: np.array([__import__("math").erf(v) for v in x])),
        ("T.clamp(A[i], -1, 1)", lambda x: np.clip(x, -1, 1)),
        ("A[i] / (B[i] * B[i] + 1)", None),
    ],
)
def test_mathematics(twin, dtype, text, function):
    kind = np.dtype(NUMPY.get(dtype, dtype))
    random = np.random.default_rng(3)
    a, b, c = ((random.standard_normal(LENGTH) * 2).astype(kind) for _ in range(3))
    got = np.empty(LENGTH, kind)
    assert twin.run(kernel_of(text, dtype, "parallel"), [a, b, c, got], fresh=[3]).happenings == []
    x, y = a.astype(np.float64), b.astype(np.float64)
    want = function(x) if function else x / (y * y + 1)
    error = {"float32": 1e-6, "float16": 2e-3, "bfloat16": 2e-2}[dtype]
    assert np.allclose(got.astype(np.float64), want, rtol=error, atol=error)


@pytest.mark.parametrize("lanes", ["parallel", "serial"])
@pytest.mark.parametrize(
    ("text", "function"),
    [
        ("T.shift_left(A[i], B[i] & 7)", lambda a, b, c: a << (b & 7)),
        ("T.shift_right(A[i], B[i] & 7)", lambda a, b, c: a >> (b & 7)),
        ("T.popcount(A[i])", lambda a, b, c: np.array([bin(int(v) & 0xFFFFFFFF).count("1") for v in a], np.int32)),
        ("T.truncdiv(A[i], T.max(B[i], 1))", lambda a, b, c: np.trunc(a / np.maximum(b, 1)).astype(np.int32)),
        ("T.truncmod(A[i], T.max(B[i], 1))", lambda a, b, c: np.fmod(a, np.maximum(b, 1))),
        ("T.reinterpret(T.reinterpret(A[i], dtype='float32'), dtype='int32')", lambda a, b, c: a),
        ("T.Cast('int32', T.Cast('int8', A[i]))", lambda a, b, c: a.astype(np.int8).astype(np.int32)),
    ],
)
def test_bits_and_truncation(twin, lanes, text, function):
    random = np.random.default_rng(3)
    arrays = [random.integers(-(2**31), 2**31, LENGTH).astype(np.int32) for _ in range(3)]
    got = np.empty(LENGTH, np.int32)
    assert twin.run(kernel_of(text, "int32", lanes), [*arrays, got], fresh=[3]).happenings == []
    assert np.array_equal(got, function(*arrays))
