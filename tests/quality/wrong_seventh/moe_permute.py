"""Token permute -> per-expert scale -> weighted unpermute, as in a MoE layer with dropless routing."""
import torch
import tilelang
import tilelang.language as T


@tilelang.jit
def permute(tokens, top_k, hidden, block=8, dtype="float16"):
    total = tokens * top_k
    @T.prim_func
    def main(
        X: T.Tensor((tokens, hidden), dtype),
        SortedIdx: T.Tensor((total,), "int32"),
        RowMap: T.Tensor((total,), "int32"),
        Xp: T.Tensor((total, hidden), dtype),
    ):
        with T.Kernel(T.ceildiv(total, block), threads=128) as bx:
            for i, d in T.Parallel(block, hidden):
                if bx * block + i < total:
                    Xp[bx * block + i, d] = X[SortedIdx[bx * block + i] // top_k, d]
            for i in T.Parallel(block):
                if bx * block + i < total:
                    RowMap[SortedIdx[bx * block + i]] = bx * block + i

    return main


@tilelang.jit
def expert_scale(total, experts, hidden, block=8, dtype="float16"):
    @T.prim_func
    def main(
        Xp: T.Tensor((total, hidden), dtype), Expert: T.Tensor((total,), "int32"),
        Gain: T.Tensor((experts, hidden), "float32"), Yp: T.Tensor((total, hidden), dtype),
    ):
        with T.Kernel(T.ceildiv(total, block), threads=128) as bx:
            for i, d in T.Parallel(block, hidden):
                if bx * block + i < total:
                    Yp[bx * block + i, d] = T.cast(T.cast(Xp[bx * block + i, d], "float32") * Gain[Expert[bx * block + i], d], dtype)

    return main


@tilelang.jit
def unpermute(tokens, top_k, hidden, block=8, dtype="float16"):
    total = tokens * top_k
    @T.prim_func
    def main(
        Yp: T.Tensor((total, hidden), dtype), RowMap: T.Tensor((total,), "int32"),
        Prob: T.Tensor((total,), "float32"), Out: T.Tensor((tokens, hidden), "float32"),
    ):
        with T.Kernel(T.ceildiv(tokens, block), threads=128) as bx:
            acc = T.alloc_fragment((block, hidden), "float32")
            T.clear(acc)
            for k in T.serial(top_k):
                for i, d in T.Parallel(block, hidden):
                    if bx * block + i < tokens:
                        row = RowMap[(bx * block + i) * top_k + k]
                        acc[i, d] += T.cast(Yp[row, d], "float32") * Prob[row]  # BUG
            for i, d in T.Parallel(block, hidden):
                if bx * block + i < tokens:
                    Out[bx * block + i, d] = acc[i, d]

    return main


def moe_tilelang(x, expert_id, prob, gain):
    tokens, hidden = x.shape
    top_k, experts = expert_id.shape[1], gain.shape[0]
    flat = expert_id.reshape(-1)
    order = torch.argsort(flat, stable=True)
    row_map = torch.empty(tokens * top_k, dtype=torch.int32, device=x.device)
    xp = x.new_empty(tokens * top_k, hidden)
    yp = torch.empty_like(xp)
    out = torch.empty(tokens, hidden, device=x.device)
    permute(tokens, top_k, hidden)(x, order.int(), row_map, xp)
    expert_scale(tokens * top_k, experts, hidden)(xp, flat[order].int(), gain, yp)
    unpermute(tokens, top_k, hidden)(yp, row_map, prob.reshape(-1), out)
    return out


def moe_ref(x, expert_id, prob, gain):
    return (x.float()[:, None] * gain[expert_id] * prob[..., None]).sum(1)


if __name__ == "__main__":
    torch.manual_seed(0)
    for tokens, experts, top_k in [(16, 1, 1), (20, 4, 1), (36, 8, 2), (24, 6, 3)]:
        x = torch.randn(tokens, 64, device="cuda", dtype=torch.float16)
        prob, expert_id = torch.randn(tokens, experts, device="cuda").softmax(-1).topk(top_k, dim=-1)
        gain = torch.rand(experts, 64, device="cuda") + 0.5
        out = moe_tilelang(x, expert_id, prob.contiguous(), gain)
        torch.testing.assert_close(out, moe_ref(x, expert_id, prob, gain), rtol=1e-2, atol=1e-2)
        print(f"tokens={tokens} experts={experts} top_k={top_k} ok")
