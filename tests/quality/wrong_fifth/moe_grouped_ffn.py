import torch
import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[-1])
def moe_up(tokens, topk, experts, K, N, blocks, BM=16, BN=32, BK=32):
    slots = tokens * topk

    @T.prim_func
    def up(
        A: T.Tensor((tokens, K), "float16"),
        W: T.Tensor((experts, N, K), "float16"),
        SortedIds: T.Tensor((blocks * BM,), "int32"),
        BlockExpert: T.Tensor((blocks,), "int32"),
        H: T.Tensor((slots, N), "float16"),
    ):
        with T.Kernel(T.ceildiv(N, BN), blocks, threads=128) as (bn, bm):
            ids = T.alloc_shared((BM,), "int32")
            a_s = T.alloc_shared((BM, BK), "float16")
            w_s = T.alloc_shared((BN, BK), "float16")
            acc = T.alloc_fragment((BM, BN), "float32")
            e = BlockExpert[bm]
            T.copy(SortedIds[bm * BM], ids)
            T.clear(acc)
            for ko in T.serial(T.ceildiv(K, BK)):
                for i, k in T.Parallel(BM, BK):
                    a_s[i, k] = T.if_then_else(ids[i] < tokens, A[ids[i] // topk, ko * BK + k], 0.0)  # BUG
                T.copy(W[e, bn * BN, ko * BK], w_s)
                T.gemm(a_s, w_s, acc, transpose_B=True)
            for i, j in T.Parallel(BM, BN):
                if ids[i] < slots:
                    H[ids[i], bn * BN + j] = T.max(acc[i, j], 0.0)

    return up


@tilelang.jit(out_idx=[-1])
def moe_combine(tokens, topk, N, BN=64):
    @T.prim_func
    def combine(
        H: T.Tensor((tokens * topk, N), "float16"),
        Wt: T.Tensor((tokens, topk), "float32"),
        Y: T.Tensor((tokens, N), "float32"),
    ):
        with T.Kernel(tokens, T.ceildiv(N, BN), threads=64) as (t, bn):
            acc = T.alloc_fragment((BN,), "float32")
            T.clear(acc)
            for k in T.serial(topk):
                for j in T.Parallel(BN):
                    acc[j] += Wt[t, k] * T.cast(H[t * topk + k, bn * BN + j], "float32")
            T.copy(acc, Y[t, bn * BN])

    return combine


def align_blocks(topk_ids, experts, BM):
    """Slot ids sorted by expert, each expert padded to BM with the id `numel` (as in vLLM)."""
    flat = topk_ids.flatten()
    pad = flat.numel()
    ids, owner = [], []
    for e in range(experts):
        mine = (flat == e).nonzero().flatten().tolist()
        nb = -(-len(mine) // BM)
        ids += mine + [pad] * (nb * BM - len(mine))
        owner += [e] * nb
    dev = topk_ids.device
    return (torch.tensor(ids, dtype=torch.int32, device=dev), torch.tensor(owner, dtype=torch.int32, device=dev))


if __name__ == "__main__":
    torch.manual_seed(0)
    M, topk, E, K, N = 26, 2, 5, 64, 64
    x = torch.randn(M, K, device="cuda").half()
    w = (torch.randn(E, N, K, device="cuda") / K**0.5).half()
    probs = torch.randn(M, E, device="cuda").softmax(-1)
    wt, idx = probs.topk(topk, dim=-1)
    wt = wt / wt.sum(-1, keepdim=True)
    ids, owner = align_blocks(idx, E, 16)

    h = moe_up(M, topk, E, K, N, owner.numel())(x, w, ids, owner)
    y = moe_combine(M, topk, N)(h, wt.contiguous())

    ref = torch.zeros(M, N, device="cuda")
    for t in range(topk):
        ref += wt[:, t : t + 1] * torch.einsum("mk,mnk->mn", x.float(), w[idx[:, t]].float()).relu()
    torch.testing.assert_close(y, ref, rtol=1e-2, atol=1e-2)
    print("moe ok")
