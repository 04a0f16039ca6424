import argparse

import torch
import torch.nn.functional as F
import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[2])
def cross_entropy_fwd(n_rows, vocab, smoothing, block_M=16, block_V=64):
    n_tiles = T.ceildiv(vocab, block_V)

    @T.prim_func
    def xent(
        Logits: T.Tensor((n_rows, vocab), "float32"),
        Target: T.Tensor((n_rows,), "int32"),
        Loss: T.Tensor((n_rows,), "float32"),
    ):
        with T.Kernel(T.ceildiv(n_rows, block_M), threads=128) as bx:
            raw = T.alloc_fragment((block_M, block_V), "float32")
            z = T.alloc_fragment((block_M, block_V), "float32")
            hit = T.alloc_fragment((block_M, block_V), "float32")
            tgt = T.alloc_fragment((block_M,), "int32")
            m = T.alloc_fragment((block_M,), "float32")
            m_old = T.alloc_fragment((block_M,), "float32")
            d = T.alloc_fragment((block_M,), "float32")
            d_tile = T.alloc_fragment((block_M,), "float32")
            x_sum = T.alloc_fragment((block_M,), "float32")
            x_tgt = T.alloc_fragment((block_M,), "float32")

            T.copy(Target[bx * block_M], tgt)
            T.fill(m, -1e30)
            T.clear(d)
            T.clear(x_sum)
            T.clear(x_tgt)

            for t in T.serial(n_tiles):
                T.copy(Logits[bx * block_M, t * block_V], raw)
                T.reduce_sum(raw, x_sum, dim=1, clear=False)
                for i, j in T.Parallel(block_M, block_V):
                    z[i, j] = T.if_then_else(t * block_V + j < vocab, raw[i, j], -1e30)

                T.copy(m, m_old)
                T.reduce_max(z, m, dim=1, clear=False)
                for i, j in T.Parallel(block_M, block_V):
                    z[i, j] = T.exp(z[i, j] - m[i])
                T.reduce_sum(z, d_tile, dim=1)
                for i in T.Parallel(block_M):
                    d[i] = d[i] * T.exp(m_old[i] - m[i]) + d_tile[i]

                for i, j in T.Parallel(block_M, block_V):
                    hit[i, j] = T.if_then_else(t * block_V + j == tgt[i], z[i, j], 0.0)  # BUG
                T.reduce_sum(hit, x_tgt, dim=1, clear=False)

            for i in T.Parallel(block_M):
                if bx * block_M + i < n_rows:
                    Loss[bx * block_M + i] = (
                        T.log(d[i]) + m[i] - (1.0 - smoothing) * x_tgt[i] - smoothing / vocab * x_sum[i]
                    )

    return xent


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--vocab", type=int, default=300)
    parser.add_argument("--smoothing", type=float, default=0.1)
    args = parser.parse_args()

    torch.manual_seed(0)
    logits = torch.randn(args.rows, args.vocab, device="cuda") * 3
    target = torch.randint(0, args.vocab, (args.rows,), device="cuda", dtype=torch.int32)
    loss = cross_entropy_fwd(args.rows, args.vocab, args.smoothing)(logits, target)
    ref = F.cross_entropy(logits, target.long(), label_smoothing=args.smoothing, reduction="none")
    print("max diff:", (loss - ref).abs().max().item())
    assert torch.allclose(loss, ref, rtol=1e-4, atol=1e-4)
    print("passed")


if __name__ == "__main__":
    main()
