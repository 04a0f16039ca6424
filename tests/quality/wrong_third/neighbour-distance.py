"""Distances between two clouds of points in three dimensions."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[2])
def distances(M, N, block=32):
    @T.prim_func
    def main(
        P: T.Tensor((M, 3), "float32"),
        Q: T.Tensor((N, 3), "float32"),
        Dist: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, block), threads=128) as (bx, by):
            p = T.alloc_shared((block, 3), "float32")
            q = T.alloc_shared((block, 3), "float32")
            d = T.alloc_fragment((block, block), "float32")
            T.copy(P[by * block, 0], p)
            T.copy(Q[bx * block, 0], q)
            T.clear(d)
            for c in T.serial(3):
                for i, j in T.Parallel(block, block):
                    d[i, j] += (p[i, c] - q[j, c]) * (p[i, c] - q[j, c])
            for i, j in T.Parallel(block, block):
                d[i, j] = T.sqrt(d[i, j])
            T.copy(d, Dist[by * block, bx * block])

    return main


if __name__ == "__main__":
    torch.manual_seed(105)
    M, N = 100, 60
    origin = torch.tensor([410.0, -220.0, 35.0], device="cuda")
    p = origin + torch.rand(M, 3, device="cuda")
    q = origin + torch.rand(N, 3, device="cuda")
    out = distances(M, N)(p, q)
    ref = ((p * p).sum(1)[:, None] + (q * q).sum(1)[None] - 2 * p @ q.t()).clamp_min(0).sqrt()
    worst = (out - ref).abs().max().item()
    if worst > 1e-3:
        raise SystemExit(f"distances differ by {worst:.2e}")
    print("distances ok")
