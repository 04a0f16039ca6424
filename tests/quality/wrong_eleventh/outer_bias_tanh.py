import torch
import tilelang
import tilelang.language as T

VEC = 4


@tilelang.jit
def outer_bias_tanh(M, N, block=128):
    """Out = Gain[:, None] * tanh(X + Bias[None, :]) + Res, over the flat array, four elements to a thread."""
    total = M * N
    n_vec = total // VEC
    tail = total % VEC

    @T.macro
    def element(X, Res, Gain, Bias, Out, e):
        Out[e] = Gain[e // N] * T.tanh(X[e] + Bias[e % N]) + Res[e]

    @T.prim_func
    def main(
        X: T.Tensor((total,), "float32"),
        Res: T.Tensor((total,), "float32"),
        Gain: T.Tensor((M,), "float32"),
        Bias: T.Tensor((N,), "float32"),
        Out: T.Tensor((total,), "float32"),
    ):
        with T.Kernel(T.ceildiv(n_vec, block), threads=block) as bx:
            tx = T.get_thread_binding()
            v = bx * block + tx
            if v < n_vec:
                for u in T.serial(VEC):
                    element(X, Res, Gain, Bias, Out, v * VEC + u)
            # what is left when the size is no multiple of VEC
            if bx == 0 and tx < tail:
                element(X, Res, Gain, Bias, Out, n_vec + tx)

    return main


if __name__ == "__main__":
    torch.manual_seed(8)
    for M, N in [(16, 64), (12, 31), (7, 45), (33, 19)]:
        x = torch.randn(M, N, device="cuda")
        res = torch.randn(M, N, device="cuda")
        gain = torch.rand(M, device="cuda") + 0.5
        bias = torch.randn(N, device="cuda")
        out = torch.zeros(M, N, device="cuda")
        outer_bias_tanh(M, N)(x.view(-1), res.view(-1), gain, bias, out.view(-1))
        want = gain[:, None] * torch.tanh(x + bias) + res
        torch.testing.assert_close(out, want, rtol=1e-5, atol=1e-5)
        print(f"({M}, {N}) matches")
