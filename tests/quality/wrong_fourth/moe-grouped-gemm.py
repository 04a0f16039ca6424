"""MoE up-projection: slots sorted by expert and padded to tiles, rows gathered, weighted results scattered."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[5])
def moe_gemm(tokens, topk, experts, hidden, width, tiles, block_M=32, block_N=64, block_K=32):
    slots = tokens * topk

    @T.prim_func
    def main(
        X: T.Tensor((tokens, hidden), "float16"),
        W: T.Tensor((experts, width, hidden), "float16"),
        Gate: T.Tensor((slots,), "float32"),
        Sorted: T.Tensor((tiles * block_M,), "int32"),
        TileExpert: T.Tensor((tiles,), "int32"),
        Y: T.Tensor((slots, width), "float32"),
    ):
        with T.Kernel(T.ceildiv(width, block_N), tiles, threads=128) as (bx, by):
            slot = T.alloc_shared((block_M,), "int32")
            row = T.alloc_shared((block_M,), "int32")
            X_shared = T.alloc_shared((block_M, block_K), "float16")
            W_shared = T.alloc_shared((block_N, block_K), "float16")
            acc = T.alloc_fragment((block_M, block_N), "float32")
            expert = TileExpert[by]
            T.clear(acc)
            for i in T.Parallel(block_M):
                slot[i] = Sorted[by * block_M + i]
                row[i] = slot[i] % tokens  # BUG
            for k in T.serial(T.ceildiv(hidden, block_K)):
                for i, j in T.Parallel(block_M, block_K):
                    X_shared[i, j] = T.if_then_else(
                        slot[i] < slots, X[row[i], k * block_K + j], T.Cast("float16", 0.0)
                    )
                T.copy(W[expert, bx * block_N, k * block_K], W_shared)
                T.gemm(X_shared, W_shared, acc, transpose_B=True)
            for i, j in T.Parallel(block_M, block_N):
                if slot[i] < slots:
                    Y[slot[i], bx * block_N + j] = acc[i, j] * Gate[slot[i]]

    return main


def align(ids, experts, block):
    """Slots of each expert in turn, filled up to a whole tile with the number of slots."""
    slots = ids.numel()
    order, owner = [], []
    for e in range(experts):
        mine = torch.nonzero(ids.flatten() == e).flatten().tolist()
        mine += [slots] * (-len(mine) % block)
        order += mine
        owner += [e] * (len(mine) // block)
    return (
        torch.tensor(order, dtype=torch.int32, device="cuda"),
        torch.tensor(owner, dtype=torch.int32, device="cuda"),
    )


if __name__ == "__main__":
    torch.manual_seed(31)
    tokens, topk, experts, hidden, width = 48, 2, 4, 64, 64
    x = torch.randn(tokens, hidden, device="cuda", dtype=torch.float16)
    w = (0.2 * torch.randn(experts, width, hidden, device="cuda")).half()
    gate, ids = torch.topk(torch.softmax(torch.randn(tokens, experts, device="cuda"), -1), topk, -1)
    order, owner = align(ids, experts, 32)
    y = moe_gemm(tokens, topk, experts, hidden, width, owner.numel())(
        x, w, gate.flatten().contiguous(), order, owner
    )
    want = torch.einsum("th,tkwh->tkw", x.float(), w.float()[ids]) * gate[..., None]
    diff = (y.view(tokens, topk, width) - want).abs().max().item()
    assert diff < 1e-2, f"moe differs by {diff}"
    print("moe ok")
