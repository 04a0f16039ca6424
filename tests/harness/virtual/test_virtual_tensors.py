"""Operators on virtual tensors: shapes as PyTorch gives them, values where there are some, and where the mark goes."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.tilelang


@pytest.fixture
def adopt(harness):
    return harness("virtual.tensors").adopt


@pytest.fixture
def large(adopt):
    """Large enough to have no values."""
    return adopt(torch.empty(512, 512, device="meta"))


@pytest.fixture
def written(adopt):
    """A small tensor that a virtual launch wrote."""
    return adopt(torch.zeros(4, 4), tainted=True)


def test_values_of_small_tensors_are_computed(adopt):
    x = adopt(torch.arange(6.0).reshape(2, 3))
    y = (x @ x.T).softmax(-1).sum()
    assert not y.tainted
    assert float(y) == pytest.approx(2.0)
    assert x[1].tolist() == [3.0, 4.0, 5.0]
    assert x.cpu().equal(torch.arange(6.0).reshape(2, 3)) and type(x.cpu()) is torch.Tensor


def test_new_tensors_have_the_values_they_are_made_of(adopt, written):
    x = adopt(torch.zeros(2, dtype=torch.int64)).new_tensor(range(3))
    assert (x.tolist(), x.dtype, str(x.device), x.tainted) == ([0, 1, 2], torch.int64, "cuda:0", False)
    assert written.new_tensor([1.5]).tainted is False
    assert type(written.new_tensor([1.5], device="cpu")) is torch.Tensor


@pytest.mark.parametrize(
    "compute",
    [
        lambda x: x @ x,
        lambda x: (x[None] @ x[None])[0],
        lambda x: x.softmax(-1),
        lambda x: (x - x).abs().max(),
        lambda x: x.sum(0),
        lambda x: x.sum((0, 1), keepdim=True),
        lambda x: x.mean(-1, keepdim=True),
        lambda x: x.max(-1).values,
        lambda x: x.argmax(1),
        lambda x: x.half() + x.bfloat16(),
        lambda x: x > 0.5,
        lambda x: torch.where(x > 0, x, 0),
        lambda x: x.T.contiguous(),
        lambda x: x.T * 2,
        lambda x: x.T + x,
        lambda x: x[:, :1] * x[0],
        lambda x: x[3:9, ::2].clone(),
        lambda x: torch.zeros_like(x, dtype=torch.int8),
        lambda x: x.view(2, 256, 512).permute(2, 0, 1),
        lambda x: x.topk(3).indices,
        lambda x: x.cumsum(0),
        lambda x: torch.cat([x, x], 1),
        lambda x: torch.einsum("ab,cb->ac", x, x),
        lambda x: torch.nn.functional.scaled_dot_product_attention(x[None, None], x[None, None], x[None, None]),
        lambda x: torch.nn.functional.layer_norm(x, (512,)),
        lambda x: torch.nn.functional.conv2d(x[None, None], x[None, None, :3, :3]),
        lambda x: torch.ones(512, device=x.device if x.device.type != "cuda" else "cpu") @ x.reshape(512, 512),
        lambda x: x.unsqueeze(0).squeeze_(0),
    ],
)
def test_shape_dtype_and_strides_are_those_of_pytorch(large, compute):
    real, made_up = compute(torch.rand(512, 512)), compute(large)
    assert made_up.tainted
    assert (made_up.shape, made_up.dtype) == (real.shape, real.dtype)
    assert made_up.stride() == real.stride()


def test_an_error_of_pytorch_stays_one(large):
    with pytest.raises(RuntimeError, match=r"reduction dim|size"):
        large @ large[:100]
    with pytest.raises(RuntimeError):
        large.view(3, 5)


def test_the_mark_follows_what_is_computed(adopt, written):
    assert (written + 1).tainted and written[0].tainted and written.cpu().tainted
    assert (adopt(torch.ones(4, 4)) @ written).tainted
    assert not (adopt(torch.ones(4)) + 1).tainted


def test_views_share_the_mark(adopt, written, large):
    base = adopt(torch.zeros(4, 4))
    row = base[1]
    assert not base.tainted
    row.copy_(written[0])
    assert base.tainted and base[3].tainted
    other = adopt(torch.zeros(4, 4))
    other[0] = large[0, :4]
    assert other.tainted
    assert other.shape == (4, 4)


def test_gradients_flow(adopt, large):
    weight = adopt(torch.ones(3, 3)).requires_grad_()
    (weight * weight).sum().backward()
    assert weight.grad.tolist() == [[2.0] * 3] * 3
    x = large.detach().requires_grad_()
    (x @ x).relu().sum().backward()
    assert x.grad.shape == x.shape and x.grad.tainted


def test_results_that_need_values_are_made_of_zeros(large):
    assert large.nonzero().shape == (0, 2)
    assert large[large > 0].dim() == 1
    assert large.sum().item() == 1.0


def test_no_host_memory_for_a_product_of_small_tensors(adopt):
    column, row = adopt(torch.ones(60000, 1)), adopt(torch.ones(1, 60000))
    product = column * row
    assert product.shape == (60000, 60000) and product.payload.is_meta


def test_a_move_to_where_it_is_copies_nothing(large):
    assert large.to("cuda") is large and large.cuda() is large and large.to("cuda:0", torch.float32) is large
    assert large.to(torch.float16).is_cuda
    host = large.to("cpu")
    assert host.device.type == "cpu" and host.tainted and not host.is_cuda


def test_inference_mode_and_reshaping_in_place(adopt):
    x = adopt(torch.ones(2, 4))
    with torch.inference_mode():
        y = x[..., :3]
        y = y + 1
    assert y.shape == (2, 3)
    z = adopt(torch.ones(1, 5))
    z.squeeze_(0)
    assert z.shape == (5,) and z.tolist() == [1.0] * 5
    out = adopt(torch.empty(0))
    torch.add(x, 1, out=out)
    assert out.shape == (2, 4)


def test_a_shape_out_of_made_up_values_is_known_to_be_one(large, adopt):
    chosen = large[large > 0]
    assert chosen.guessed and (chosen + 1).guessed
    assert not (large + 1).guessed and not adopt(torch.ones(3)).nonzero().guessed


def test_gradients_flow_where_launches_are_computed(harness, adopt):
    """Operators there look whether a tensor is among their arguments, not whether it is true."""
    q = adopt(torch.rand(1, 8, 4, 16)).requires_grad_()
    with harness("virtual.mode").OperatorMode():
        scores = torch.einsum("bqhd,bkhd->bhqk", q, q)
        mask = adopt(torch.ones(8, 8).tril()) == 0
        weights = scores.masked_fill(mask, float("-inf")).softmax(-1)
        out = torch.einsum("bhqk,bkhd->bqhd", weights, q)
        out.backward(torch.randn_like(out))
    assert q.grad.shape == q.shape
    assert not q.grad.tainted
