"""Causal depthwise conv1d + SiLU with a rolling input state, fed in pieces (prefill, decode, speculative)."""
import torch
import torch.nn.functional as F
import tilelang
import tilelang.language as T


@tilelang.jit
def conv_forward(B, D, L, W, block_D=32):
    S = W - 1

    @T.prim_func
    def fwd(
        X: T.Tensor((B, D, L), "float32"),
        Weight: T.Tensor((D, W), "float32"),
        Bias: T.Tensor((D,), "float32"),
        State: T.Tensor((B, D, S), "float32"),
        Y: T.Tensor((B, D, L), "float32"),
    ):
        with T.Kernel(T.ceildiv(D, block_D), L, B, threads=block_D) as (bd, t, b):
            for i in T.Parallel(block_D):
                d = bd * block_D + i
                if d < D:
                    acc = T.alloc_var("float32")
                    acc = Bias[d]
                    for w in T.serial(W):
                        # position in the state followed by the new samples
                        p = t + w
                        if p < S:
                            acc += Weight[d, w] * State[b, d, p]
                        else:
                            acc += Weight[d, w] * X[b, d, p - S]
                    Y[b, d, t] = acc / (1.0 + T.exp(-acc))

    return fwd


@tilelang.jit
def conv_roll_state(B, D, L, W, block_D=32):
    S = W - 1

    @T.prim_func
    def roll(
        X: T.Tensor((B, D, L), "float32"),
        State: T.Tensor((B, D, S), "float32"),
    ):
        with T.Kernel(T.ceildiv(D, block_D), B, threads=block_D) as (bd, b):
            for i in T.Parallel(block_D):
                d = bd * block_D + i
                if d < D:
                    for w in T.serial(S):
                        if w + L < S:
                            State[b, d, w] = State[b, d, w + 1]
                        else:
                            State[b, d, w] = X[b, d, w + L - S]

    return roll


class ShortConv:
    def __init__(self, batch, weight, bias):
        self.batch, self.weight, self.bias = batch, weight, bias
        self.state = torch.zeros(batch, weight.shape[0], weight.shape[1] - 1, device=weight.device)

    def __call__(self, x):
        B, D, L = x.shape
        W = self.weight.shape[1]
        y = torch.empty_like(x)
        conv_forward(B, D, L, W)(x, self.weight, self.bias, self.state, y)
        conv_roll_state(B, D, L, W)(x, self.state)
        return y


def main():
    torch.manual_seed(13)
    B, D, W = 2, 40, 4
    pieces = [9, 1, 1, 2, 1, 3, 5]
    x = torch.randn(B, D, sum(pieces), device="cuda")
    weight = torch.randn(D, W, device="cuda") / W**0.5
    bias = torch.randn(D, device="cuda")

    conv = ShortConv(B, weight, bias)
    out = torch.cat([conv(p.contiguous()) for p in x.split(pieces, dim=-1)], dim=-1)
    ref = F.silu(F.conv1d(F.pad(x, (W - 1, 0)), weight[:, None], bias, groups=D))
    for t in range(x.shape[-1]):
        assert torch.allclose(out[..., t], ref[..., t], rtol=1e-4, atol=1e-5), f"step {t} differs"
    print("streamed conv matches")


if __name__ == "__main__":
    main()
