"""The gated feed-forward block of a transformer for Hopper: two products that share their input, in one kernel."""

import tilelang
import tilelang.language as T
import torch

HOPPER = {"kind": "cuda", "arch": "sm_90a"}


class GatedMLP:
    """relu(x @ w_gate) * (x @ w_up), the weights given as (d_model, d_ff)."""

    tile_m, tile_n, tile_k = 128, 64, 64

    def __init__(self, tokens, d_model, d_ff, dtype="float16"):
        self.shape = (tokens, d_model, d_ff)
        self.dtype = dtype
        self.kernel = tilelang.compile(self.build(), out_idx=[3], target=HOPPER)

    def build(self):
        tokens, d_model, d_ff = self.shape
        bm, bn, bk = self.tile_m, self.tile_n, self.tile_k
        dtype, accum = self.dtype, "float32"

        @T.macro
        def multiply(x_tile, w, w_tile, acc, row, col):
            T.copy(w[row, col], w_tile)
            T.gemm(x_tile, w_tile, acc)

        @T.prim_func
        def gated(
            x: T.Tensor((tokens, d_model), dtype),
            w_gate: T.Tensor((d_model, d_ff), dtype),
            w_up: T.Tensor((d_model, d_ff), dtype),
            y: T.Tensor((tokens, d_ff), dtype),
        ):
            with T.Kernel(T.ceildiv(d_ff, bn), T.ceildiv(tokens, bm), threads=256) as (bx, by):
                x_tile = T.alloc_shared((bm, bk), dtype)
                gate_tile = T.alloc_shared((bk, bn), dtype)
                up_tile = T.alloc_shared((bk, bn), dtype)
                gate = T.alloc_fragment((bm, bn), accum)
                up = T.alloc_fragment((bm, bn), accum)
                T.clear(gate)
                T.clear(up)
                for k in T.Pipelined(T.ceildiv(d_model, bk), num_stages=2):
                    T.copy(x[by * bm, k * bk], x_tile)
                    multiply(x_tile, w_gate, gate_tile, gate, k * bk, bx * bn)
                    multiply(x_tile, w_up, up_tile, up, k * bk, bx * bn)
                for i, j in T.Parallel(bm, bn):
                    gate[i, j] = T.max(gate[i, j], 0) * up[i, j]
                T.copy(gate, y[by * bm, bx * bn])

        return gated

    def __call__(self, x, w_gate, w_up):
        return self.kernel(x, w_gate, w_up)

    @staticmethod
    def reference(x, w_gate, w_up):
        return torch.relu(x.float() @ w_gate.float()) * (x.float() @ w_up.float())


if __name__ == "__main__":
    torch.manual_seed(42)
    mlp = GatedMLP(tokens=256, d_model=128, d_ff=192)
    x = torch.randn(256, 128, device="cuda", dtype=torch.float16)
    w_gate = torch.randn(128, 192, device="cuda", dtype=torch.float16) / 8
    w_up = torch.randn(128, 192, device="cuda", dtype=torch.float16) / 8
    y = mlp(x, w_gate, w_up)
    torch.testing.assert_close(y.float(), mlp.reference(x, w_gate, w_up), rtol=2e-2, atol=5e-2)
    print("gated mlp:", tuple(y.shape))
