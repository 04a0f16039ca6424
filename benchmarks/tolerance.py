"""The tolerance model against measured errors: `python benchmarks/tolerance.py [--results N] [--seed S]`.

Every line is one kernel, emulated in numpy as its accumulator works: the rms error that the model expects, the one that was
measured, their ratio, and the largest error over the band of its element (above 1 the model would accuse a right kernel). Sums are
over normal, uniform, positive and very uneven inputs. At the end stand the errors that were measured on a GPU.

Then comes what `verdict` says of right and wrong kernels over thirteen kinds of inputs, all of which it takes for normal.

The bars: no right kernel is accused; the ratio of measured to expected between 0.25 and `RMS_FACTOR` (3 for very uneven inputs), and no element above its band.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(ROOT / "tests" / "numerics"))

from emulated import DISTRIBUTIONS, Case, accumulated, dot_case, inputs, measured, rounded  # noqa: E402

from triage.numerics.formats import FORMATS, Format  # noqa: E402
from triage.numerics.operations import attention_model, layernorm_model, rmsnorm_model, softmax_model  # noqa: E402
from triage.numerics.rounding import Accumulator, accumulator_of, stagnates  # noqa: E402
from triage.numerics.tolerance import RMS_FACTOR, Data, Dot, Model, dot_model, run_to_run  # noqa: E402
from triage.numerics.verdict import verdict  # noqa: E402

#: bounds of functions count as their rms, so that fp32 results are often better than expected
LEAST_RATIO = 0.25
#: of very uneven inputs a few results make the rms, which then differs from seed to seed
UNEVEN_RATIO = 3.0
LENGTHS = (64, 256, 1024, 4096, 16384)
Array = np.ndarray


@dataclass(frozen=True)
class Hardware:
    """A figure that was measured on one NVIDIA H200 (tilelang 0.1.15, CUDA 13.0): 4096 x 4096 x 4096, normal float16 inputs."""

    name: str
    accumulator: str
    relative_error: float


#: `|c - a @ b| / |a @ b|` (Frobenius norms), the reference multiplied in fp32 from the rounded inputs and not rounded itself
H200 = (
    Hardware("gemm, float32 accumulator", "float32", 2.077e-4),
    Hardware("gemm, float16 accumulator", "float16", 2.351e-3),
)
#: 65,536 rows of normal float32 values added by atomics: the largest difference of two runs at values of about 300
H200_ATOMICS = 4.5e-3


# ------------------------------------------------------------------------------------------------------------ comparing


@dataclass(frozen=True)
class Line:
    """A kernel's figures; errors over the rms of the result."""

    name: str
    expected: float
    measured: float
    #: the largest error over the band of its element
    largest: float

    @property
    def ratio(self) -> float:
        return self.measured / self.expected if self.expected else math.inf

    @property
    def good(self) -> bool:
        most = UNEVEN_RATIO if "few large" in self.name else RMS_FACTOR
        return LEAST_RATIO <= self.ratio <= most and self.largest <= 1


def compared(name: str, model: Model, case: Case) -> Line:
    size = float(np.sqrt((case.r**2).mean()))
    pairs = list(zip(case.s.ravel().tolist(), np.abs(case.r).ravel().tolist(), strict=True))
    expected = math.sqrt(sum(model.rms(s, r) ** 2 for s, r in pairs) / len(pairs))
    limits = np.array([model.limit(s, r) for s, r in pairs])
    measured = float(np.sqrt((case.error**2).mean()))
    return Line(name, expected / size, measured / size, float((np.abs(case.error).ravel() / limits).max()))


def products_lines(results: int, generator: np.random.Generator) -> Iterator[Line]:
    """Matrix products over every accumulator, distribution and length."""
    half, bfloat, single = FORMATS["float16"], FORMATS["bfloat16"], FORMATS["float32"]
    e4m3, e5m2 = FORMATS["float8_e4m3"], FORMATS["float8_e5m2"]
    kernels = (
        ("fp16, fp32 accumulator, fp16 out", half, accumulator_of("float32", half), half, True),
        ("fp16, fp32 accumulator, fp32 out", half, accumulator_of("float32", half), single, True),
        ("fp16, fp16 accumulator", half, accumulator_of("float16", half), half, True),
        ("fp16, fp16 accumulator, one by one", half, Accumulator("float16", half), half, True),
        ("bf16, fp32 accumulator, bf16 out", bfloat, accumulator_of("float32", bfloat), bfloat, True),
        ("bf16, unrounded reference, fp32 out", bfloat, accumulator_of("float32", bfloat), single, False),
        (
            "tf32, unrounded reference",
            FORMATS["tfloat32"],
            accumulator_of("float32", FORMATS["tfloat32"]),
            single,
            False,
        ),
        ("fp32, one by one", single, Accumulator("float32", single), single, True),
        ("e4m3, 14 bits", e4m3, accumulator_of("hopper-fp8", e4m3), single, True),
        ("e4m3, 14 bits, promoted", e4m3, accumulator_of("hopper-fp8-promoted", e4m3), single, True),
        ("e5m2, unrounded reference, bf16 out", e5m2, accumulator_of("float32", e5m2), bfloat, False),
    )
    for name, of, kept, out, same in kernels:
        for distribution in ("normal", "uniform", "positive", "few large"):
            for k in LENGTHS:
                dot = Dot(k, of, kept, out, None, reads_rounded=same)
                case, dot = dot_case(dot, distribution, results, generator)
                if dot.data.same_sign and stagnates(k, kept):  # the model says that it does not know
                    continue
                yield compared(f"{name}, {distribution}, K={k}", dot_model(dot), case)


