"""Whole scripts on the virtual device."""

from __future__ import annotations

import pytest
from sampling import one_in

pytestmark = pytest.mark.tilelang

MATMUL = """
import torch
import tilelang
import tilelang.language as T

@tilelang.jit(out_idx=[-1])
def matmul(M, N, K, dtype="float16"):
    @T.prim_func
    def product(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(N, 64), T.ceildiv(M, 64), threads=128) as (bx, by):
            a = T.alloc_shared((64, 32), dtype)
            b = T.alloc_shared((32, 64), dtype)
            c = T.alloc_fragment((64, 64), "float32")
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(K, 32), num_stages=2):
                T.copy(A[by * 64, k * 32], a)
                T.copy(B[k * 32, bx * 64], b)
                T.gemm(a, b, c)
            T.copy(c, C[by * 64, bx * 64])
    return product
"""

COMPARISONS = """
kernel = matmul(1024, 1024, 1024)
a = torch.randn(1024, 1024, device="cuda", dtype=torch.float16)
b = torch.randn(1024, 1024).half().cuda()
c = kernel(a, b)
assert c.shape == (1024, 1024) and c.dtype == torch.float32 and c.device == torch.device("cuda:0") and c.is_cuda
reference = (a @ b).float()
torch.testing.assert_close(c, reference, rtol=1e-2, atol=1e-2)
assert torch.allclose(c, reference)
assert (c - reference).abs().max() < 1e-3
error = (c - reference).abs().max().item()
assert error < 1e-3, f"off by {error:.3f}"
if not torch.equal(c, reference):
    raise RuntimeError("not equal")
import numpy as np
np.testing.assert_allclose(c.cpu().numpy(), reference.cpu().numpy())
small = matmul(64, 64, 64)
x = torch.ones(64, 64, device="cuda", dtype=torch.float16)
y = small(x, x)
assert (y - 64).abs().max() < 1e-3
assert np.abs(y.cpu().numpy() - 64).max() < 1e-3
tilelang.testing = __import__("tilelang.testing", fromlist=["x"])
tilelang.testing.torch_assert_close(c, reference)
profiler = kernel.get_profiler()
profiler.assert_allclose(lambda a, b: (a @ b).float())
profiler.assert_consistent(repeat=2)
print("LATENCY", profiler.do_bench(), tilelang.profiler.do_bench(lambda: kernel(a, b), quantiles=[0.2, 0.5, 0.8]))
print("SOURCE", "__global__" in kernel.get_kernel_source())
"""


def test_a_kernel_is_launched_compared_and_benchmarked(device):
    run = device(MATMUL + COMPARISONS)
    assert run.code == 0, run.output
    assert not run.complaints()
    assert "LATENCY 1.0 [1.0, 1.0, 1.0]" in run.output
    assert "SOURCE True" in run.output
    launches = run.of("launch.begin")
    assert [a["shape"] for a in launches[0]["args"]] == [[1024, 1024], [1024, 1024]]
    assert launches[0]["args"][0] | {"name": ""} == {
        "name": "",
        "shape": [1024, 1024],
        "dtype": "float16",
        "stride": [1024, 1],
        "device": "cuda:0",
    }
    line = (MATMUL + COMPARISONS).split("\n").index("c = kernel(a, b)") + 1
    assert launches[0]["at"]["line"] == line
    assert all(e["virtual"] for e in launches)
    assert len(run.of("launch.end")) == len(launches)
    compared = run.of("compare")
    assert {e["function"] for e in compared} >= {
        "torch.testing.assert_close",
        "torch.allclose",
        "torch.equal",
        "numpy.testing.assert_allclose",
        "tilelang.testing.torch_assert_close",
    }
    assert all(e["virtual"] and e["matched"] is None and e["at"] for e in compared)
    assert {e["caliber"] for e in run.of("timing")} == {"virtual"}
    assert {"kernel launches", "do_bench"} <= run.virtual


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    one_in(
        2,
        [
            (
                "kernel(a[:, :512], b)",
                "RuntimeError",
                "input A shape[1] violates packed ABI constraint; expected: 512, got: 1024",
            ),
            ("kernel(a.float(), b)", "RuntimeError", "input A dtype mismatch, expected float16"),
            (
                "kernel(a, b.t())",
                "RuntimeError",
                "input B strides[1] violates packed ABI constraint; expected: 1024, got: 1",
            ),
            ("kernel(a)", "ValueError", "Kernel expected 2 inputs, but 1 are provided."),
            ("kernel(a, None)", "RuntimeError", "product.B is expected to have non-NULL pointer"),
            ("kernel(a.cpu(), b)", "RuntimeError", "allocator anchor has the wrong device type; expected: 1, got: 2"),
            (
                "kernel(a, torch.zeros(1024, 1024).half())",
                "RuntimeError",
                "input B device_type mismatch, expected cuda",
            ),
        ],
    ),
)
def test_a_wrong_call_is_reported_at_its_line(device, call, kind, words):
    text = MATMUL + (
        "kernel = matmul(1024, 1024, 1024)\n"
        "a = torch.randn(1024, 1024, device='cuda').half()\n"
        "b = torch.randn(1024, 1024, device='cuda').half()\n"
        f"{call}\n"
    )
    run = device(text)
    assert run.code == 1
    assert run.error["type"] == kind
    assert words in run.error["message"]
    user = [f for f in run.error["frames"] if f["user"]]
    assert user[-1]["line"] == text.split("\n").index(call) + 1
    assert run.of("launch.end")[-1]["ok"] is False


