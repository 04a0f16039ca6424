"""Multi-query decode of S speculated tokens at once, ALiBi bias, KV cache split over blocks.

The S * H query rows that share the one KV head are packed in a single tile (token major, head minor).
"""
import torch
import tilelang
import tilelang.language as T

NEG = -1.0e30


@tilelang.jit(out_idx=[5, 6])
def attend_split(B, S, H, D, L, splits, block_N=32, dtype="float16"):
    rows = S * H
    scale = D**-0.5
    span = -(-L // (splits * block_N)) * block_N
    @T.prim_func
    def main(
        Q: T.Tensor((B, rows, D), dtype),
        K: T.Tensor((B, L, D), dtype),
        V: T.Tensor((B, L, D), dtype),
        Lens: T.Tensor((B,), "int32"),
        Slopes: T.Tensor((H,), "float32"),
        Part: T.Tensor((B, splits, rows, D), "float32"),
        Lse: T.Tensor((B, splits, rows), "float32"),
    ):
        with T.Kernel(splits, B, threads=64) as (sp, b):
            q_s = T.alloc_shared((rows, D), dtype)
            k_s = T.alloc_shared((block_N, D), dtype)
            v_s = T.alloc_shared((block_N, D), dtype)
            p_s = T.alloc_shared((rows, block_N), dtype)
            s = T.alloc_fragment((rows, block_N), "float32")
            acc = T.alloc_fragment((rows, D), "float32")
            m, m_old, l, row_sum = (T.alloc_fragment((rows,), "float32") for _ in range(4))
            T.copy(Q[b, 0, 0], q_s)
            T.clear(acc)
            T.clear(l)
            T.fill(m, NEG)
            start = sp * span
            stop = T.min(start + span, Lens[b])
            for t in T.serial(T.ceildiv(T.max(stop - start, 0), block_N)):
                n0 = start + t * block_N
                T.copy(K[b, n0, 0], k_s)
                T.copy(V[b, n0, 0], v_s)
                T.clear(s)
                T.gemm(q_s, k_s, s, transpose_B=True)
                for r, j in T.Parallel(rows, block_N):
                    # position of the query token of this row in the sequence
                    qpos = Lens[b] - S + r % S
                    bias = Slopes[r % H] * T.cast(qpos - n0 - j, "float32")
                    s[r, j] = T.if_then_else(n0 + j <= qpos, s[r, j] * scale - bias, NEG)
                T.copy(m, m_old)
                T.reduce_max(s, m, dim=1, clear=False)
                for r, j in T.Parallel(rows, block_N):
                    s[r, j] = T.exp(s[r, j] - m[r])
                T.reduce_sum(s, row_sum, dim=1)
                for r in T.Parallel(rows):
                    l[r] = l[r] * T.exp(m_old[r] - m[r]) + row_sum[r]
                for r, d in T.Parallel(rows, D):
                    acc[r, d] *= T.exp(m_old[r] - m[r])
                T.copy(s, p_s)
                T.gemm(p_s, v_s, acc)
            for r, d in T.Parallel(rows, D):
                Part[b, sp, r, d] = T.if_then_else(l[r] > 0.0, acc[r, d] / l[r], 0.0)
            for r in T.Parallel(rows):
                Lse[b, sp, r] = T.if_then_else(l[r] > 0.0, m[r] + T.log(l[r]), NEG)

    return main


@tilelang.jit(out_idx=[2])
def merge(B, rows, D, splits):
    shape = (B, splits, rows)

    @T.prim_func
    def main(Part: T.Tensor((*shape, D), "float32"), Lse: T.Tensor(shape, "float32"), O: T.Tensor((B, rows, D), "float32")):
        with T.Kernel(rows, B, threads=32) as (r, b):
            acc = T.alloc_fragment((D,), "float32")
            top = T.alloc_var("float32", init=NEG)
            total = T.alloc_var("float32", init=0.0)
            for sp in T.serial(splits):
                top = T.max(top, Lse[b, sp, r])
            for sp in T.serial(splits):
                total = total + T.exp(Lse[b, sp, r] - top)
            T.clear(acc)
            for sp in T.serial(splits):
                for d in T.Parallel(D):
                    acc[d] += Part[b, sp, r, d] * T.exp(Lse[b, sp, r] - top) / total
            T.copy(acc, O[b, r, 0])

    return main


def reference(q, k, v, lens, slopes):
    S, D, out = q.shape[1], q.shape[3], torch.empty_like(q, dtype=torch.float32)
    for b, n in enumerate(lens.tolist()):
        pos = torch.arange(n, device=q.device)
        dist = pos[n - S :, None] - pos[None, :]
        sc = torch.einsum("shd,nd->hsn", q[b].float(), k[b, :n].float()) * D**-0.5
        sc = (sc - slopes[:, None, None] * dist).masked_fill(dist < 0, float("-inf"))
        out[b] = torch.einsum("hsn,nd->shd", sc.softmax(-1), v[b, :n].float())
    return out


def main():
    torch.manual_seed(0)
    D, L, splits = 64, 160, 3
    for S, H in [(1, 16), (4, 8)]:
        B, lens = 3, torch.tensor([160, 37, 98], dtype=torch.int32, device="cuda")
        q = torch.randn(B, S, H, D, device="cuda").half()
        k, v = torch.randn(2, B, L, D, device="cuda").half()
        slopes = 2.0 ** (-8.0 * torch.arange(1, H + 1, device="cuda") / H)
        part, lse = attend_split(B, S, H, D, L, splits)(q.view(B, S * H, D), k, v, lens, slopes)
        out = merge(B, S * H, D, splits)(part, lse).view(B, S, H, D)
        torch.testing.assert_close(out, reference(q, k, v, lens, slopes), rtol=1e-2, atol=1e-2)
        print(f"S={S} H={H} ok")


if __name__ == "__main__":
    main()
