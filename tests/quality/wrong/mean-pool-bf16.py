"""Mean over the sequence of bf16 hidden states, accumulated in fp32."""

import sys

import tilelang
import tilelang.language as T
import torch


def mean_pool(batch, length, hidden, block=128):
    @T.prim_func
    def main(H: T.Tensor((batch, length, hidden), "bfloat16"), P: T.Tensor((batch, hidden), "float32")):
        with T.Kernel(T.ceildiv(hidden, block), batch, threads=128) as (bx, b):
            total = T.alloc_fragment((block,), "float32")
            T.clear(total)
            for t in T.serial(length):
                for i in T.Parallel(block):
                    total[i] += T.cast(H[b, t, bx * block + i], "float32")
            for i in T.Parallel(block):
                P[b, bx * block + i] = total[i] / length

    return main


def reference(hidden_states):
    total = torch.zeros_like(hidden_states[:, 0])  # BUG
    for t in range(hidden_states.shape[1]):
        total += hidden_states[:, t]  # BUG
    return total.float() / hidden_states.shape[1]


if __name__ == "__main__":
    torch.manual_seed(0)
    kernel = tilelang.compile(mean_pool(2, 512, 256), out_idx=[1])
    h = (torch.randn(2, 512, 256, device="cuda") + 1.0).to(torch.bfloat16)
    pooled, expected = kernel(h), reference(h)
    worst = ((pooled - expected).abs() / expected.abs()).max().item()
    print(f"max relative error: {worst:.2e}")
    if worst > 1e-2:
        print("mean pool: FAILED")
        sys.exit(1)
