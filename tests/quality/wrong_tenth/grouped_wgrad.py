import torch
import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[3])
def grouped_wgrad(tokens, E, K, N, block_K=32, block_N=32, block_T=32):
    """dW[e] = X[rows of e]^T @ dY[rows of e]; the rows are sorted by expert."""

    @T.prim_func
    def main(
        X: T.Tensor((tokens, K), "float16"),
        dY: T.Tensor((tokens, N), "float16"),
        Offs: T.Tensor((E + 1,), "int32"),
        dW: T.Tensor((E, K, N), "float32"),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(K, block_K), E, threads=128) as (bn, bk, e):
            x_s = T.alloc_shared((block_T, block_K), "float16")
            dy_s = T.alloc_shared((block_T, block_N), "float16")
            acc = T.alloc_fragment((block_K, block_N), "float32")

            first = Offs[e]
            count = Offs[e + 1] - first
            T.clear(acc)
            for t in T.serial(T.ceildiv(count, block_T)):
                row0 = first + t * block_T
                # the last tile may be short: zero rows of X take the rest of dY out of the sum
                for r, c in T.Parallel(block_T, block_K):
                    if row0 + r < tokens:
                        x_s[r, c] = X[row0 + r, bk * block_K + c]
                    else:
                        x_s[r, c] = T.cast(0, "float16")
                for r, c in T.Parallel(block_T, block_N):
                    dy_s[r, c] = dY[T.min(row0 + r, tokens - 1), bn * block_N + c]
                T.gemm(x_s, dy_s, acc, transpose_A=True)
            T.copy(acc, dW[e, bk * block_K, bn * block_N])

    return main


class GroupedLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w, sizes):
        ctx.save_for_backward(x, w)
        ctx.sizes = sizes
        return torch.cat([xi.float() @ wi for xi, wi in zip(x.split(sizes), w)])

    @staticmethod
    def backward(ctx, dy):
        x, w = ctx.saved_tensors
        offs = torch.tensor([0] + ctx.sizes, device=x.device).cumsum(0).to(torch.int32)
        E, K, N = w.shape
        return None, grouped_wgrad(x.shape[0], E, K, N)(x, dy.half(), offs), None


def run(sizes, K=64, N=96):
    tokens = sum(sizes)
    x = torch.randn(tokens, K, device="cuda").half()
    w = torch.randn(len(sizes), K, N, device="cuda", requires_grad=True)
    dy = torch.randn(tokens, N, device="cuda").half().float()
    GroupedLinear.apply(x, w, sizes).backward(dy)

    want = torch.stack([xi.float().t() @ di for xi, di in zip(x.split(sizes), dy.split(sizes))])
    torch.testing.assert_close(w.grad, want, rtol=1e-3, atol=1e-2)
    print("sizes", sizes, "ok")


torch.manual_seed(0)
run([64, 32, 96])
run([150])
run([32, 0, 45, 19])
