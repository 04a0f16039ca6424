"""Shadows in float64, held against the same program run on float64 inputs, and what a comparison is told of them."""

from __future__ import annotations

import math
import threading

import pytest

torch = pytest.importorskip("torch")
F = torch.nn.functional
GPU = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]


@pytest.fixture
def shadows(harness, tmp_path):
    """`shadows()` makes what follows this thread once entered."""

    def make(**options):
        spec = {"dir": str(tmp_path), "blobs": str(tmp_path / "blobs"), "mode": "real", "shadow": options}
        return harness("shadow").Shadow(harness("events").Context(spec))

    return make


def inputs(*shapes, dtype=torch.float32, device="cpu"):
    made = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=made).to(device, dtype) for shape in shapes]


def chain(x):
    x.mul_(1.1)
    x[2:5] += 0.3
    x.T[1].copy_(x[0, : x.shape[0]] / 3)
    torch.exp(x[1], out=x[6])
    return x.view(-1)[3:] * 0.7


def scattered(x):
    index = torch.tensor([[0, 1, 1, 2]], device=x.device)
    y = x.new_zeros(4, 4).scatter_add_(0, index, x[:1, :4] / 3)
    y[index[0, 1:3] + torch.arange(2, device=x.device), index[0, 2:]] = x[0, :2] / 7
    return y.index_add(0, index[0, ::3], x[:2, :4] / 9)


def rotated(x):
    pairs = torch.view_as_complex(x.reshape(8, 4, 2) / 3)
    turned = pairs * torch.polar(x.new_ones(4), x.new_ones(4).cumsum(0) * 0.1)
    return torch.view_as_real(turned.conj().resolve_conj()).flatten(1)


def split_up(x):
    one, other = (x / 3).chunk(2, dim=-1)
    one.mul_(other)
    return torch.cat([one, other.flip(0), torch.stack([one, other], 0).sum(0)], 1)


def in_lists(x):
    parts = [x[:4] / 3, x[4:] / 3]
    torch._foreach_mul_(parts, 1.7)
    torch._foreach_add_(parts, [x[:4], x[4:]])
    return torch.cat(parts)


def gradients(x):
    weight = (x / 3).detach().requires_grad_()
    (F.layer_norm(weight.sin() @ weight.T, (8,)).softmax(-1).square().sum()).backward()
    return weight.grad


PROGRAMS = {
    "matmul": lambda x: x / 3 @ x.T,
    "einsum": lambda x: torch.einsum("ij,kj->ik", x / 3, x),
    "softmax": lambda x: torch.softmax(x / 3, -1).log(),
    "norms": lambda x: F.rms_norm(F.layer_norm(x / 3, (8,)), (8,), eps=1e-5),
    "convolution": lambda x: F.conv1d(x[None] / 3, x[:, :3].reshape(1, 8, 3)),
    "attention": lambda x: F.scaled_dot_product_attention(*((x / 3).view(1, 2, 4, 8),) * 3, is_causal=True),
    "choosing": lambda x: torch.cat([(x / 3).topk(2, -1)[0], (x / 3).sort(0)[0], (x / 3).max(1, keepdim=True)[0]], 1),
    "kept axis or not": lambda x: (
        (x / 3).max(1)[0] + (x / 3).min(0).values + (x / 3).amax(0) + (x / 3).cummax(0)[0][-1]
    ),
    "in place": chain,
    "scatter": scattered,
    "complex": rotated,
    "views": split_up,
    "lists": in_lists,
    "backward": gradients,
    "masks": lambda x: torch.where(x > 0, x / 3, x * 7).masked_fill(x > 2, 0.1),
    "inference": torch.inference_mode()(lambda x: (x / 3).add_(1.0).mul_(x)),
    "functional": lambda x: torch.func.vmap(torch.func.grad(lambda row: (row / 3).sin().square().sum()))(x),
    "scan": lambda x: torch.stack(list((x / 3).cumsum(0).unbind(1)), 1),
}


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=GPU)])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_shadow_is_what_the_program_gives_in_float64(shadows, name, device) -> None:
    (x,) = inputs((8, 8), device=device)
    wanted = PROGRAMS[name](x.double().clone())
    with shadows() as shadow:
        found = PROGRAMS[name](x.clone())
    told = shadow.against(wanted, found, None, 0.0, 1e-12)
    assert told["known"] == 1.0, told
    assert told["actual"]["outside"] == 0, told
    assert 0 < told["expected"]["max"] < 1e-4


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_the_reference_reads_inputs_as_they_were_rounded(shadows, dtype) -> None:
    with shadows() as shadow:
        a, b = ((one * 0.1).to(dtype) for one in inputs((16, 64), (64, 16)))
        expected = (a.float() @ b.float()).to(dtype)
    exact = a.double() @ b.double()
    told = shadow.against(exact, expected, None, 0.0, 1e-14)
    assert told["actual"]["outside"] == 0, told
    assert 0 < told["expected"]["rms"] < told["rms"] * torch.finfo(dtype).eps


