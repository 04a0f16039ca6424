"""Cumulative product along rows: Hillis-Steele scan inside a chunk, running carry across chunks."""
import torch
import tilelang
import tilelang.language as T


def cumprod_kernel(rows, cols, chunk):
    steps = chunk.bit_length() - 1
    assert 1 << steps == chunk

    @T.prim_func
    def cumprod(X: T.Tensor((rows, cols), "float32"), Y: T.Tensor((rows, cols), "float32")):
        with T.Kernel(rows, threads=64) as r:
            buf = T.alloc_shared((2, chunk), "float32")
            carry = T.alloc_shared((1,), "float32")
            T.fill(carry, 1.0)

            for c in T.serial(T.ceildiv(cols, chunk)):
                for j in T.Parallel(chunk):
                    buf[0, j] = T.if_then_else(c * chunk + j < cols, X[r, c * chunk + j], 1.0)
                for s in T.serial(steps):
                    for j in T.Parallel(chunk):
                        if j >= (1 << s):
                            buf[(s + 1) % 2, j] = buf[s % 2, j] * buf[s % 2, j - (1 << s)]
                        else:
                            buf[(s + 1) % 2, j] = buf[s % 2, j]
                for j in T.Parallel(chunk):
                    buf[steps % 2, j] = buf[steps % 2, j] * carry[0]
                for j in T.Parallel(chunk):
                    if c * chunk + j < cols:
                        Y[r, c * chunk + j] = buf[steps % 2, j]
                for j in T.Parallel(1):
                    carry[j] = buf[0, chunk - 1]  # BUG

    return cumprod


def run_case(rows, cols, chunk):
    kernel = tilelang.compile(cumprod_kernel(rows, cols, chunk), out_idx=[1])
    x = torch.rand(rows, cols, device="cuda") * 0.5 + 0.75
    y = kernel(x)
    ref = torch.cumprod(x.double(), dim=1).float()
    return torch.allclose(y, ref, rtol=1e-4, atol=1e-6), ((y - ref).abs() / ref.abs()).max().item()


def main():
    torch.manual_seed(0)
    cases = [(4, 64, 64), (3, 500, 256), (5, 200, 64), (4, 32, 32), (4, 96, 32), (2, 300, 128)]
    bad = 0
    for rows, cols, chunk in cases:
        ok, rel = run_case(rows, cols, chunk)
        print(f"rows={rows:<3} cols={cols:<4} chunk={chunk:<3} rel_err={rel:.2e} {'PASS' if ok else 'FAIL'}")
        bad += not ok
    if bad:
        raise AssertionError(f"{bad} of {len(cases)} cases wrong")
    print("all cases match torch.cumprod")


if __name__ == "__main__":
    main()
