"""A linear layer as torch has it: y = gelu(x @ w.T + b), the weight stored (out_features, in_features)."""

import tilelang
import tilelang.language as T
import torch
import torch.nn.functional as F


@tilelang.jit(out_idx=[-1])
def linear_gelu(tokens, d_in, d_out, bm=64, bn=128, bk=64, stages=2, threads=256):
    @T.prim_func
    def kernel(
        x: T.Tensor((tokens, d_in), T.float16),
        weight: T.Tensor((d_out, d_in), T.float16),
        bias: T.Tensor((d_out,), T.float16),
        y: T.Tensor((tokens, d_out), T.float16),
    ):
        with T.Kernel(T.ceildiv(tokens, bm), T.ceildiv(d_out, bn), threads=threads) as (pid_m, pid_n):
            x_s = T.alloc_shared([bm, bk], T.float16)
            w_s = T.alloc_shared([bn, bk], T.float16)
            acc = T.alloc_fragment([bm, bn], T.float32)
            bias_f = T.alloc_fragment([bn], T.float32)
            T.use_swizzle(panel_size=8)
            T.clear(acc)
            for k in T.Pipelined(d_in // bk, num_stages=stages):
                T.copy(x[pid_m * bm : (pid_m + 1) * bm, k * bk : (k + 1) * bk], x_s)
                T.copy(weight[pid_n * bn : (pid_n + 1) * bn, k * bk : (k + 1) * bk], w_s)
                T.gemm(x_s, w_s, acc, transpose_B=True)
            T.copy(bias[pid_n * bn], bias_f)
            for i, j in T.Parallel(bm, bn):
                acc[i, j] = acc[i, j] + bias_f[j]
            for i, j in T.Parallel(bm, bn):
                acc[i, j] = 0.5 * acc[i, j] * (1.0 + T.erf(acc[i, j] * 0.7071067811865476))
            T.copy(acc, y[pid_m * bm, pid_n * bn])

    return kernel


class LinearGelu(torch.nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(d_out, d_in, device="cuda", dtype=torch.float16) * d_in**-0.5)
        self.bias = torch.nn.Parameter(torch.randn(d_out, device="cuda", dtype=torch.float16))

    def forward(self, x):
        kernel = linear_gelu(x.shape[0], self.weight.shape[1], self.weight.shape[0])
        return kernel(x, self.weight.detach(), self.bias.detach())


def main():
    layer = LinearGelu(384, 256)
    x = torch.randn(192, 384, device="cuda", dtype=torch.float16)
    with torch.no_grad():
        expected = F.gelu(F.linear(x, layer.weight, layer.bias))
        torch.testing.assert_close(layer(x), expected, rtol=1e-2, atol=1e-2)
    print("linear + gelu matches torch")


main()
