"""Depthwise causal conv1d + SiLU with carried state, as in Mamba's chunked prefill."""
import torch
import tilelang
import tilelang.language as T


def causal_conv1d(B, L, D, KW, block_L=16, block_D=32):
    ST = KW - 1

    @T.macro
    def load_window(X, state_in, win, b, t0, d0):
        # win[r] holds x[t0 - ST + r]; negative times come from the carried state
        for r, d in T.Parallel(block_L + ST, block_D):
            if t0 + r < ST:
                win[r, d] = state_in[b, t0 + r, d0 + d]
            else:
                win[r, d] = T.if_then_else(t0 + r - ST < L, X[b, T.min(t0 + r - ST, L - 1), d0 + d], 0.0)

    @T.prim_func
    def conv(
        X: T.Tensor((B, L, D), "float32"),
        Wt: T.Tensor((D, KW), "float32"),
        bias: T.Tensor((D,), "float32"),
        state_in: T.Tensor((B, ST, D), "float32"),
        lens: T.Tensor((B,), "int32"),
        Y: T.Tensor((B, L, D), "float32"),
        state_out: T.Tensor((B, ST, D), "float32"),
    ):
        with T.Kernel(T.ceildiv(L, block_L), D // block_D, B, threads=128) as (bl, bd, b):
            win = T.alloc_shared((block_L + ST, block_D), "float32")
            acc = T.alloc_fragment((block_L, block_D), "float32")
            load_window(X, state_in, win, b, bl * block_L, bd * block_D)
            for t, d in T.Parallel(block_L, block_D):
                acc[t, d] = bias[bd * block_D + d]
            for w in T.serial(KW):
                for t, d in T.Parallel(block_L, block_D):
                    acc[t, d] += win[t + w, d] * Wt[bd * block_D + d, w]
            for t, d in T.Parallel(block_L, block_D):
                if bl * block_L + t < L:
                    Y[b, bl * block_L + t, bd * block_D + d] = T.if_then_else(
                        bl * block_L + t < lens[b], acc[t, d] / (1.0 + T.exp(-acc[t, d])), 0.0
                    )
            if bl == 0:
                for s, d in T.Parallel(ST, block_D):
                    if lens[b] + s >= ST:
                        state_out[b, s, bd * block_D + d] = X[b, lens[b] + s - ST, bd * block_D + d]
                    else:
                        state_out[b, s, bd * block_D + d] = state_in[b, s, bd * block_D + d]  # BUG

    return conv


def reference(x, w, bias, state, lens):
    y, new = torch.zeros_like(x), torch.empty_like(state)
    for b, n in enumerate(lens.tolist()):
        full = torch.cat([state[b], x[b, :n]], 0)
        out = torch.nn.functional.conv1d(full.T[None], w[:, None, :], bias, groups=w.shape[0])[0].T
        y[b, :n] = torch.nn.functional.silu(out)
        new[b] = full[-state.shape[1] :]
    return y, new


if __name__ == "__main__":
    torch.manual_seed(0)
    B, L, D, KW = 4, 40, 64, 4
    x = torch.randn(B, L, D, device="cuda")
    w = torch.randn(D, KW, device="cuda") / 2
    bias = torch.randn(D, device="cuda")
    state = torch.randn(B, KW - 1, D, device="cuda")
    lens = torch.tensor([40, 1, 23, 2], device="cuda", dtype=torch.int32)
    y, new_state = tilelang.compile(causal_conv1d(B, L, D, KW), out_idx=[5, 6])(x, w, bias, state, lens)
    ry, rs = reference(x, w, bias, state, lens)
    torch.testing.assert_close(y, ry, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(new_state, rs, rtol=1e-4, atol=1e-4)
    print("conv1d ok")
