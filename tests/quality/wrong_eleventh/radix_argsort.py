"""Stable argsort of float32: LSD radix sort, 4 bits a pass; four small kernels, checked against NumPy."""
import numpy as np
import torch
import tilelang
import tilelang.language as T

BLOCK = 64
RADIX = 16


@tilelang.jit(out_idx=[1])
def encode(N):
    @T.prim_func
    def main(X: T.Tensor((N,), "float32"), Key: T.Tensor((N,), "int32")):
        with T.Kernel(T.ceildiv(N, BLOCK), threads=BLOCK) as bx:
            for i in T.Parallel(BLOCK):
                if bx * BLOCK + i < N:
                    bits = T.reinterpret(X[bx * BLOCK + i], "int32")
                    # order-preserving map to integers: flip the sign bit, of negatives all bits
                    flip = -(bits >> 31) | -0x80000000
                    Key[bx * BLOCK + i] = bits ^ flip

    return main


@tilelang.jit(out_idx=[1])
def count_digits(N, shift):
    blocks = (N + BLOCK - 1) // BLOCK

    @T.prim_func
    def main(Key: T.Tensor((N,), "int32"), Count: T.Tensor((RADIX, blocks), "int32")):
        with T.Kernel(blocks, threads=BLOCK) as bx:
            digit = T.alloc_shared((BLOCK,), "int32")
            hist = T.alloc_fragment((RADIX,), "int32")
            for i in T.Parallel(BLOCK):
                digit[i] = -1
                if bx * BLOCK + i < N:
                    digit[i] = (Key[bx * BLOCK + i] >> shift) & (RADIX - 1)
            T.clear(hist)
            for j in T.serial(BLOCK):
                for d in T.Parallel(RADIX):
                    hist[d] += T.if_then_else(digit[j] == d, 1, 0)
            for d in T.Parallel(RADIX):
                Count[d, bx] = hist[d]

    return main


@tilelang.jit(out_idx=[1])
def exclusive_scan(total):
    @T.prim_func
    def main(Count: T.Tensor((total,), "int32"), Start: T.Tensor((total,), "int32")):
        with T.Kernel(1, threads=32) as _:
            run = T.alloc_var("int32", init=0)
            for t in T.serial(total):
                Start[t] = run
                run = run + Count[t]

    return main


@tilelang.jit(out_idx=[3, 4])
def scatter(N, shift):
    blocks = (N + BLOCK - 1) // BLOCK

    @T.prim_func
    def main(
        Key: T.Tensor((N,), "int32"),
        Idx: T.Tensor((N,), "int32"),
        Start: T.Tensor((RADIX, blocks), "int32"),
        KeyOut: T.Tensor((N,), "int32"),
        IdxOut: T.Tensor((N,), "int32"),
    ):
        with T.Kernel(blocks, threads=BLOCK) as bx:
            digit = T.alloc_shared((BLOCK,), "int32")
            rank = T.alloc_fragment((BLOCK,), "int32")
            for i in T.Parallel(BLOCK):
                digit[i] = -1
                if bx * BLOCK + i < N:
                    digit[i] = (Key[bx * BLOCK + i] >> shift) & (RADIX - 1)
            T.clear(rank)
            for j in T.serial(BLOCK):
                for i in T.Parallel(BLOCK):
                    if j < i and digit[j] == digit[i]:
                        rank[i] += 1
            for i in T.Parallel(BLOCK):
                if bx * BLOCK + i < N:
                    dst = Start[digit[i], bx] + rank[i]
                    KeyOut[dst] = Key[bx * BLOCK + i]
                    IdxOut[dst] = Idx[bx * BLOCK + i]

    return main


def argsort(x):
    N = x.numel()
    key, idx = encode(N)(x), torch.arange(N, dtype=torch.int32, device=x.device)
    for shift in range(0, 32, 4):
        count = count_digits(N, shift)(key)
        start = exclusive_scan(count.numel())(count.view(-1)).view(count.shape)
        key, idx = scatter(N, shift)(key, idx, start)
    return idx


def check_order(label, x):
    got = argsort(torch.from_numpy(x).to("cuda")).cpu().numpy()
    want = np.argsort(x, kind="stable")
    print(f"{label}: {int((got != want).sum())} of {x.size} out of place")
    return np.array_equal(got, want)


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    N = 300
    results = [
        check_order("uniform", rng.random(N, dtype=np.float32)),
        check_order("normal", rng.standard_normal(N).astype(np.float32)),
        check_order("repeated", rng.integers(1, 9, N).astype(np.float32)),
    ]
    assert all(results), "argsort disagrees with numpy"
