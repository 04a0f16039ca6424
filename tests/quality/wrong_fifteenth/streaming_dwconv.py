"""Causal depthwise conv1d + SiLU over a stream: the last K-1 inputs are kept in a state that each launch updates in place."""
import torch
import tilelang
import tilelang.language as T

TAPS = 4


@tilelang.jit
def conv_step(B, L, D, taps=TAPS, BD=32):
    hist = taps - 1

    @T.macro
    def tap_sum(line, wt, acc, l):
        T.clear(acc)
        for t in T.serial(taps):
            for d in T.Parallel(BD):
                acc[d] += line[l + t, d] * wt[t, d]

    @T.prim_func
    def step(
        X: T.Tensor((B, L, D), "float32"),
        Wt: T.Tensor((D, taps), "float32"),
        State: T.Tensor((B, hist, D), "float32"),
        Y: T.Tensor((B, L, D), "float32"),
    ):
        with T.Kernel(T.ceildiv(D, BD), B, threads=32) as (bd, b):
            line = T.alloc_shared((hist + L, BD), "float32")
            wt = T.alloc_shared((taps, BD), "float32")
            acc = T.alloc_fragment((BD,), "float32")

            for t, d in T.Parallel(taps, BD):
                wt[t, d] = T.if_then_else(bd * BD + d < D, Wt[bd * BD + d, t], 0.0)
            for t, d in T.Parallel(hist, BD):
                line[t, d] = T.if_then_else(bd * BD + d < D, State[b, t, bd * BD + d], 0.0)
            for t, d in T.Parallel(L, BD):
                line[hist + t, d] = T.if_then_else(bd * BD + d < D, X[b, t, bd * BD + d], 0.0)

            for l in T.serial(L):
                tap_sum(line, wt, acc, l)
                for d in T.Parallel(BD):
                    if bd * BD + d < D:
                        Y[b, l, bd * BD + d] = acc[d] / (1.0 + T.exp(-acc[d]))

            # the newest inputs; for L < hist a part of the old state moves up
            for t, d in T.Parallel(hist, BD):
                if bd * BD + d < D:
                    State[b, t, bd * BD + d] = line[L + t, d]

    return step


class Stream:
    def __init__(self, w, batch):
        self.w = w
        self.state = torch.zeros(batch, TAPS - 1, w.shape[0], device=w.device)
        self.kernels = {}

    def __call__(self, x):
        if x.shape not in self.kernels:
            self.kernels[x.shape] = conv_step(*x.shape)
        y = torch.empty_like(x)
        self.kernels[x.shape](x, self.w, self.state, y)
        return y


def whole(x, w):
    xt = torch.nn.functional.pad(x.transpose(1, 2), (TAPS - 1, 0))
    y = torch.nn.functional.conv1d(xt, w[:, None, :], groups=w.shape[0])
    return torch.nn.functional.silu(y).transpose(1, 2)


def main():
    torch.manual_seed(9)
    B, D = 2, 72
    w = torch.randn(D, TAPS, device="cuda") * 0.5
    x = torch.randn(B, 40, D, device="cuda")
    ref = whole(x, w)

    # a prefill, single steps, pieces shorter than the history
    for pieces in ([40], [16, 16, 8], [16, 1, 1, 1, 2, 2, 1, 16]):
        stream = Stream(w, B)
        y = torch.cat([stream(p.contiguous()) for p in x.split(pieces, dim=1)], dim=1)
        torch.testing.assert_close(y, ref, rtol=1e-4, atol=1e-5)
        assert torch.equal(stream.state, x[:, -(TAPS - 1) :]), "state is not the tail of the input"
        print(f"{len(pieces)} launches ok")


if __name__ == "__main__":
    main()
