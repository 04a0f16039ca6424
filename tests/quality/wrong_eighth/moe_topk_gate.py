import sys
import torch
import tilelang
import tilelang.language as T


def topk_gating(tokens, experts, k, BT=8):
    @T.prim_func
    def gate(
        Logits: T.Tensor((tokens, experts), "float32"),
        Weights: T.Tensor((tokens, k), "float32"),
        Ids: T.Tensor((tokens, k), "int32"),
    ):
        with T.Kernel(T.ceildiv(tokens, BT), threads=128) as bx:
            lg = T.alloc_fragment((BT, experts), "float32")
            cand = T.alloc_fragment((BT, experts), "int32")
            best = T.alloc_fragment((BT,), "float32")
            first = T.alloc_fragment((BT,), "float32")
            arg = T.alloc_fragment((BT,), "int32")
            denom = T.alloc_fragment((BT,), "float32")
            gate_s = T.alloc_shared((BT, k), "float32")
            ids_s = T.alloc_shared((BT, k), "int32")
            T.copy(Logits[bx * BT, 0], lg)
            T.reduce_max(lg, first, dim=1)
            T.clear(denom)
            for t in T.serial(k):
                T.reduce_max(lg, best, dim=1)
                for i, e in T.Parallel(BT, experts):
                    cand[i, e] = T.if_then_else(lg[i, e] == best[i], e, experts)
                T.reduce_min(cand, arg, dim=1)
                for i in T.Parallel(BT):
                    denom[i] += T.exp(best[i] - first[i])
                    gate_s[i, t] = T.exp(best[i] - first[i])
                    ids_s[i, t] = arg[i]
                for i, e in T.Parallel(BT, experts):
                    lg[i, e] = T.if_then_else(lg[i, e] == best[i], -1e30, lg[i, e])  # BUG
            for i, t in T.Parallel(BT, k):
                gate_s[i, t] = gate_s[i, t] / denom[i]
            T.copy(gate_s, Weights[bx * BT, 0])
            T.copy(ids_s, Ids[bx * BT, 0])

    return tilelang.compile(gate, out_idx=[1, 2], target="cuda")


def reference(logits, k):
    vals, ids = torch.sort(logits, dim=1, descending=True, stable=True)
    return torch.softmax(vals[:, :k], dim=1), ids[:, :k].int()


def compare(name, logits, k):
    w, ids = topk_gating(*logits.shape, k)(logits)
    w_ref, ids_ref = reference(logits, k)
    n_ids = (ids != ids_ref).sum().item()
    werr = (w - w_ref).abs().max().item()
    print(f"{name}: {n_ids} wrong experts, weight error {werr:.2e}")
    return n_ids == 0 and werr < 1e-4


def main():
    torch.manual_seed(9)
    fresh = torch.randn(30, 32, device="cuda")
    coarse = (torch.randn(30, 32, device="cuda") * 4).round() / 4
    results = [compare("fp32 router", fresh, 4), compare("quantized router", coarse, 4)]
    if not all(results):
        print("top-k gating: MISMATCH")
        sys.exit(1)
    print("top-k gating: OK")


main()