ARRAYS = """
import numpy as np
import tilelang.testing
small = matmul(64, 64, 64)
x = torch.ones(64, 64, device="cuda", dtype=torch.float16)
got, want = small(x, x).cpu().numpy(), np.full((64, 64), 64, "float32")
assert np.array_equal(got, want) and np.allclose(got, want) and np.array_equiv(got, want)
error = np.abs(got - want).max() / np.abs(want).max()
np.testing.assert_array_less(error, 1e-3)
assert not (got != want).any() and (got.astype("float64")[:2] - want[:2]).sum() < 1e-3
import copy, pickle
assert type(pickle.loads(pickle.dumps(got))) is np.ndarray and copy.deepcopy(got).shape == (64, 64)
total = np.zeros_like(want)
np.add(total, got, out=total)
print("PLAIN", type(want - 1).__name__, type(np.asarray(want)).__name__)
"""


def test_numpy_compares_made_up_values_without_its_testing_being_imported(device):
    run = device(MATMUL + ARRAYS)
    assert run.code == 0, run.output
    assert not run.complaints()
    assert "PLAIN ndarray ndarray" in run.output
    compared = {e["function"] for e in run.of("compare")}
    assert {"numpy.array_equal", "numpy.allclose", "numpy.array_equiv", "numpy.testing.assert_array_less"} <= compared


def test_real_values_compare_as_ever(device):
    run = device(
        """
        import torch
        x = torch.arange(16, device="cuda")
        assert x.sum().item() == 120 and x.tolist()[3] == 3 and int(x[2]) == 2
        assert torch.equal(x.cpu(), torch.arange(16)) and not torch.equal(x, x + 1)
        assert type(x.cpu()) is torch.Tensor
        weight = torch.randn(4, 4, device="cuda", requires_grad=True)
        (weight * weight).sum().backward()
        torch.testing.assert_close(weight.grad, 2 * weight.detach())
        try:
            torch.testing.assert_close(x, x + 1)
        except AssertionError as error:
            print("MISMATCH", "100.0%" in str(error))
        left, right = torch.ones(3), torch.zeros(3)
        assert torch.allclose(left, right)
        """
    )
    assert run.code == 1
    assert run.error["type"] == "AssertionError"
    assert "MISMATCH True" in run.output
    compares = run.of("compare")
    assert [e["matched"] for e in compares] == [True, False, True, False, False]
    assert not any(e["virtual"] for e in compares)


