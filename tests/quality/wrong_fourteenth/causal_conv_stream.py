"""Causal depthwise conv1d that is fed in pieces; the last width-1 inputs are kept between the calls."""
import torch
import torch.nn.functional as F
import tilelang
import tilelang.language as T


def conv_piece(batch, channels, length, width, block_C=16, block_L=32):
    keep = width - 1

    @T.prim_func
    def conv(
        X: T.Tensor((batch, channels, length), "float32"),
        W: T.Tensor((channels, width), "float32"),
        Bias: T.Tensor((channels,), "float32"),
        State: T.Tensor((batch, channels, keep), "float32"),
        Y: T.Tensor((batch, channels, length), "float32"),
    ):
        with T.Kernel(T.ceildiv(length, block_L), T.ceildiv(channels, block_C), batch, threads=128) as (bl, bc, b):
            acc = T.alloc_fragment((block_C, block_L), "float32")
            for i, j in T.Parallel(block_C, block_L):
                ch = bc * block_C + i
                acc[i, j] = T.if_then_else(ch < channels, Bias[ch], 0.0)
            for k in T.serial(width):
                for i, j in T.Parallel(block_C, block_L):
                    ch = bc * block_C + i
                    # position in the piece; below zero it lies in what was kept
                    p = bl * block_L + j + k - keep
                    if ch < channels and p < length:
                        if p >= 0:
                            acc[i, j] += W[ch, k] * X[b, ch, p]
                        else:
                            acc[i, j] += W[ch, k] * State[b, ch, keep + p]
            for i, j in T.Parallel(block_C, block_L):
                ch = bc * block_C + i
                if ch < channels and bl * block_L + j < length:
                    Y[b, ch, bl * block_L + j] = acc[i, j]

    return conv


def state_update(batch, channels, length, width, threads=64):
    keep = width - 1

    @T.prim_func
    def update(
        X: T.Tensor((batch, channels, length), "float32"),
        State: T.Tensor((batch, channels, keep), "float32"),
    ):
        with T.Kernel(batch, threads=threads) as b:
            fresh = T.alloc_shared((channels, keep), "float32")
            for ch, j in T.Parallel(channels, keep):
                p = length - keep + j
                if p >= 0:
                    fresh[ch, j] = X[b, ch, p]
                else:
                    fresh[ch, j] = State[b, ch, j]
            T.sync_threads()
            for ch, j in T.Parallel(channels, keep):
                State[b, ch, j] = fresh[ch, j]

    return update


class StreamConv:
    def __init__(self, weight, bias, batch):
        self.w, self.b = weight, bias
        channels, self.width = weight.shape
        self.state = torch.zeros(batch, channels, self.width - 1, device="cuda")

    def __call__(self, x):
        y = tilelang.compile(conv_piece(*x.shape, self.width), out_idx=[4])(x, self.w, self.b, self.state)
        tilelang.compile(state_update(*x.shape, self.width))(x, self.state)
        return y


def main():
    torch.manual_seed(4)
    batch, channels, width = 2, 24, 4
    w = torch.randn(channels, width, device="cuda")
    bias = torch.randn(channels, device="cuda")
    pieces = [40, 2, 1, 33, 1, 2]
    x = torch.randn(batch, channels, sum(pieces), device="cuda")
    conv = StreamConv(w, bias, batch)
    y = torch.cat([conv(p.contiguous()) for p in x.split(pieces, dim=2)], dim=2)
    ref = F.conv1d(F.pad(x, (width - 1, 0)), w[:, None, :], bias, groups=channels)
    torch.testing.assert_close(y, ref, rtol=1e-4, atol=1e-4)
    print("stream conv ok")


if __name__ == "__main__":
    main()
