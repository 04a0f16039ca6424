"""Pairwise generalized IoU of two box sets in xyxy form, as used by DETR's matcher."""
import torch
import tilelang
import tilelang.language as T


@T.macro
def load_boxes(src, dst, start, count, n):
    for i, c in T.Parallel(count, 4):
        dst[i, c] = src[T.min(start + i, n - 1), c]


def box_area(buf, i):
    return (buf[i, 2] - buf[i, 0]) * (buf[i, 3] - buf[i, 1])


@tilelang.jit(out_idx=[-1])
def pairwise_giou(N, M, tile=16):
    @T.prim_func
    def main(
        A: T.Tensor((N, 4), "float32"),
        B: T.Tensor((M, 4), "float32"),
        Out: T.Tensor((N, M), "float32"),
    ):
        with T.Kernel(T.ceildiv(M, tile), T.ceildiv(N, tile), threads=128) as (bx, by):
            a = T.alloc_shared((tile, 4), "float32")
            b = T.alloc_shared((tile, 4), "float32")
            load_boxes(A, a, by * tile, tile, N)
            load_boxes(B, b, bx * tile, tile, M)

            for i, j in T.Parallel(tile, tile):
                iw = T.min(a[i, 2], b[j, 2]) - T.max(a[i, 0], b[j, 0])
                ih = T.min(a[i, 3], b[j, 3]) - T.max(a[i, 1], b[j, 1])
                inter = T.max(iw * ih, 0.0)
                union = box_area(a, i) + box_area(b, j) - inter

                cw = T.max(a[i, 2], b[j, 2]) - T.min(a[i, 0], b[j, 0])
                ch = T.max(a[i, 3], b[j, 3]) - T.min(a[i, 1], b[j, 1])
                hull = cw * ch

                if by * tile + i < N and bx * tile + j < M:
                    Out[by * tile + i, bx * tile + j] = inter / union - (hull - union) / hull

    return main


def random_boxes(n, spread):
    centre = torch.rand(n, 2, device="cuda") * spread
    size = torch.rand(n, 2, device="cuda") * 20 + 4
    return torch.cat([centre - size / 2, centre + size / 2], dim=1)


def giou(a, b):
    def area(x):
        return (x[:, 2] - x[:, 0]) * (x[:, 3] - x[:, 1])

    wh = (torch.minimum(a[:, None, 2:], b[None, :, 2:]) - torch.maximum(a[:, None, :2], b[None, :, :2])).clamp(min=0)
    inter = wh.prod(-1)
    union = area(a)[:, None] + area(b)[None] - inter
    hull = (torch.maximum(a[:, None, 2:], b[None, :, 2:]) - torch.minimum(a[:, None, :2], b[None, :, :2])).prod(-1)
    return inter / union - (hull - union) / hull


def check(n, m, spread):
    a, b = random_boxes(n, spread), random_boxes(m, spread)
    out = pairwise_giou(n, m)(a, b)
    err = (out - giou(a, b)).abs()
    print(f"{n}x{m}, spread {spread}: max err {err.max().item():.2e}, {(err > 1e-4).sum().item()} pairs off")
    return bool(err.max() < 1e-4)


if __name__ == "__main__":
    torch.manual_seed(2)
    results = [check(32, 48, 10.0), check(37, 21, 60.0), check(5, 90, 60.0)]
    if not all(results):
        raise SystemExit(1)
