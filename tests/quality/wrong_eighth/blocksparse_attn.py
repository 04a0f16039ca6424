import torch
import tilelang
import tilelang.language as T

BLK = 32


def sparse_attention(H, S, D, max_nnz, sm_scale):
    scale = sm_scale * 1.44269504
    nq = S // BLK

    @T.prim_func
    def kernel(
        Q: T.Tensor((H, S, D), "float16"),
        K: T.Tensor((H, S, D), "float16"),
        V: T.Tensor((H, S, D), "float16"),
        Cols: T.Tensor((H, nq, max_nnz), "int32"),
        Count: T.Tensor((H, nq), "int32"),
        O: T.Tensor((H, S, D), "float16"),
    ):
        with T.Kernel(nq, H, threads=128) as (bq, h):
            Qs = T.alloc_shared((BLK, D), "float16")
            Ks = T.alloc_shared((BLK, D), "float16")
            Vs = T.alloc_shared((BLK, D), "float16")
            Ps = T.alloc_shared((BLK, BLK), "float16")
            S_ = T.alloc_fragment((BLK, BLK), "float32")
            Oacc = T.alloc_fragment((BLK, D), "float32")
            mx = T.alloc_fragment((BLK,), "float32")
            mx_old = T.alloc_fragment((BLK,), "float32")
            corr = T.alloc_fragment((BLK,), "float32")
            rs = T.alloc_fragment((BLK,), "float32")
            den = T.alloc_fragment((BLK,), "float32")

            T.copy(Q[h, bq * BLK, 0], Qs)
            T.clear(Oacc)
            T.clear(den)
            T.fill(mx, -1e30)
            for t in T.serial(Count[h, bq]):
                kb = Cols[h, bq, t]
                T.copy(K[h, kb * BLK : (kb + 1) * BLK, :], Ks)
                T.copy(V[h, kb * BLK : (kb + 1) * BLK, :], Vs)
                T.clear(S_)
                T.gemm(Qs, Ks, S_, transpose_B=True)
                for i, j in T.Parallel(BLK, BLK):
                    S_[i, j] = T.if_then_else(bq * BLK + i >= t * BLK + j, S_[i, j] * scale, -1e30)  # BUG
                T.copy(mx, mx_old)
                T.reduce_max(S_, mx, dim=1, clear=False)
                for i in T.Parallel(BLK):
                    corr[i] = T.exp2(mx_old[i] - mx[i])
                for i, j in T.Parallel(BLK, BLK):
                    S_[i, j] = T.exp2(S_[i, j] - mx[i])
                T.reduce_sum(S_, rs, dim=1)
                for i in T.Parallel(BLK):
                    den[i] = den[i] * corr[i] + rs[i]
                for i, j in T.Parallel(BLK, D):
                    Oacc[i, j] *= corr[i]
                T.copy(S_, Ps)
                T.gemm(Ps, Vs, Oacc)
            for i, j in T.Parallel(BLK, D):
                Oacc[i, j] /= den[i]
            T.copy(Oacc, O[h, bq * BLK, 0])

    return tilelang.compile(kernel, out_idx=[5], target="cuda")


def layout(H, nq, device):
    """sink block + strided blocks (shifted by head) + the diagonal block"""
    keep = torch.zeros(H, nq, nq, dtype=torch.bool)
    for h in range(H):
        for q in range(nq):
            keep[h, q, 0] = True
            keep[h, q, q] = True
            for k in range(q):
                if (q - k + h) % 3 == 0:
                    keep[h, q, k] = True
    count = keep.sum(-1).int()
    cols = torch.zeros(H, nq, int(count.max()), dtype=torch.int32)
    for h in range(H):
        for q in range(nq):
            ids = keep[h, q].nonzero().flatten()
            cols[h, q, : len(ids)] = ids.int()
    return keep.to(device), cols.to(device), count.to(device)


def ref_attention(q, k, v, keep, sm_scale):
    S = q.shape[1]
    s = q.float() @ k.float().transpose(1, 2) * sm_scale
    allowed = keep.repeat_interleave(BLK, 1).repeat_interleave(BLK, 2)
    allowed = allowed & torch.ones(S, S, dtype=torch.bool, device=q.device).tril()
    return s.masked_fill(~allowed, float("-inf")).softmax(-1) @ v.float()


torch.manual_seed(11)
H, S, D = 2, 160, 32
q, k, v = (torch.randn(H, S, D, device="cuda", dtype=torch.float16) for _ in range(3))
keep, cols, count = layout(H, S // BLK, q.device)
out = sparse_attention(H, S, D, cols.shape[-1], D**-0.5)(q, k, v, cols, count)
ref = ref_attention(q, k, v, keep, D**-0.5)
ok = torch.allclose(out.float(), ref, rtol=1e-2, atol=1e-2)
print("max diff", (out.float() - ref).abs().max().item())
assert ok, "block sparse attention differs from the dense reference"