def test_a_rounding_that_the_script_writes_is_kept(shadows) -> None:
    (x,) = inputs((64, 64))
    with shadows() as shadow:
        quantized = (x / 3).to(torch.float8_e4m3fn).float() * 3
    exact = (x / 3).to(torch.float8_e4m3fn).double() * 3
    assert shadow.against(exact, quantized, None, 0.0, 1e-12)["actual"]["outside"] == 0


def test_a_cast_for_storage_rounds_nothing(shadows) -> None:
    (x,) = inputs((64, 64), dtype=torch.bfloat16)
    with shadows() as shadow:
        total = torch.zeros(64, dtype=torch.bfloat16)
        for row in x:
            total = (total.float() + row.float()).to(torch.bfloat16)
    told = shadow.against(x.double().sum(0), total, None, 0.0, 1e-12)
    assert told["actual"]["outside"] == 0 < told["expected"]["rms"]


def watching_autocast(shadow, monkeypatch):
    monkeypatch.setattr(torch, "set_autocast_enabled", torch.set_autocast_enabled)
    for name in ("to", "half", "bfloat16", "float", "double", "type", "type_as"):
        monkeypatch.setattr(torch.Tensor, name, getattr(torch.Tensor, name))
    shadow.watch_autocast()
    return shadow


def test_autocast_rounds_no_shadow(shadows, monkeypatch) -> None:
    a, b = inputs((16, 64), (64, 16))
    shadow = watching_autocast(shadows(), monkeypatch)
    with shadow, torch.autocast("cpu", dtype=torch.bfloat16):
        expected = a @ b
    assert expected.dtype == torch.bfloat16
    told = shadow.against(a.double() @ b.double(), expected, None, 0.0, 1e-12)
    assert told["actual"]["outside"] == 0 and told["expected"]["rms"] > 1e-3


def wrong(actual, expected, rtol, atol):
    return torch.isclose(actual.float(), expected.float(), rtol=rtol, atol=atol).logical_not()


def sides(shadow, actual, expected, rtol=1e-2, atol=1e-2):
    mask = wrong(actual, expected, rtol, atol)
    assert mask.any()
    return shadow.against(actual, expected, mask, rtol, atol)


def test_a_variance_that_cancels(shadows) -> None:
    with shadows() as shadow:
        x = inputs((32, 512))[0] + 3000
        mean = x.mean(-1)
        expected = (x * x).mean(-1) - mean * mean
        actual = (x - mean[:, None]).square().mean(-1)
    told = sides(shadow, actual, expected)
    assert told["wrong"]["actual_right"] == told["wrong"]["count"] > 16
    assert told["actual"]["outside"] == 0 < told["expected"]["outside"]


@pytest.mark.parametrize("stored", [lambda t: t, lambda t: t.float().half()], ids=["halves", "stored"])
def test_a_softmax_that_overflows(shadows, stored) -> None:
    with shadows() as shadow:
        x = (inputs((16, 64), dtype=torch.float16)[0] * 2) + 11
        powers = stored(x.exp())
        expected = powers / powers.sum(-1, keepdim=True)
        actual = x.float().softmax(-1).half()
    told = sides(shadow, actual, expected)
    assert told["expected"]["nonfinite"] > 0 and told["wrong"]["actual_right"] == told["wrong"]["count"]


