"""Cross-entropy per token, the vocabulary streamed in tiles with a running maximum and sum."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[2])
def cross_entropy(tokens, vocab, block=16, tile=128):
    @T.prim_func
    def main(
        Logits: T.Tensor((tokens, vocab), "float32"),
        Target: T.Tensor((tokens,), "int32"),
        Loss: T.Tensor((tokens,), "float32"),
    ):
        with T.Kernel(T.ceildiv(tokens, block), threads=128) as b:
            z = T.alloc_fragment((block, tile), "float32")
            top = T.alloc_fragment((block,), "float32")
            last = T.alloc_fragment((block,), "float32")
            total = T.alloc_fragment((block,), "float32")
            T.fill(top, -T.infinity("float32"))
            T.fill(total, 0.0)
            for v in T.serial(T.ceildiv(vocab, tile)):
                for i, j in T.Parallel(block, tile):
                    z[i, j] = T.if_then_else(
                        v * tile + j < vocab, Logits[b * block + i, v * tile + j], -T.infinity("float32")
                    )
                T.copy(top, last)
                T.reduce_max(z, top, dim=1, clear=False)
                for i in T.Parallel(block):
                    total[i] = total[i] * T.exp(last[i] - top[i])
                for i, j in T.Parallel(block, tile):
                    z[i, j] = T.exp(z[i, j] - top[i])
                T.reduce_sum(z, total, dim=1)  # BUG
            for i in T.Parallel(block):
                Loss[b * block + i] = T.log(total[i]) + top[i] - Logits[b * block + i, Target[b * block + i]]

    return main


if __name__ == "__main__":
    torch.manual_seed(8)
    tokens, vocab = 64, 1000
    logits = 2.0 * torch.randn(tokens, vocab, device="cuda")
    target = torch.randint(0, vocab, (tokens,), device="cuda", dtype=torch.int32)
    loss = cross_entropy(tokens, vocab)(logits, target)
    want = torch.nn.functional.cross_entropy(logits, target.long(), reduction="none")
    torch.testing.assert_close(loss, want, rtol=1e-4, atol=1e-4)
    print("cross entropy ok")