def atomics_lines(results: int, generator: np.random.Generator) -> Iterator[Line]:
    """Split-K: the error, and the difference of two runs in other orders."""
    half, single = FORMATS["float16"], FORMATS["float32"]
    for out in (single, half):
        for distribution in ("normal", "positive"):
            for n in (4, 32, 256):
                dot = Dot(4096, half, accumulator_of("float32", half), out, None, atomics=n)
                case, dot = dot_case(dot, distribution, results, generator)
                name = f"{n} atomics in {out.name}, {distribution}"
                yield compared(name, dot_model(dot), case)
                yield _between_runs(f"{name}, run to run", dot, case, results, generator)


def _between_runs(name: str, dot: Dot, case: Case, results: int, generator: np.random.Generator) -> Line:
    parts = rounded(
        inputs("positive" if dot.data.same_sign else "normal", (results, dot.atomics), generator), dot.output
    )
    kept = Accumulator(dot.output.name, dot.output)
    once, again = (accumulated(generator.permuted(parts, axis=-1), kept) for _ in range(2))
    measured = float(np.sqrt(((once - again) ** 2).mean()))
    size = float(np.sqrt((parts.sum(-1) ** 2).mean()))
    s = float(np.sqrt((np.abs(parts).sum(-1) ** 2).mean()))
    expected, race = run_to_run(replace(dot, k=dot.atomics, data=_data_of(parts)), s, size)
    return Line(name, expected / size, measured / size, float(np.abs(once - again).max()) / race)


def _data_of(terms: Array) -> Data:
    count = terms.shape[-1]
    kappa = float(count * (terms**2).sum(-1).mean() / (np.abs(terms).sum(-1) ** 2).mean())
    return Data("measured", kappa, float(np.sqrt((terms**2).mean())), bool((terms >= 0).all()))


def operations_lines(results: int, generator: np.random.Generator) -> Iterator[Line]:
    """Softmax, norms and attention in float32 steps, stored in float16, bfloat16 and float32."""
    rows = max(16, results // 16)
    kernels: tuple[
        tuple[str, Callable[[Array], Array], Callable[[Array], Array], Callable[[Format, int], object]], ...
    ] = (
        ("softmax", _softmax32, _softmax, lambda out, n: softmax_model(n, 9.0, FORMATS["float32"], out, None)),
        ("rmsnorm", _rmsnorm32, _rmsnorm, lambda out, n: rmsnorm_model(n, FORMATS["float32"], out, None)),
        ("layernorm", _layernorm32, _layernorm, lambda out, n: layernorm_model(n, 1.0, FORMATS["float32"], out, None)),
    )
    for name, kernel, reference, model_of in kernels:
        for out in (FORMATS["float16"], FORMATS["bfloat16"], FORMATS["float32"]):
            for n in (128, 4096):
                x = rounded(
                    generator.standard_normal((rows, n)) + (1.0 if name == "layernorm" else 0.0), FORMATS["float16"]
                )
                exact = reference(x)
                error = rounded(kernel(x.astype(np.float32)).astype(np.float64), out) - exact
                model = model_of(out, n)
                assert isinstance(model, Model)
                yield compared(f"{name} of {n} in {out.name}", model, Case(error, np.ones_like(exact), exact))
    yield from _attention_lines(rows, generator)


def _softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _softmax32(x: Array) -> Array:
    """As kernels do it: exp2 of a scaled difference, a running sum."""
    scale = np.float32(math.log2(math.e))
    e = np.exp2((x - x.max(-1, keepdims=True)) * scale)
    return e / np.cumsum(e, -1, dtype=np.float32)[..., -1:]


def _rmsnorm(x: Array) -> Array:
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6)


def _rmsnorm32(x: Array) -> Array:
    total = np.cumsum(x * x, -1, dtype=np.float32)[..., -1:]
    return x * (np.float32(1) / np.sqrt(total / np.float32(x.shape[-1]) + np.float32(1e-6)))


def _layernorm(x: Array) -> Array:
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-6)


def _layernorm32(x: Array) -> Array:
    count = np.float32(x.shape[-1])
    centred = x - np.cumsum(x, -1, dtype=np.float32)[..., -1:] / count
    variance = np.cumsum(centred * centred, -1, dtype=np.float32)[..., -1:] / count
    return centred * (np.float32(1) / np.sqrt(variance + np.float32(1e-6)))


