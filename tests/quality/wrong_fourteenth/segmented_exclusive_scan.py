import numpy as np
import torch
import tilelang
import tilelang.language as T

CHUNK = 64
STEPS = 6  # log2(CHUNK)


@tilelang.jit
def segmented_scan(rows, n):
    """Exclusive sum along each row, starting anew wherever Head is set."""
    last = STEPS % 2

    @T.prim_func
    def scan(
        X: T.Tensor((rows, n), "int32"),
        Head: T.Tensor((rows, n), "uint8"),
        Out: T.Tensor((rows, n), "int32"),
    ):
        with T.Kernel(rows, threads=CHUNK) as r:
            val = T.alloc_shared((2, CHUNK), "int32")
            flag = T.alloc_shared((2, CHUNK), "int32")
            head = T.alloc_shared((CHUNK,), "int32")
            incl = T.alloc_shared((CHUNK,), "int32")
            carry = T.alloc_shared((1,), "int32")

            T.fill(carry, 0)
            for c in T.serial(T.ceildiv(n, CHUNK)):
                base = c * CHUNK
                for i in T.Parallel(CHUNK):
                    val[0, i] = T.if_then_else(base + i < n, X[r, base + i], 0)
                    head[i] = T.if_then_else(base + i < n, T.cast(Head[r, base + i], "int32"), 0)
                    flag[0, i] = head[i]

                # scan of the (flag, value) pairs
                for s in T.serial(STEPS):
                    src = s % 2
                    dst = 1 - src
                    for i in T.Parallel(CHUNK):
                        if i >= (1 << s):
                            val[dst, i] = val[src, i] + T.if_then_else(flag[src, i] != 0, 0, val[src, i - (1 << s)])
                            flag[dst, i] = flag[src, i] | flag[src, i - (1 << s)]
                        else:
                            val[dst, i] = val[src, i]
                            flag[dst, i] = flag[src, i]

                for i in T.Parallel(CHUNK):
                    incl[i] = val[last, i] + T.if_then_else(head[i] != 0, 0, carry[0])

                for i in T.Parallel(CHUNK):
                    if base + i < n:
                        if head[i] != 0:
                            Out[r, base + i] = 0
                        elif i == 0:
                            Out[r, base + i] = carry[0]
                        else:
                            Out[r, base + i] = incl[i - 1]
                T.copy(incl[CHUNK - 1 : CHUNK], carry)

    return scan


def numpy_scan(x, head):
    out = np.zeros_like(x)
    for r in range(x.shape[0]):
        acc = 0
        for i in range(x.shape[1]):
            if head[r, i]:
                acc = 0
            out[r, i] = acc
            acc += x[r, i]
    return out


def main():
    rng = np.random.default_rng(5)
    wrong = []
    for rows, n, p in [(3, 64, 0.1), (4, 200, 0.0), (5, 256, 0.03), (2, 300, 0.2)]:
        x = rng.integers(-9, 10, size=(rows, n)).astype(np.int32)
        head = (rng.random((rows, n)) < p).astype(np.uint8)
        xt = torch.from_numpy(x).to(device="cuda")
        ht = torch.from_numpy(head).to(device="cuda")
        out = torch.zeros_like(xt)
        segmented_scan(rows, n)(xt, ht, out)
        differ = int((out.cpu().numpy() != numpy_scan(x, head)).sum())
        print(f"rows={rows} n={n} p={p}: {differ} of {x.size} differ")
        if differ:
            wrong.append((rows, n, p))
    if wrong:
        raise SystemExit(f"segmented scan wrong for {wrong}")


main()
