"""Index of the largest logit of each row."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[1])
def argmax(rows, vocab, block=64, chunk=64):
    @T.prim_func
    def main(Logits: T.Tensor((rows, vocab), "float32"), Index: T.Tensor((rows,), "int32")):
        with T.Kernel(T.ceildiv(rows, block), threads=64) as b:
            tile = T.alloc_shared((block, chunk), "float32")
            best = T.alloc_fragment((block,), "float32")
            where = T.alloc_fragment((block,), "int32")
            T.fill(best, -T.infinity("float32"))
            T.fill(where, 0)
            for c in T.serial(vocab // chunk):
                T.copy(Logits[b * block, c * chunk], tile)
                for i in T.Parallel(block):
                    for j in T.serial(chunk):
                        if tile[i, j] > best[i]:
                            best[i] = tile[i, j]
                            where[i] = j  # BUG
            T.copy(where, Index[b * block])

    return main


if __name__ == "__main__":
    torch.manual_seed(17)
    rows, vocab = 128, 448
    logits = torch.randn(rows, vocab, device="cuda")
    index = argmax(rows, vocab)(logits)
    expected = logits.argmax(dim=1).int()
    assert torch.equal(index, expected), f"{(index != expected).sum().item()} of {rows} rows differ"
    print("argmax ok")
