import argparse
import math

import torch
import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[3])
def rope_interleaved(S, H, D, scale, block_S=16, dtype="float16"):
    half = D // 2

    @T.prim_func
    def rope(
        X: T.Tensor((S, H, D), dtype),
        Cos: T.Tensor((S, half), "float32"),
        Sin: T.Tensor((S, half), "float32"),
        Out: T.Tensor((S, H, D), dtype),
    ):
        with T.Kernel(T.ceildiv(S, block_S), H, threads=128) as (bs, h):
            xs = T.alloc_shared((block_S, D), "float32")
            for i, d in T.Parallel(block_S, D):
                if bs * block_S + i < S:
                    xs[i, d] = T.cast(X[bs * block_S + i, h, d], "float32") * scale
            for i, p in T.Parallel(block_S, half):
                if bs * block_S + i < S:
                    xs[i, 2 * p] = xs[i, 2 * p] * Cos[bs * block_S + i, p] - xs[i, 2 * p + 1] * Sin[bs * block_S + i, p]  # BUG
                    xs[i, 2 * p + 1] = xs[i, 2 * p] * Sin[bs * block_S + i, p] + xs[i, 2 * p + 1] * Cos[bs * block_S + i, p]  # BUG
            for i, d in T.Parallel(block_S, D):
                if bs * block_S + i < S:
                    Out[bs * block_S + i, h, d] = T.cast(xs[i, d], dtype)

    return rope


@tilelang.jit(out_idx=[2])
def qk_scores(S, H, D, block=32, dtype="float16"):
    @T.prim_func
    def scores(
        Q: T.Tensor((S, H, D), dtype), K: T.Tensor((S, H, D), dtype),
        P: T.Tensor((H, S, S), "float32"),
    ):
        with T.Kernel(T.ceildiv(S, block), T.ceildiv(S, block), H, threads=128) as (bk, bq, h):
            q_s = T.alloc_shared((block, D), dtype)
            k_s = T.alloc_shared((block, D), dtype)
            acc = T.alloc_fragment((block, block), "float32")
            T.copy(Q[bq * block : (bq + 1) * block, h, :], q_s)
            T.copy(K[bk * block : (bk + 1) * block, h, :], k_s)
            T.clear(acc)
            T.gemm(q_s, k_s, acc, transpose_B=True)
            T.copy(acc, P[h, bq * block : (bq + 1) * block, bk * block : (bk + 1) * block])

    return scores


def rope_ref(x, cos, sin):
    xc = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    rot = torch.complex(cos, sin)[:, None, :]
    return torch.view_as_real(xc * rot).flatten(-2)


def scores_ref(q, k, cos, sin, scale):
    return torch.einsum("qhd,khd->hqk", rope_ref(q, cos, sin) * scale, rope_ref(k, cos, sin))


def max_err(got, want):
    return ((got - want).abs() / (1.0 + want.abs())).max().item()


def main():
    ap = argparse.ArgumentParser()
    for name, default in (("--seq", 64), ("--heads", 3), ("--dim", 32)):
        ap.add_argument(name, type=int, default=default)
    args = ap.parse_args()
    S, H, D = args.seq, args.heads, args.dim

    torch.manual_seed(0)
    q = torch.randn(S, H, D, device="cuda", dtype=torch.float16)
    k = torch.randn(S, H, D, device="cuda", dtype=torch.float16)
    inv_freq = 10000.0 ** (-torch.arange(0, D, 2, device="cuda", dtype=torch.float32) / D)
    ang = torch.arange(S, device="cuda", dtype=torch.float32)[:, None] * inv_freq
    cos, sin = ang.cos().contiguous(), ang.sin().contiguous()
    scale = 1.0 / math.sqrt(D)

    q_rot = rope_interleaved(S, H, D, scale)(q, cos, sin)
    k_rot = rope_interleaved(S, H, D, 1.0)(k, cos, sin)
    p = qk_scores(S, H, D)(q_rot, k_rot)
    err = max_err(p, scores_ref(q, k, cos, sin, scale))
    print(f"S={S} H={H} D={D} err={err:.2e}")
    assert err < 1e-2, "rope + qk scores differ from the complex reference"


if __name__ == "__main__":
    main()
