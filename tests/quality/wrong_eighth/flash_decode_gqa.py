import argparse
import torch
import tilelang
import tilelang.language as T

LOG2E = 1.4426950408889634


@tilelang.jit(out_idx=[4, 5])
def decode_split(B, H, HKV, S, D, splits, BN=32):
    G = H // HKV
    per_split = S // splits
    scale = D**-0.5 * LOG2E

    @T.prim_func
    def main(
        Q: T.Tensor((B, H, D), "float16"),
        K: T.Tensor((B, S, HKV, D), "float16"),
        V: T.Tensor((B, S, HKV, D), "float16"),
        Lens: T.Tensor((B,), "int32"),
        Part: T.Tensor((B, H, splits, D), "float32"),
        Lse: T.Tensor((B, H, splits), "float32"),
    ):
        with T.Kernel(HKV, B, splits, threads=128) as (hk, b, sp):
            q_s = T.alloc_shared((G, D), "float16")
            k_s = T.alloc_shared((BN, D), "float16")
            v_s = T.alloc_shared((BN, D), "float16")
            p_s = T.alloc_shared((G, BN), "float16")
            s = T.alloc_fragment((G, BN), "float32")
            o = T.alloc_fragment((G, D), "float32")
            m = T.alloc_fragment((G,), "float32")
            m_prev = T.alloc_fragment((G,), "float32")
            l = T.alloc_fragment((G,), "float32")
            row = T.alloc_fragment((G,), "float32")
            T.copy(Q[b, hk * G, 0], q_s)
            T.clear(o)
            T.clear(l)
            T.fill(m, -1e30)
            for t in T.Pipelined(per_split // BN, num_stages=1):
                pos = sp * per_split + t * BN
                T.copy(K[b, pos : pos + BN, hk, :], k_s)
                T.copy(V[b, pos : pos + BN, hk, :], v_s)
                T.clear(s)
                T.gemm(q_s, k_s, s, transpose_B=True)
                for i, j in T.Parallel(G, BN):
                    s[i, j] = T.if_then_else(pos + j < Lens[b], s[i, j] * scale, -1e30)
                T.copy(m, m_prev)
                T.reduce_max(s, m, dim=1, clear=False)
                for i, j in T.Parallel(G, BN):
                    s[i, j] = T.exp2(s[i, j] - m[i])
                T.reduce_sum(s, row, dim=1)
                for i in T.Parallel(G):
                    l[i] = l[i] * T.exp2(m_prev[i] - m[i]) + row[i]
                for i, j in T.Parallel(G, D):
                    o[i, j] *= T.exp2(m_prev[i] - m[i])
                T.copy(s, p_s)
                T.gemm(p_s, v_s, o)
            for i, j in T.Parallel(G, D):
                Part[b, hk * G + i, sp, j] = o[i, j] / l[i]
            for i in T.Parallel(G):
                Lse[b, hk * G + i, sp] = m[i] + T.log(l[i])  # BUG

    return main


@tilelang.jit(out_idx=[2])
def combine(B, H, D, splits):
    @T.prim_func
    def main(
        Part: T.Tensor((B, H, splits, D), "float32"),
        Lse: T.Tensor((B, H, splits), "float32"),
        O: T.Tensor((B, H, D), "float32"),
    ):
        with T.Kernel(H, B, threads=32) as (h, b):
            acc = T.alloc_fragment((D,), "float32")
            top = T.alloc_fragment((D,), "float32")
            den = T.alloc_fragment((D,), "float32")
            T.clear(acc)
            T.clear(den)
            T.fill(top, -3e38)
            for s in T.serial(splits):
                for d in T.Parallel(D):
                    top[d] = T.max(top[d], Lse[b, h, s])
            for s in T.serial(splits):
                for d in T.Parallel(D):
                    den[d] += T.exp2(Lse[b, h, s] - top[d])
                    acc[d] += T.exp2(Lse[b, h, s] - top[d]) * Part[b, h, s, d]
            for d in T.Parallel(D):
                O[b, h, d] = acc[d] / den[d]

    return main


def reference(q, k, v, lens):
    B, H, D = q.shape
    g = H // k.shape[2]
    kk = k.float().repeat_interleave(g, dim=2)
    vv = v.float().repeat_interleave(g, dim=2)
    s = torch.einsum("bhd,bshd->bhs", q.float(), kk) * D**-0.5
    dead = torch.arange(k.shape[1], device=q.device)[None, :] >= lens[:, None]
    p = s.masked_fill(dead[:, None, :], float("-inf")).softmax(-1)
    return torch.einsum("bhs,bshd->bhd", p, vv)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--splits", type=int, default=3)
    args = ap.parse_args()
    torch.manual_seed(1)
    B, H, HKV, S, D = 3, 32, 2, 192, 32
    q = torch.randn(B, H, D, device="cuda", dtype=torch.float16)
    k = torch.randn(B, S, HKV, D, device="cuda", dtype=torch.float16)
    v = torch.randn(B, S, HKV, D, device="cuda", dtype=torch.float16)
    lens = torch.tensor([192, 71, 133], device="cuda", dtype=torch.int32)
    part, lse = decode_split(B, H, HKV, S, D, args.splits)(q, k, v, lens)
    out = combine(B, H, D, args.splits)(part, lse)
    torch.testing.assert_close(out, reference(q, k, v, lens), rtol=4e-3, atol=4e-3)
    print("decode ok")


if __name__ == "__main__":
    main()
