"""Cross-entropy of every token, the vocabulary in tiles."""

import tilelang
import tilelang.language as T
import torch
import torch.nn.functional as F


@tilelang.jit(out_idx=[2])
def cross_entropy(tokens, vocab, block=8, tile=128):
    @T.prim_func
    def main(
        Logits: T.Tensor((tokens, vocab), "float32"),
        Labels: T.Tensor((tokens,), "int32"),
        Loss: T.Tensor((tokens,), "float32"),
    ):
        with T.Kernel(tokens // block, threads=128) as b:
            x = T.alloc_fragment((block, tile), "float32")
            e = T.alloc_fragment((block, tile), "float32")
            top = T.alloc_fragment((block,), "float32")
            old = T.alloc_fragment((block,), "float32")
            total = T.alloc_fragment((block,), "float32")
            part = T.alloc_fragment((block,), "float32")
            picked = T.alloc_fragment((block,), "float32")
            label = T.alloc_fragment((block,), "int32")
            T.copy(Labels[b * block], label)
            T.clear(total)
            T.clear(picked)
            T.fill(top, -T.infinity("float32"))
            for t in T.serial(vocab // tile):
                T.copy(Logits[b * block, t * tile], x)
                T.copy(top, old)
                T.reduce_max(x, top, dim=1, clear=False)
                for i, j in T.Parallel(block, tile):
                    e[i, j] = T.exp(x[i, j] - top[i])
                T.reduce_sum(e, part, dim=1)
                for i in T.Parallel(block):
                    total[i] = total[i] * T.exp(old[i] - top[i]) + part[i]
                for i, j in T.Parallel(block, tile):
                    e[i, j] = T.if_then_else(j == label[i], x[i, j], 0.0)  # BUG
                T.reduce_sum(e, part, dim=1)
                for i in T.Parallel(block):
                    picked[i] += part[i]
            for i in T.Parallel(block):
                Loss[b * block + i] = T.log(total[i]) + top[i] - picked[i]

    return main


if __name__ == "__main__":
    torch.manual_seed(27)
    tokens, vocab = 32, 512
    logits = 2 * torch.randn(tokens, vocab, device="cuda")
    labels = torch.randint(0, vocab, (tokens,), device="cuda")
    loss = cross_entropy(tokens, vocab)(logits, labels.int())
    torch.testing.assert_close(loss, F.cross_entropy(logits, labels, reduction="none"), rtol=1e-4, atol=1e-4)
    print("cross entropy ok")
