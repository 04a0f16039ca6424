"""Cross entropy per row over chunks of the vocabulary."""

import sys

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[2])
def cross_entropy(rows, vocab, block=32, chunk=64):
    @T.prim_func
    def main(
        Logits: T.Tensor((rows, vocab), "float32"),
        Target: T.Tensor((rows,), "int32"),
        Loss: T.Tensor((rows,), "float32"),
    ):
        with T.Kernel(T.ceildiv(rows, block), threads=128) as b:
            x = T.alloc_fragment((block, chunk), "float32")
            hit = T.alloc_fragment((block, chunk), "float32")
            m = T.alloc_fragment((block,), "float32")
            m_old = T.alloc_fragment((block,), "float32")
            part = T.alloc_fragment((block,), "float32")
            total = T.alloc_fragment((block,), "float32")
            picked = T.alloc_fragment((block,), "float32")
            T.fill(m, -1e30)
            T.clear(total)
            T.clear(picked)
            for c in T.serial(vocab // chunk):
                T.copy(Logits[b * block, c * chunk], x)
                for i, j in T.Parallel(block, chunk):
                    hit[i, j] = T.if_then_else(Target[b * block + i] == c * chunk + j, x[i, j], 0.0)
                T.reduce_sum(hit, picked, dim=1, clear=False)
                T.copy(m, m_old)
                T.reduce_max(x, m, dim=1, clear=False)
                for i, j in T.Parallel(block, chunk):
                    x[i, j] = T.exp(x[i, j] - m[i])
                T.reduce_sum(x, part, dim=1)
                for i in T.Parallel(block):
                    total[i] = total[i] * T.exp(m_old[i] - m[i]) + part[i]
            for i in T.Parallel(block):
                Loss[b * block + i] = T.log(total[i]) - picked[i]  # BUG

    return main


if __name__ == "__main__":
    torch.manual_seed(10)
    rows, vocab = 128, 320
    logits = torch.randn(rows, vocab, device="cuda") * 3
    target = torch.randint(0, vocab, (rows,), device="cuda", dtype=torch.int32)
    loss = cross_entropy(rows, vocab)(logits, target)
    expected = torch.nn.functional.cross_entropy(logits, target.long(), reduction="none")
    worst = (loss - expected).abs().max().item()
    if worst > 1e-3:
        print(f"cross entropy differs by up to {worst:.4g}")
        sys.exit(1)
    print("cross entropy ok")