def _attention_lines(rows: int, generator: np.random.Generator) -> Iterator[Line]:
    depth = 64
    for out in (FORMATS["float16"], FORMATS["bfloat16"]):
        for n in (128, 2048):
            q, k, v = (rounded(generator.standard_normal((m, depth)), out) for m in (rows, n, n))
            scores = (q.astype(np.float32) @ k.T.astype(np.float32)) / np.float32(math.sqrt(depth))
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            sums = np.cumsum(weights, -1, dtype=np.float32)[..., -1:]
            narrow = rounded(weights.astype(np.float64), out).astype(np.float32)
            computed = rounded(((narrow @ v.astype(np.float32)) / sums).astype(np.float64), out)
            probabilities = _softmax(q @ k.T / math.sqrt(depth))
            exact = probabilities @ v
            model = attention_model(n, depth, 9.0, out, out, None)
            assert isinstance(model, Model)
            size = np.full_like(exact, math.sqrt((exact**2).mean()))
            yield compared(f"attention over {n} in {out.name}", model, Case(computed - exact, size, exact))


def hardware_lines() -> Iterator[Line]:
    """What was measured on a GPU; the largest errors were not kept."""
    half = FORMATS["float16"]
    for figure in H200:
        dot = Dot(4096, half, accumulator_of(figure.accumulator, half), half, None)
        model = dot_model(dot)
        yield Line(f"H200: {figure.name}, K=4096", model.rms(model.s, model.r) / model.r, figure.relative_error, 0.0)
    n = 65536
    terms = Data("normal", math.pi / 2, 1.0)
    dot = Dot(
        n, FORMATS["float32"], accumulator_of("float32", FORMATS["float32"]), FORMATS["float32"], None, terms, atomics=n
    )
    size = terms.r(n)
    rms, race = run_to_run(dot, terms.s(n), size)
    # the largest of some thousand normal differences is at about 3.5 rms
    yield Line(
        "H200: 65536 atomics in float32, largest of run to run",
        3.5 * rms / size,
        H200_ATOMICS / size,
        H200_ATOMICS / race,
    )


# ------------------------------------------------------------------------------------------------------------- verdicts

FAULTS: dict[str, Callable[[Case, Dot, np.random.Generator], Array]] = {
    "none": lambda case, dot, g: case.error,
    "1 product lost": lambda case, dot, g: case.error + _lost(case, dot, g, 1),
    "32 products lost": lambda case, dot, g: case.error + _lost(case, dot, g, 32),
    "1 % too large": lambda case, dot, g: case.error + 0.01 * case.r,
    "1 element zero": lambda case, dot, g: np.where(np.arange(case.r.size) == 3, -case.r, case.error),
    "all permuted": lambda case, dot, g: np.roll(case.r, 1) - case.r,
    "rounded to bfloat16 on the way": lambda case, dot, g: rounded(case.r + case.error, FORMATS["bfloat16"]) - case.r,
}


def _lost(case: Case, dot: Dot, generator: np.random.Generator, count: int) -> Array:
    """The sum of so many of the products, as large as they are on average."""
    each = case.s / dot.k
    signs = np.ones(case.s.shape) if dot.data.same_sign else generator.standard_normal(case.s.shape) / math.sqrt(count)
    return count * each * signs


def print_verdicts(results: int, generator: np.random.Generator) -> int:
    """What is said of right and wrong kernels whose inputs the model takes for normal. Returns how many right ones are accused."""
    half, bfloat, single = FORMATS["float16"], FORMATS["bfloat16"], FORMATS["float32"]
    counts: dict[str, Counter[str]] = {}
    for distribution in DISTRIBUTIONS:
        for of, out in ((half, half), (half, single), (bfloat, bfloat), (single, single)):
            for k in (64, 512, 4096):
                dot = Dot(k, of, accumulator_of("float32", of), out, None)
                case, known = dot_case(dot, distribution, results, generator)
                for fault, make in FAULTS.items():
                    if fault == "rounded to bfloat16 on the way" and out is bfloat:
                        continue
                    seen = measured(Case(make(case, known, generator), case.s, case.r), dot_model(dot))
                    counts.setdefault(fault, Counter())[verdict(dot_model(dot), seen).kind] += 1
    for fault, kinds in counts.items():
        print(
            f"{fault:32} "
            + "  ".join(f"{kind} {kinds[kind]}" for kind in ("inside", "unknown", "outside", "accumulator"))
        )
    return sum(counts["none"][kind] for kind in ("outside", "accumulator"))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--results", type=int, default=512, help="results of each kernel (512)")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    generator = np.random.default_rng(args.seed)
    bad = total = 0
    print(f"{'':58} expected  measured  ratio  largest/band")
    for lines in (
        products_lines(args.results, generator), atomics_lines(args.results, generator),
        operations_lines(args.results, generator), hardware_lines(),
    ):  # fmt: skip
        for line in lines:
            total += 1
            bad += not line.good
            print(
                f"{line.name:58} {line.expected:8.2e}  {line.measured:8.2e}  {line.ratio:5.2f}  {line.largest:6.2f}"
                f"{'' if line.good else '  <-'}"
            )
    print(f"{total - bad} of {total} within the bars\n\nverdicts, by what is wrong with the kernel")
    accused = print_verdicts(args.results, generator)
    return 1 if bad or accused else 0


if __name__ == "__main__":
    sys.exit(main())
