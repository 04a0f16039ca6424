"""Router with group-limited top-k: pick the best expert groups first, then the top-k experts inside them."""
import torch
import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[2, 3])
def router(tokens, experts, n_group, topk_group, topk, BT=32):
    per = experts // n_group
    NEG = -1e30

    @T.prim_func
    def main(
        Logits: T.Tensor((tokens, experts), "float32"),
        Bias: T.Tensor((experts,), "float32"),
        Weights: T.Tensor((tokens, topk), "float32"),
        Ids: T.Tensor((tokens, topk), "int32"),
    ):
        with T.Kernel(T.ceildiv(tokens, BT), threads=BT) as bt:
            prob = T.alloc_shared((BT, experts), "float32")
            choice = T.alloc_shared((BT, experts), "float32")
            gscore = T.alloc_shared((BT, n_group), "float32")
            keep = T.alloc_shared((BT, n_group), "int32")
            best = T.alloc_shared((BT,), "float32")
            arg = T.alloc_shared((BT,), "int32")
            total = T.alloc_shared((BT,), "float32")
            picked = T.alloc_shared((BT, topk), "float32")

            for t, e in T.Parallel(BT, experts):
                if bt * BT + t < tokens:
                    prob[t, e] = T.sigmoid(Logits[bt * BT + t, e])
                else:
                    prob[t, e] = 0.0
            # the balancing bias steers the choice only
            for t, e in T.Parallel(BT, experts):
                choice[t, e] = prob[t, e] + Bias[e]

            for t, g in T.Parallel(BT, n_group):
                gscore[t, g] = NEG
                keep[t, g] = 0
                for e in T.serial(per):
                    gscore[t, g] = T.max(gscore[t, g], choice[t, g * per + e])

            for r in T.serial(topk_group):
                for t in T.Parallel(BT):
                    best[t] = NEG
                    arg[t] = 0
                    for g in T.serial(n_group):
                        if keep[t, g] == 0 and gscore[t, g] > best[t]:
                            best[t] = gscore[t, g]
                            arg[t] = g
                    keep[t, arg[t]] = 1

            for t, e in T.Parallel(BT, experts):
                choice[t, e] = T.if_then_else(keep[t, e // per] == 1, choice[t, e], 0.0)

            T.clear(total)
            for r in T.serial(topk):
                for t in T.Parallel(BT):
                    best[t] = NEG
                    arg[t] = 0
                    for e in T.serial(experts):
                        if choice[t, e] > best[t]:
                            best[t] = choice[t, e]
                            arg[t] = e
                    choice[t, arg[t]] = NEG
                    picked[t, r] = prob[t, arg[t]]
                    total[t] += prob[t, arg[t]]
                    if bt * BT + t < tokens:
                        Ids[bt * BT + t, r] = arg[t]

            for t, r in T.Parallel(BT, topk):
                if bt * BT + t < tokens:
                    Weights[bt * BT + t, r] = picked[t, r] / total[t]

    return main


def router_ref(logits, bias, n_group, topk_group, topk):
    prob = logits.sigmoid()
    choice = prob + bias
    grouped = choice.view(len(logits), n_group, -1)
    groups = grouped.amax(-1).topk(topk_group, dim=-1).indices
    mask = torch.zeros(len(logits), n_group, dtype=torch.bool, device=logits.device).scatter_(1, groups, True)
    choice = grouped.masked_fill(~mask[..., None], float("-inf")).flatten(1)
    ids = choice.topk(topk, dim=-1).indices
    w = prob.gather(1, ids)
    return w / w.sum(-1, keepdim=True), ids


if __name__ == "__main__":
    torch.manual_seed(4)
    tokens, experts = 50, 32
    for n_group, topk_group, topk in [(8, 4, 4), (4, 2, 6), (8, 2, 6)]:
        logits = torch.randn(tokens, experts, device="cuda")
        bias = torch.randn(experts, device="cuda") * 0.3 - 0.7
        w, ids = router(tokens, experts, n_group, topk_group, topk)(logits, bias)
        w_ref, ids_ref = router_ref(logits, bias, n_group, topk_group, topk)
        wrong = (ids.long() != ids_ref).any(-1).sum().item()
        print(f"groups {topk_group}/{n_group} topk {topk}: {wrong} of {tokens} tokens routed differently")
        if wrong or not torch.allclose(w, w_ref, rtol=1e-4, atol=1e-5):
            raise SystemExit(1)
    print("routing matches")
