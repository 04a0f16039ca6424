import torch
import tilelang
import tilelang.language as T


@tilelang.jit
def affine_rows_(X, Gain, Shift, BLOCK: int = 128):
    batch, rows, cols = T.const("batch rows cols")
    X: T.Tensor[[batch, rows, cols], T.float32]
    Gain: T.Tensor[[batch, rows], T.float32]
    Shift: T.Tensor[[cols], T.float32]

    with T.Kernel(rows, batch, threads=32) as (br, bb):
        x = T.alloc_fragment((BLOCK,), T.float32)
        for c in T.serial(T.ceildiv(cols, BLOCK)):
            # slide the last block back so that every access is a full vector
            start = T.min(c * BLOCK, cols - BLOCK)  # BUG
            for i in T.Parallel(BLOCK):
                x[i] = X[bb, br, start + i]
            for i in T.Parallel(BLOCK):
                x[i] = x[i] * (1.0 + Gain[bb, br]) + Shift[start + i]
            for i in T.Parallel(BLOCK):
                X[bb, br, start + i] = x[i]


@tilelang.jit(out_idx=[1])
def row_absmax(rows, cols, BLOCK=128):
    @T.prim_func
    def absmax(X: T.Tensor((rows, cols), "float32"), Out: T.Tensor((rows,), "float32")):
        with T.Kernel(rows, threads=128) as r:
            x = T.alloc_fragment((1, BLOCK), "float32")
            top = T.alloc_fragment((1,), "float32")
            T.clear(top)
            for c in T.serial(T.ceildiv(cols, BLOCK)):
                for i, j in T.Parallel(1, BLOCK):
                    x[i, j] = T.if_then_else(c * BLOCK + j < cols, X[r, T.min(c * BLOCK + j, cols - 1)], 0.0)
                T.reduce_absmax(x, top, dim=1, clear=False)
            for i in T.Parallel(1):
                Out[r + i] = top[i]

    return absmax


def modulate(x, gain, shift):
    return x * (1 + gain.unsqueeze(-1)) + shift


def run(batch, rows, cols):
    x = torch.randn(batch, rows, cols, device="cuda")
    gain = torch.randn(batch, rows, device="cuda") * 0.3
    shift = torch.randn(cols, device="cuda")
    ref = modulate(x, gain, shift)
    y = x.clone()
    affine_rows_(y, gain, shift)
    amax = row_absmax(batch * rows, cols)(y.view(-1, cols))
    torch.testing.assert_close(y, ref, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(amax, ref.view(-1, cols).abs().amax(-1), rtol=1e-4, atol=1e-4)
    print(f"cols={cols} ok")


if __name__ == "__main__":
    torch.manual_seed(0)
    for cols in (256, 300):
        run(2, 6, cols)
