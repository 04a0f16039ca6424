"""torch.nn.Linear without bias: x @ weight.T, the weight stored as (out_features, in_features)."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[2])
def linear(tokens, out_features, in_features, block_T=64, block_O=64, block_I=64):
    @T.prim_func
    def kernel(
        x: T.Tensor((tokens, in_features), "float16"),
        weight: T.Tensor((out_features, in_features), "float16"),
        y: T.Tensor((tokens, out_features), "float16"),
    ):
        with T.Kernel(T.ceildiv(out_features, block_O), T.ceildiv(tokens, block_T), threads=128) as (bo, bt):
            x_tile = T.alloc_shared((block_T, block_I), "float16")
            w_tile = T.alloc_shared((block_O, block_I), "float16")
            acc = T.alloc_fragment((block_T, block_O), "float32")
            T.clear(acc)
            for i in T.Pipelined(T.ceildiv(in_features, block_I), num_stages=2):
                T.copy(x[bt * block_T, i * block_I], x_tile)
                T.copy(weight[bo * block_O, i * block_I], w_tile)
                T.gemm(x_tile, w_tile, acc)  # BUG
            T.copy(acc, y[bt * block_T, bo * block_O])

    return kernel


def check(tokens, out_features, in_features):
    x = torch.randn(tokens, in_features, device="cuda", dtype=torch.float16)
    layer = torch.randn(out_features, in_features, device="cuda", dtype=torch.float16) * in_features**-0.5
    y = linear(tokens, out_features, in_features)(x, layer)
    expected = torch.nn.functional.linear(x.float(), layer.float())
    error = (y.float() - expected).abs().max().item()
    print(f"{tokens}x{out_features}x{in_features}: max error {error:.4f}")
    assert error < 1e-2


if __name__ == "__main__":
    torch.manual_seed(7)
    check(128, 192, 256)
    check(64, 128, 128)