def test_optimizers_of_torch_step_on_the_virtual_device_as_on_the_host(device):
    run = device(
        """
        import torch

        def stepped(make, place):
            weight = torch.nn.Parameter(torch.full((4,), 2.0, device=place))
            optimizer = make([weight])
            for step in range(2):
                weight.grad = torch.arange(4.0, device=place) + step
                optimizer.step()
            return weight.detach().cpu()

        for name in ("SGD", "Adam", "AdamW", "RMSprop", "Adagrad"):
            def make(weights, optimizer=getattr(torch.optim, name)):
                return optimizer(weights, lr=0.5)
            assert torch.equal(stepped(make, "cuda"), stepped(make, "cpu")), name
        torch.cuda.set_per_process_memory_fraction(0.5)
        assert not torch.cuda.current_stream().is_capturing()
        """
    )
    assert run.code == 0, run.output
    assert not run.complaints()


def test_the_questions_that_scripts_ask_cuda(device):
    run = device(
        """
        import torch
        assert torch.cuda.is_available() and torch.cuda.device_count() == 1 and torch.cuda.current_device() == 0
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        print(properties.name, properties.multi_processor_count, torch.cuda.get_device_capability())
        torch.manual_seed(0); torch.cuda.manual_seed_all(0); torch.cuda.synchronize(); torch.cuda.empty_cache()
        generator = torch.Generator(device="cuda").manual_seed(1)
        x = torch.randn(8, 8, device="cuda", generator=generator)
        y = torch.randn(8, 8, device=0)
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record(); x @ y; end.record(); torch.cuda.synchronize()
        print("ms", start.elapsed_time(end))
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream), torch.cuda.device(0):
            z = x + y
        stream.wait_stream(torch.cuda.current_stream())
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            z = x + y
        graph.replay()
        torch.cuda.cudart().cudaProfilerStart()
        with torch.cuda.profiler.profile():
            x + y
        assert torch.cuda.memory_allocated() == 0 and torch.cuda.mem_get_info()[1] > 1 << 30
        assert torch.accelerator.current_accelerator().type == "cuda"
        torch.set_default_device("cuda")
        assert torch.ones(3).is_cuda and torch.tensor([1.0]).is_cuda and torch.zeros(3).device.index == 0
        torch.set_default_device("cpu")
        with torch.device("cuda"):
            assert torch.arange(3).is_cuda
        model = torch.nn.Linear(4, 4).to("cuda")
        assert model.weight.is_cuda and model(torch.ones(2, 4, device="cuda")).shape == (2, 4)
        assert x.to("cuda") is x and x.to("cpu").device.type == "cpu" and x.half().dtype == torch.float16
        assert torch.zeros(2).to(x).is_cuda and torch.zeros(2).to(device="cuda", dtype=torch.int).dtype == torch.int32
        import copy
        assert copy.deepcopy(x).is_cuda and x.new_zeros(3).is_cuda and torch.empty_like(x).is_cuda
        try:
            x.numpy()
        except TypeError as error:
            print("numpy", "cuda:0" in str(error))
        import torch.utils.benchmark as benchmark
        print("timer", benchmark.Timer("x + y", globals=globals()).timeit(100).mean)
        """,
        arch="sm_80",
    )
    assert run.code == 0, run.output
    assert not run.complaints()
    assert "NVIDIA A100-SXM4-80GB (virtual sm_80) 108 (8, 0)" in run.output
    assert "ms 1.0" in run.output
    assert "numpy True" in run.output
    assert "timer 0.001" in run.output
    assert {"torch.cuda.Event", "torch.cuda.CUDAGraph", "torch.utils.benchmark.Timer"} <= run.virtual


def test_autotuning_takes_the_first_configuration_that_compiles(device):
    run = device(
        MATMUL.replace("@tilelang.jit", "@tilelang.autotune(configs=CONFIGS)\n@tilelang.jit")
        .replace("def matmul(M, N, K, dtype", "def matmul(M, N, K, threads=128, dtype")
        .replace("threads=128)", "threads=threads)")
        .replace(
            "@tilelang.autotune", "CONFIGS = [{'threads': 100}, {'threads': 128}, {'threads': 256}]\n@tilelang.autotune"
        )
        + "kernel = matmul(256, 256, 256)\nprint('CONFIG', kernel.config)\n"
        + "x = torch.randn(256, 256, device='cuda').half()\nprint(kernel(x, x).shape)\n"
    )
    assert run.code == 0, run.output
    assert "CONFIG {'threads': 128}" in run.output
    assert [e["handled"] for e in run.of("error")] == [True]
    assert len(run.of("kernel")) == 2
    assert any(what.startswith("autotuning") for what in run.virtual)


