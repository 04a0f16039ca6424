"""Two explicit steps of the heat equation fused in one launch, the border held at zero."""

import tilelang
import tilelang.language as T
import torch
import torch.nn.functional as F


@tilelang.jit(out_idx=[1])
def heat2(H, W, alpha, tile=16):
    @T.prim_func
    def main(U: T.Tensor((H, W), "float32"), Out: T.Tensor((H, W), "float32")):
        with T.Kernel(T.ceildiv(W, tile), T.ceildiv(H, tile), threads=128) as (bx, by):
            first = T.alloc_shared((tile + 4, tile + 4), "float32")
            second = T.alloc_shared((tile + 2, tile + 2), "float32")
            for i, j in T.Parallel(tile + 4, tile + 4):
                r = by * tile + i - 2
                c = bx * tile + j - 2
                first[i, j] = T.if_then_else((r >= 0) and (r < H) and (c >= 0) and (c < W), U[r, c], 0.0)
            for i, j in T.Parallel(tile + 2, tile + 2):
                r = by * tile + i - 1
                c = bx * tile + j - 1
                around = first[i, j + 1] + first[i + 2, j + 1] + first[i + 1, j] + first[i + 1, j + 2]
                value = first[i + 1, j + 1] + alpha * (around - 4.0 * first[i + 1, j + 1])
                second[i, j] = T.if_then_else((r >= 0) and (r < H) and (c >= 0) and (c < W), value, 0.0)
            for i, j in T.Parallel(tile, tile):
                if by * tile + i < H and bx * tile + j < W:
                    around = second[i, j + 1] + second[i + 2, j + 1] + second[i + 1, j] + second[i + 1, j + 2]
                    Out[by * tile + i, bx * tile + j] = first[i + 2, j + 2] + alpha * (around - 4.0 * second[i + 1, j + 1])  # BUG

    return main


def step(u, alpha):
    p = F.pad(u, (1, 1, 1, 1))
    around = p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:]
    return u + alpha * (around - 4 * u)


if __name__ == "__main__":
    torch.manual_seed(6)
    H, W, alpha = 50, 40, 0.2
    u = torch.rand(H, W, device="cuda")
    out = heat2(H, W, alpha)(u)
    torch.testing.assert_close(out, step(step(u, alpha), alpha), rtol=1e-4, atol=1e-5)
    print("heat ok")
