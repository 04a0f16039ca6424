"""MoE projection as a grouped GEMM: rows sorted by expert, ragged group sizes, tiles listed on the host.

Slot r of the (tokens * topk) routed rows belongs to token r // topk. `order` sorts the slots by expert.
Each product row is scaled by its routing weight and written back to its own slot.
"""
import torch
import tilelang
import tilelang.language as T


def grouped_proj(tokens, topk, experts, tiles, D, F, BM=16, BN=32, BK=32):
    rows = tokens * topk

    @T.macro
    def gather_rows(X, order, dst, first, last, k0):
        for i, k in T.Parallel(BM, BK):
            dst[i, k] = T.float16(0)
            if first + i < last:
                dst[i, k] = X[order[first + i] // topk, k0 + k]

    @T.prim_func
    def main(
        X: T.Tensor((tokens, D), "float16"),
        W: T.Tensor((experts, D, F), "float16"),
        gate: T.Tensor((rows,), "float32"),
        order: T.Tensor((rows,), "int32"),
        tile_expert: T.Tensor((tiles,), "int32"),
        tile_row: T.Tensor((tiles,), "int32"),
        group_end: T.Tensor((experts,), "int32"),
        Y: T.Tensor((rows, F), "float32"),
    ):
        with T.Kernel(T.ceildiv(F, BN), tiles, threads=128) as (bx, bt):
            X_s = T.alloc_shared((BM, BK), "float16")
            W_s = T.alloc_shared((BK, BN), "float16")
            acc = T.alloc_fragment((BM, BN), "float32")

            e = tile_expert[bt]
            first = tile_row[bt]
            last = group_end[e]
            T.clear(acc)
            for ko in T.serial(D // BK):
                gather_rows(X, order, X_s, first, last, ko * BK)
                for k, j in T.Parallel(BK, BN):
                    W_s[k, j] = W[e, ko * BK + k, bx * BN + j]
                T.gemm(X_s, W_s, acc)
            for i, j in T.Parallel(BM, BN):
                if first + i < last:
                    Y[order[first + i], bx * BN + j] = acc[i, j] * gate[first + i]

    return main


def plan(expert_of_slot, experts, BM=16):
    order = torch.argsort(expert_of_slot, stable=True)
    sizes = torch.bincount(expert_of_slot, minlength=experts)
    ends = torch.cumsum(sizes, 0)
    tile_e, tile_r = [], []
    for e in range(experts):
        end = int(ends[e])
        for r in range(end - int(sizes[e]), end, BM):
            tile_e.append(e)
            tile_r.append(r)
    return [torch.as_tensor(v).int().to(device="cuda") for v in (order, tile_e, tile_r, ends)]


def main():
    torch.manual_seed(21)
    tokens, topk, experts, D, F = 45, 2, 5, 64, 64
    x = torch.randn(tokens, D).half().to(device="cuda")
    w = (torch.randn(experts, D, F) / D**0.5).half().to(device="cuda")
    logits = torch.randn(tokens, experts)
    logits[:, 3] = -20.0  # an expert nobody picks
    val, idx = torch.topk(logits.softmax(-1), topk, dim=-1)
    gate = (val / val.sum(-1, keepdim=True)).flatten().to(device="cuda")

    order, tile_e, tile_r, ends = plan(idx.flatten(), experts)
    kernel = tilelang.compile(grouped_proj(tokens, topk, experts, tile_e.numel(), D, F), out_idx=[7])
    y = kernel(x, w, gate, order, tile_e, tile_r, ends)
    out = y.view(tokens, topk, F).sum(1)

    ref = torch.zeros(tokens, F, device="cuda")
    for n in range(tokens):
        for s in range(topk):
            ref[n] += gate[n * topk + s] * (x[n].float() @ w[idx[n, s]].float())
    torch.testing.assert_close(out, ref, rtol=1e-2, atol=1e-2)
    print("grouped projection ok")


if __name__ == "__main__":
    main()
