import torch
import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[1])
def log_softmax_fwd(M, N, block_M=8, block_N=64):
    @T.prim_func
    def fwd(X: T.Tensor((M, N), "float32"), Y: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(M, block_M), threads=128) as bm:
            x = T.alloc_fragment((block_M, block_N), "float32")
            mx = T.alloc_fragment((block_M,), "float32")
            prev = T.alloc_fragment((block_M,), "float32")
            part = T.alloc_fragment((block_M,), "float32")
            total = T.alloc_fragment((block_M,), "float32")

            T.fill(mx, -T.infinity("float32"))
            T.clear(total)
            for c in T.serial(T.ceildiv(N, block_N)):
                for i, j in T.Parallel(block_M, block_N):
                    row, col = bm * block_M + i, c * block_N + j
                    # rows past the end only have to stay finite
                    x[i, j] = T.if_then_else(
                        col < N, T.if_then_else(row < M, X[row, col], 0.0), -T.infinity("float32")
                    )
                T.copy(mx, prev)
                T.reduce_max(x, mx, dim=1, clear=False)
                for i, j in T.Parallel(block_M, block_N):
                    x[i, j] = T.exp(x[i, j] - mx[i])
                T.reduce_sum(x, part, dim=1)
                for i in T.Parallel(block_M):
                    total[i] = total[i] * T.exp(prev[i] - mx[i]) + part[i]
            for i in T.Parallel(block_M):
                total[i] = mx[i] + T.log(total[i])
            for c in T.serial(T.ceildiv(N, block_N)):
                for i, j in T.Parallel(block_M, block_N):
                    if bm * block_M + i < M and c * block_N + j < N:
                        Y[bm * block_M + i, c * block_N + j] = X[bm * block_M + i, c * block_N + j] - total[i]

    return fwd


@tilelang.jit(out_idx=[2])
def log_softmax_bwd(M, N, block_M=8, block_N=64):
    @T.prim_func
    def bwd(
        Y: T.Tensor((M, N), "float32"),
        dY: T.Tensor((M, N), "float32"),
        dX: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(T.ceildiv(M, block_M), threads=128) as bm:
            t = T.alloc_fragment((block_M, block_N), "float32")
            dot = T.alloc_fragment((block_M,), "float32")
            T.clear(dot)
            for c in T.serial(T.ceildiv(N, block_N)):
                for i, j in T.Parallel(block_M, block_N):
                    row, col = bm * block_M + i, c * block_N + j
                    t[i, j] = T.if_then_else(row < M and col < N, T.exp(Y[row, col]) * dY[row, col], 0.0)
                T.reduce_sum(t, dot, dim=1, clear=False)
            for c in T.serial(T.ceildiv(N, block_N)):
                for i, j in T.Parallel(block_M, block_N):
                    row, col = bm * block_M + i, c * block_N + j
                    if row < M and col < N:
                        dX[row, col] = dY[row, col] - T.exp(Y[row, col]) * dot[i]

    return bwd


class LogSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = log_softmax_fwd(*x.shape)(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, dy):
        (y,) = ctx.saved_tensors
        return log_softmax_bwd(*y.shape)(y, dy.contiguous())


def test(M, N):
    x = (torch.randn(M, N, device="cuda") * 3).requires_grad_()
    dy = torch.randn(M, N, device="cuda")
    y = LogSoftmax.apply(x)
    (dx,) = torch.autograd.grad(y, x, dy)
    y_ref = torch.log_softmax(x, dim=-1)
    (dx_ref,) = torch.autograd.grad(y_ref, x, dy)
    assert torch.allclose(y, y_ref, rtol=1e-4, atol=1e-4), f"forward {M}x{N}"
    assert torch.allclose(dx, dx_ref, rtol=1e-4, atol=1e-4), f"backward {M}x{N}"
    print(f"{M}x{N} ok")


if __name__ == "__main__":
    torch.manual_seed(2)
    for shape in [(16, 128), (13, 200)]:
        test(*shape)
