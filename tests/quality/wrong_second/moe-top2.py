"""MoE gate: softmax over the experts, the best two of them and their renormalized weights."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[1, 2])
def gate(tokens, experts, block=32):
    @T.prim_func
    def main(
        Logits: T.Tensor((tokens, experts), "float32"),
        Weight: T.Tensor((tokens, 2), "float32"),
        Expert: T.Tensor((tokens, 2), "int32"),
    ):
        with T.Kernel(T.ceildiv(tokens, block), threads=128) as b:
            probs = T.alloc_fragment((block, experts), "float32")
            rest = T.alloc_fragment((block, experts), "float32")
            place = T.alloc_fragment((block, experts), "int32")
            best = T.alloc_fragment((block,), "float32")
            index = T.alloc_fragment((block,), "int32")
            total = T.alloc_fragment((block,), "float32")
            chosen = T.alloc_shared((block, 2), "float32")
            T.copy(Logits[b * block, 0], probs)
            T.reduce_max(probs, best, dim=1)
            for i, j in T.Parallel(block, experts):
                probs[i, j] = T.exp(probs[i, j] - best[i])
            T.reduce_sum(probs, total, dim=1)
            for i, j in T.Parallel(block, experts):
                probs[i, j] = probs[i, j] / total[i]
            T.copy(probs, rest)
            for k in T.serial(2):
                T.reduce_max(probs, best, dim=1)  # BUG
                for i, j in T.Parallel(block, experts):
                    place[i, j] = T.if_then_else(rest[i, j] == best[i], j, -1)
                T.reduce_max(place, index, dim=1)
                for i in T.Parallel(block):
                    chosen[i, k] = best[i]
                    Expert[b * block + i, k] = index[i]
                for i, j in T.Parallel(block, experts):
                    rest[i, j] = T.if_then_else(j == index[i], 0.0, rest[i, j])
            for i, k in T.Parallel(block, 2):
                Weight[b * block + i, k] = chosen[i, k] / (chosen[i, 0] + chosen[i, 1])

    return main


if __name__ == "__main__":
    torch.manual_seed(15)
    tokens, experts = 128, 16
    logits = torch.randn(tokens, experts, device="cuda")
    weight, expert = gate(tokens, experts)(logits)
    top, ids = torch.topk(torch.softmax(logits, dim=-1), 2, dim=-1)
    torch.testing.assert_close(weight, top / top.sum(-1, keepdim=True), rtol=1e-4, atol=1e-5)
    assert torch.equal(expert.long(), ids), "experts differ"
    print("gate ok")
