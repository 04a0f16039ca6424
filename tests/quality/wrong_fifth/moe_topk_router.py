import torch
import tilelang
import tilelang.language as T


@T.macro
def pick_max(logits, best, where, cand, rows, experts):
    T.reduce_max(logits, best, dim=1)
    for i, j in T.Parallel(rows, experts):
        cand[i, j] = T.if_then_else(logits[i, j] == best[i], T.cast(j, "float32"), T.cast(experts, "float32"))
    T.reduce_min(cand, where, dim=1)


@tilelang.jit(out_idx=[1, 2])
def topk_gating(tokens, experts, topk, block_T=16):
    @T.prim_func
    def route(
        Logits: T.Tensor((tokens, experts), "float32"),
        Weights: T.Tensor((tokens, topk), "float32"),
        Ids: T.Tensor((tokens, topk), "int32"),
    ):
        with T.Kernel(T.ceildiv(tokens, block_T), threads=128) as bx:
            logits = T.alloc_fragment((block_T, experts), "float32")
            cand = T.alloc_fragment((block_T, experts), "float32")
            best = T.alloc_fragment((block_T,), "float32")
            where = T.alloc_fragment((block_T,), "float32")
            w_s = T.alloc_shared((block_T, topk), "float32")
            first = T.alloc_fragment((block_T,), "float32")
            total = T.alloc_fragment((block_T,), "float32")

            T.copy(Logits[bx * block_T, 0], logits)
            T.clear(total)
            T.clear(first)
            for k in T.serial(topk):
                pick_max(logits, best, where, cand, block_T, experts)
                for i in T.Parallel(block_T):
                    first[i] = T.if_then_else(k == 0, best[i], first[i])
                for i in T.Parallel(block_T):
                    w_s[i, k] = T.exp(best[i] - first[i])
                    if bx * block_T + i < tokens:
                        Ids[bx * block_T + i, k] = T.cast(where[i], "int32")
                    total[i] = total[i] + T.exp(best[i] - first[i])
                for i, j in T.Parallel(block_T, experts):
                    logits[i, j] = T.if_then_else(logits[i, j] == best[i], -1e30, logits[i, j])  # BUG
            for i, k in T.Parallel(block_T, topk):
                if bx * block_T + i < tokens:
                    Weights[bx * block_T + i, k] = w_s[i, k] / total[i]

    return route


def reference(logits, topk):
    vals, ids = torch.sort(logits, dim=-1, descending=True, stable=True)
    return torch.softmax(vals[:, :topk], dim=-1), ids[:, :topk].to(torch.int32)


def main():
    torch.manual_seed(3)
    tokens, experts, topk = 50, 32, 4
    # router runs in 8-bit: logits sit on a coarse grid
    logits = (torch.randn(tokens, experts, device="cuda") * 4).round() / 4
    w, ids = topk_gating(tokens, experts, topk)(logits)
    ref_w, ref_ids = reference(logits, topk)
    print("id mismatches:", int((ids != ref_ids).sum()))
    torch.testing.assert_close(w, ref_w, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(ids, ref_ids)


if __name__ == "__main__":
    main()