def test_a_long_sum_in_bfloat16(shadows) -> None:
    with shadows() as shadow:
        x = torch.ones(4096, 4, dtype=torch.bfloat16)
        expected = torch.zeros(4, dtype=torch.bfloat16)
        for row in x:
            expected += row
    told = sides(shadow, torch.full((4,), 4096.0, dtype=torch.bfloat16), expected)
    assert told["wrong"] == {"count": 4, "actual_right": 4, "expected_right": 0, "both": 0, "none": 0}


def test_a_right_reference_and_a_wrong_kernel(shadows) -> None:
    with shadows() as shadow:
        a, b = inputs((32, 128), (128, 32), dtype=torch.float16)
        expected = (a.float() @ b.float()).half()
        actual = expected.clone()
        actual[16:] = 0.0
    told = sides(shadow, actual, expected)
    assert told["wrong"]["expected_right"] == told["wrong"]["count"] and told["expected"]["outside"] == 0


def test_what_has_not_been_computed_is_unknown(shadows) -> None:
    import numpy

    with shadows() as shadow:
        (x,) = inputs((8, 8))
        of_numpy = torch.from_numpy(numpy.exp(x.numpy()))
        drawn = torch.rand_like(x)
        chosen = torch.unique(x / 3)
        follows = F.max_pool1d_with_indices(x[None] / 3, 2)[0] + 1
    for expected in (of_numpy, drawn, chosen, follows):
        assert shadow.against(expected + 1, expected, None, 1e-3, 1e-3)["known"] == 0.0


def test_a_numpy_array_of_a_tensor_is_found_until_somebody_writes_there(shadows) -> None:
    with shadows() as shadow:
        (x,) = inputs((8, 8))
        array = (x / 3).numpy()
        seen = torch.as_tensor(array)
        assert shadow.against(x, seen, None, 1e-3, 1e-3)["known"] == 1.0
        array += 1
        assert shadow.against(x, seen, None, 1e-3, 1e-3)["known"] == 0.0


def test_memory_that_was_written_unseen_is_a_leaf(shadows) -> None:
    with shadows() as shadow:
        (x,) = inputs((8, 8))
        y = x / 3
        y.numpy()[:] = 5.0
        expected = y * 2
    told = shadow.against(torch.full((8, 8), 10.0), expected, None, 0.0, 0.0)
    assert (told["known"], told["actual"]["outside"], told["expected"]["outside"]) == (1.0, 0, 0)


def test_random_numbers_in_the_middle_are_leaves(shadows) -> None:
    with shadows() as shadow:
        y = inputs((8, 8))[0] / 3
        y[:4].uniform_()
        expected = y * 3
    exact = torch.cat([y[:4].double() * 3, inputs((8, 8))[0][4:].double()])
    assert shadow.against(exact, expected, None, 0.0, 1e-15)["actual"]["outside"] == 0


def test_what_a_kernel_was_given_or_wrote_is_a_leaf(shadows) -> None:
    class Kernel:
        def __call__(self, a, out):
            out.copy_(a).add_(1)
            return a * 2

    with shadows() as shadow:
        shadow.watch_launches(Kernel)
        a = inputs((8, 8))[0] / 3
        out = a * 5
        result = Kernel()(a, out)
        expected = [a * 3, out * 3, result * 3]
    for given, found in zip((a, out, result), expected, strict=True):
        told = shadow.against(given.double() * 3, found, None, 0.0, 0.0)
        assert (told["known"], told["actual"]["outside"]) == (1.0, 0)
    assert len(told["inputs_made_by"]) == 2
    with shadows(leaves=told["inputs_made_by"]) as shadow:
        a = inputs((8, 8))[0] / 3
        out = a * 5  # the second one, as above
        before = a * 3
    assert shadow.against(a.double() * 3, before, None, 0.0, 0.0)["actual"]["outside"] == 0


