"""Dot products of int8 rows (similarity of quantized embeddings), exact in int32."""

import tilelang
import tilelang.language as T
import torch


def int8_dot(rows, dim, block=32, accum_dtype="int16"):  # BUG
    @T.prim_func
    def main(
        a: T.Tensor((rows, dim), "int8"),
        b: T.Tensor((rows, dim), "int8"),
        out: T.Tensor((rows,), "int32"),
    ):
        with T.Kernel(T.ceildiv(rows, block), threads=32) as bx:
            total = T.alloc_fragment((block,), accum_dtype)  # BUG
            T.clear(total)
            for d in T.serial(dim):
                for i in T.Parallel(block):
                    total[i] += T.cast(a[bx * block + i, d], accum_dtype) * T.cast(b[bx * block + i, d], accum_dtype)
            for i in T.Parallel(block):
                out[bx * block + i] = T.cast(total[i], "int32")

    return main


if __name__ == "__main__":
    torch.manual_seed(0)
    rows, dim = 128, 64
    a = (torch.randn(rows, dim, device="cuda") * 40).clamp(-127, 127).to(torch.int8)
    b = (a.float() + torch.randn(rows, dim, device="cuda") * 20).clamp(-127, 127).to(torch.int8)
    out = tilelang.compile(int8_dot(rows, dim), out_idx=[2])(a, b)
    expected = (a.int() * b.int()).sum(1, dtype=torch.int32)
    torch.testing.assert_close(out, expected, rtol=0, atol=0)
    print("int8 dot ok")
