import argparse

import torch
import tilelang
import tilelang.language as T

LOG2E = 1.44269504


@tilelang.jit(out_idx=[3])
def online_softmax(M, N, BM=16, BN=32):
    """Row softmax of logits / temperature over the first lens[row] columns."""
    tiles = T.ceildiv(N, BN)

    @T.prim_func
    def kern(
        logits: T.Tensor((M, N), "float32"),
        lens: T.Tensor((M,), "int32"),
        inv_temp: T.Tensor((M,), "float32"),
        out: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(T.ceildiv(M, BM), threads=128) as bx:
            s = T.alloc_fragment((BM, BN), "float32")
            m = T.alloc_fragment((BM,), "float32")
            m_prev = T.alloc_fragment((BM,), "float32")
            l = T.alloc_fragment((BM,), "float32")
            part = T.alloc_fragment((BM,), "float32")

            T.fill(m, -1e30)
            T.clear(l)
            for t in T.serial(tiles):
                for i, j in T.Parallel(BM, BN):
                    if bx * BM + i < M and t * BN + j < N:
                        s[i, j] = T.if_then_else(
                            t * BN + j < lens[bx * BM + i],
                            logits[bx * BM + i, t * BN + j] * inv_temp[bx * BM + i] * LOG2E,
                            -T.infinity("float32"),
                        )
                    else:
                        s[i, j] = -T.infinity("float32")
                T.reduce_max(s, m, dim=1, clear=False)  # BUG
                T.copy(m, m_prev)  # BUG
                for i in T.Parallel(BM):
                    l[i] = l[i] * T.exp2(m_prev[i] - m[i])
                for i, j in T.Parallel(BM, BN):
                    s[i, j] = T.exp2(s[i, j] - m[i])
                T.reduce_sum(s, part, dim=1)
                for i in T.Parallel(BM):
                    l[i] = l[i] + part[i]

            for t in T.serial(tiles):
                for i, j in T.Parallel(BM, BN):
                    if bx * BM + i < M and t * BN + j < N:
                        out[bx * BM + i, t * BN + j] = T.if_then_else(
                            t * BN + j < lens[bx * BM + i],
                            T.exp2(logits[bx * BM + i, t * BN + j] * inv_temp[bx * BM + i] * LOG2E - m[i]) / l[i],
                            0.0,
                        )

    return kern


def ref(logits, lens, inv_temp):
    cols = torch.arange(logits.shape[1], device=logits.device)
    z = (logits * inv_temp[:, None]).masked_fill(cols[None] >= lens[:, None], float("-inf"))
    return torch.softmax(z, dim=-1)


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--m", type=int, default=40)
    p.add_argument("--n", type=int, default=120)
    a = p.parse_args()
    torch.manual_seed(3)
    x = torch.randn(a.m, a.n, device="cuda") * 2
    lens = torch.randint(1, a.n + 1, (a.m,), device="cuda", dtype=torch.int32)
    it = 1.0 / (0.5 + torch.rand(a.m, device="cuda"))
    got = online_softmax(a.m, a.n)(x, lens, it)
    ok = torch.allclose(got, ref(x, lens, it), rtol=1e-4, atol=1e-5)
    print("max diff", (got - ref(x, lens, it)).abs().max().item())
    assert ok, "softmax mismatch"