def test_threads_are_followed(shadows, monkeypatch) -> None:
    found = []
    shadow = shadows()
    monkeypatch.setattr(threading.Thread, "run", threading.Thread.run)
    shadow.watch_threads()
    thread = threading.Thread(target=lambda: found.append(inputs((4, 4))[0] / 3))
    thread.start()
    thread.join()
    assert shadow.against(found[0], found[0], None, 0.0, 0.0)["known"] == 1.0


def test_memory_is_bounded_and_given_back(shadows) -> None:
    with shadows(bytes=1 << 20) as shadow:
        (x,) = inputs((256, 256))
        for _ in range(20):  # half a MiB each, and one is alive
            expected = x / 3
        assert shadow.against(x, expected, None, 0.0, 0.0)["known"] == 1.0
        others = [x / 3 for _ in range(4)]
        assert "MiB" in shadow.against(x, others[-1], None, 0.0, 0.0)["why"]
        assert shadow.against(x, others[-1] * 2, None, 0.0, 0.0)["known"] == 0.0


def test_an_operator_that_fails_is_the_scripts_own_error(shadows) -> None:
    with shadows() as shadow:
        x = inputs((4, 4))[0] / 3
        with pytest.raises(RuntimeError, match="size"):
            x.add_(torch.ones(3))
        expected = x * 2
    assert shadow.against(x, expected, None, 0.0, 0.0)["known"] == 0.0


def test_values_and_random_numbers_of_the_script_are_the_same(shadows) -> None:
    def program():
        torch.manual_seed(3)
        x = torch.randn(16, 16).half()
        y = F.dropout(x.float(), 0.3).cumsum(0)
        y[3].normal_()
        return torch.cat([y.softmax(-1), torch.rand(1, 16)])

    alone = program()
    with shadows():
        followed = program()
    assert torch.equal(alone, followed)


def test_no_tolerance_but_one_side_clearly_nearer(shadows) -> None:
    with shadows() as shadow:
        x = inputs((32, 512))[0] + 3000
        expected = (x * x).mean(-1) - x.mean(-1).square()
        actual = x.var(-1, correction=0)
    told = shadow.against(actual, expected, wrong(actual, expected, 1e-2, 1e-2), None, None)
    assert told["actual"]["outside"] is None
    assert told["wrong"]["actual_right"] == told["wrong"]["count"] > 0 and math.isfinite(told["expected"]["max"])


def grown(shadow, expected):
    return shadow.against(expected, expected, None, 0.0, 0.0)["growth"]


def test_the_line_where_an_error_grows_is_told(shadows, script) -> None:
    with shadows() as shadow:
        told = script("""
            import torch
            x = torch.randn(32, 512, generator=torch.Generator().manual_seed(0)) + 3000
            squares = (x * x).mean(-1)
            cancels = squares - x.mean(-1) ** 2
            scaled = cancels * 2 + 1
            total = torch.zeros(4, dtype=torch.bfloat16)
            for row in torch.ones(2048, 4, dtype=torch.bfloat16):
                total += row
            large = (x.half() - 2989).exp()
            softmax = large / large.sum(-1, keepdim=True)

        """)
    for name, line, operator in (("scaled", 5, "sub"), ("total", 9, "add"), ("softmax", 10, "exp")):
        first = grown(shadow, told[name])[0]
        assert (first["line"], first["operator"]) == (line, operator) and first["factor"] > 4, name
    assert all(place["factor"] < 1000 for place in grown(shadow, told["squares"]))


def test_an_explicit_cast_under_autocast_is_the_scripts_own(shadows, monkeypatch) -> None:
    (a,) = inputs((16, 64))
    shadow = watching_autocast(shadows(), monkeypatch)
    with shadow, torch.autocast("cpu", dtype=torch.bfloat16):
        quantized = (a / 3).to(torch.bfloat16).float()
    exact = (a / 3).to(torch.bfloat16).double()
    assert shadow.against(exact, quantized, None, 0.0, 0.0)["actual"]["outside"] == 0


def test_time_is_bounded(shadows) -> None:
    (x,) = inputs((8, 8))
    with shadows(seconds=0.0) as shadow:
        expected = x / 3 + 1
    told = shadow.against(x, expected, None, 0.0, 0.0)
    assert told["known"] == 0.0 and "0 s" in told["why"]
