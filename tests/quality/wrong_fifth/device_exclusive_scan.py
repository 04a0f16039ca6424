import argparse

import torch
import tilelang
import tilelang.language as T


def block_scan(n, block, log_block):
    n_blocks = (n + block - 1) // block

    @T.prim_func
    def scan(
        X: T.Tensor((n,), "float32"),
        Y: T.Tensor((n,), "float32"),
        Totals: T.Tensor((n_blocks,), "float32"),
    ):
        with T.Kernel(n_blocks, threads=128) as bx:
            cur = T.alloc_shared((block,), "float32")
            nxt = T.alloc_shared((block,), "float32")
            for i in T.Parallel(block):
                # shifted by one on load, so the inclusive sweep yields the exclusive sums
                cur[i] = T.if_then_else(i > 0, X[T.max(bx * block + i - 1, 0)], 0.0)
            for p in T.serial(log_block):
                for i in T.Parallel(block):
                    nxt[i] = T.if_then_else(i >= (1 << p), cur[i] + cur[T.max(i - (1 << p), 0)], cur[i])
                T.copy(nxt, cur)
            for i in T.Parallel(block):
                if bx * block + i < n:
                    Y[bx * block + i] = cur[i]
            for i in T.Parallel(1):
                Totals[bx + i] = cur[block - 1]  # BUG

    return scan


def scan_totals(n_blocks):
    @T.prim_func
    def totals(Totals: T.Tensor((n_blocks,), "float32"), Offsets: T.Tensor((n_blocks,), "float32")):
        with T.Kernel(1, threads=32) as _:
            run = T.alloc_var("float32")
            run = 0.0
            for b in T.serial(n_blocks):
                Offsets[b] = run
                run += Totals[b]

    return totals


def add_offsets(n, block):
    n_blocks = (n + block - 1) // block

    @T.prim_func
    def add(Y: T.Tensor((n,), "float32"), Offsets: T.Tensor((n_blocks,), "float32")):
        with T.Kernel(n_blocks, threads=128) as bx:
            for i in T.Parallel(block):
                if bx * block + i < n:
                    Y[bx * block + i] = Y[bx * block + i] + Offsets[bx]

    return add


def exclusive_scan(x, block=128):
    n = x.numel()
    n_blocks = (n + block - 1) // block
    k1 = tilelang.compile(block_scan(n, block, block.bit_length() - 1), out_idx=[1, 2], target="cuda")
    k2 = tilelang.compile(scan_totals(n_blocks), out_idx=[1], target="cuda")
    k3 = tilelang.compile(add_offsets(n, block), target="cuda")
    y, totals = k1(x)
    k3(y, k2(totals))
    return y


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--n", type=int, default=1000)
    args = parser.parse_args()
    torch.manual_seed(0)
    x = torch.rand(args.n, device="cuda")
    y = exclusive_scan(x)
    expect = torch.cumsum(x, 0) - x
    bad = (y - expect).abs() > 1e-2
    if bad.any():
        i = int(bad.nonzero()[0])
        raise SystemExit(f"first mismatch at {i}: got {y[i].item():.4f}, want {expect[i].item():.4f}")
    print("scan ok")


if __name__ == "__main__":
    main()
