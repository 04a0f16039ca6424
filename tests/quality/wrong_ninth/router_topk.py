"""MoE router: top-k experts per token (k rounds of argmax), gates renormalised over the chosen ones."""
import torch
import tilelang
import tilelang.language as T


@tilelang.jit
def router_topk(logits, gates, index, top_k: int = 2, BT: int = 16):
    tokens, experts = T.const("tokens, experts")
    logits: T.Tensor[[tokens, experts], T.float32]
    gates: T.Tensor[[tokens, top_k], T.float32]
    index: T.Tensor[[tokens, top_k], T.int32]

    with T.Kernel(T.ceildiv(tokens, BT), threads=128) as bt:
        score = T.alloc_fragment((BT, experts), T.float32)
        cand = T.alloc_fragment((BT, experts), T.int32)
        best = T.alloc_fragment((BT,), T.float32)
        pick = T.alloc_fragment((BT,), T.int32)
        first = T.alloc_fragment((BT,), T.float32)
        denom = T.alloc_fragment((BT,), T.float32)
        weight = T.alloc_shared((BT, top_k), T.float32)

        for i, j in T.Parallel(BT, experts):
            score[i, j] = T.if_then_else(bt * BT + i < tokens, logits[bt * BT + i, j], 0.0)
        T.clear(denom)
        for r in T.serial(top_k):
            T.reduce_max(score, best, dim=1)
            for i, j in T.Parallel(BT, experts):
                cand[i, j] = T.if_then_else(score[i, j] == best[i], j, experts)
            T.reduce_min(cand, pick, dim=1)
            for i in T.Parallel(BT):
                if r == 0:
                    first[i] = best[i]
                denom[i] += T.exp(best[i] - first[i])
                weight[i, r] = T.exp(best[i] - first[i])
                if bt * BT + i < tokens:
                    index[bt * BT + i, r] = pick[i]
            # take the winner out of the race
            for i, j in T.Parallel(BT, experts):
                score[i, j] = T.if_then_else(score[i, j] == best[i], -T.infinity("float32"), score[i, j])

        for i, r in T.Parallel(BT, top_k):
            if bt * BT + i < tokens:
                gates[bt * BT + i, r] = weight[i, r] / denom[i]


def route(logits, top_k):
    tokens = logits.shape[0]
    gates = torch.zeros(tokens, top_k, device="cuda")
    index = torch.zeros(tokens, top_k, dtype=torch.int32, device="cuda")
    router_topk(logits, gates, index, top_k=top_k)
    return gates, index


def compare(logits, top_k):
    gates, index = route(logits, top_k)
    values, _ = torch.topk(logits, top_k, dim=-1)
    picked = logits.gather(1, index.long())
    same_values = torch.equal(picked, values)
    distinct = all(len(set(row)) == top_k for row in index.tolist())
    close = torch.allclose(gates, values.softmax(-1), rtol=1e-5, atol=1e-6)
    print(f"tokens={logits.shape[0]} experts={logits.shape[1]} k={top_k}: {same_values=} {distinct=} {close=}")
    return same_values and distinct and close


if __name__ == "__main__":
    torch.manual_seed(2)
    ok = compare(torch.randn(32, 16, device="cuda"), 2)
    # router logits of a low-precision gate: steps of 1/4
    ok &= compare(torch.round(4 * torch.randn(40, 32, device="cuda")) / 4, 4)
    if not ok:
        raise SystemExit("router mismatch")