def test_a_cpu_kernel_runs_for_real(device):
    run = device(
        """
        import torch, tilelang
        import tilelang.language as T

        @tilelang.jit(target="c", out_idx=[-1])
        def double(n):
            @T.prim_func
            def twice(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
                with T.Kernel(1):
                    for i in T.serial(n):
                        B[i] = A[i] * 2
            return twice

        x = torch.arange(8, dtype=torch.float32)
        torch.testing.assert_close(double(8)(x), 2 * x)
        torch.testing.assert_close(double(8)(x), 3 * x)
        """
    )
    assert run.code == 1
    assert run.error["type"] == "AssertionError"
    assert [(e["matched"], e["virtual"]) for e in run.of("compare")] == [(True, False), (False, False)]
    assert "kernel launches" not in run.virtual


def test_packages_of_gpu_machines_are_stood_in_for_and_others_are_not(device):
    run = device(
        """
        try:
            import flash_attn
        except ImportError:
            flash_attn = None
        assert flash_attn is None, "the script handles its absence itself"
        import importlib.util
        assert importlib.util.find_spec("vllm") is None
        import torch
        from fla.ops.gated import chunk_rule
        import flashinfer
        out, state = chunk_rule(torch.ones(3, device="cuda"), scale=1.0)
        x = torch.ones(3, device="cuda")
        torch.testing.assert_close(x, out)
        assert (x - out).abs().max() < 1e-9
        import flashinferr
        """
    )
    assert run.code == 1
    assert run.error["type"] == "ModuleNotFoundError"
    assert "flashinferr" in run.error["message"]
    assert {"fla stubbed", "flashinfer stubbed"} <= run.virtual
    assert "flash_attn stubbed" not in run.virtual
    assert "vllm stubbed" not in run.virtual
    assert [e["function"] for e in run.of("compare")] == ["torch.testing.assert_close"]


def test_the_error_of_a_stood_in_import_is_told_where_nobody_catches_it(device):
    """Plain Python ends there on this machine; a script that catches the error has said what it means."""
    run = device(
        """
        def reference():
            import xformers.ops
            return xformers.ops
        from flashinfer.prefill import (
            single_prefill_with_kv_cache,
        )
        import flashinfer.decode
        try:
            import triton
        except ImportError as error:
            raise SystemExit("install triton") from error
        try:
            reference()
        except ImportError:
            pass
        import torch
        import vllm as serving
        """
    )
    assert run.code == 0
    told = [e for e in run.of("error") if e.get("stubbed")]
    assert told == run.of("error")
    assert [e["error"]["message"] for e in told] == ["No module named 'flashinfer'", "No module named 'vllm'"]
    assert {(e["phase"], e["handled"], e["error"]["type"]) for e in told} == {("import", True, "ModuleNotFoundError")}
    assert [[f["line"] for f in e["error"]["frames"]] for e in told] == [[5], [18]]
    assert all(f["user"] for e in told for f in e["error"]["frames"])
    assert {"xformers stubbed", "triton stubbed"} <= run.virtual


@pytest.mark.parametrize("own", [True, False])
def test_an_error_about_the_device_of_shapes_is_suspect_unless_the_script_uses_it(device, own):
    large = f'torch.empty(1 << 15, 1 << 15, device="{"meta" if own else "cuda"}")'
    run = device(f"import torch\nx = {large}\ntorch.utils.dlpack.to_dlpack(x)\n")
    (event,) = run.of("error")
    assert event["error"]["message"] == "Cannot pack tensors on meta"
    assert bool(event.get("suspect")) is not own


def test_nothing_is_imported_before_the_script_does(device):
    run = device(
        """
        import sys
        print("EARLY", sorted({"torch", "numpy", "tilelang", "tvm"} & set(sys.modules)))
        """
    )
    assert run.code == 0
    assert "EARLY []" in run.output
