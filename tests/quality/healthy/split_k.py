"""Batched matrix multiplication with K split over blocks; the parts are added up with atomics."""

import tilelang
import tilelang.language as T
import torch

tilelang.disable_cache()


def bmm_split_k(B, M, N, K, split, config):
    bm, bn, bk = config["bm"], config["bn"], config["bk"]
    per_split = K // split

    @T.prim_func
    def bmm(
        lhs: T.Tensor((B, M, K), "float16"),
        rhs: T.Tensor((B, K, N), "float16"),
        out: T.Tensor((B, M, N), "float32"),
    ):
        with T.Kernel(N // bn, M // bm, B * split, threads=config["threads"]) as (bx, by, bz):
            lhs_tile = T.alloc_shared((bm, bk), "float16")
            rhs_tile = T.alloc_shared((bk, bn), "float16")
            out_frag = T.alloc_fragment((bm, bn), "float32")
            batch = bz // split
            part = bz % split
            T.clear(out_frag)
            for k in T.Pipelined(per_split // bk, num_stages=config["stages"]):
                k_start = part * per_split + k * bk
                T.copy(lhs[batch, by * bm : (by + 1) * bm, k_start : k_start + bk], lhs_tile)
                T.copy(rhs[batch, k_start : k_start + bk, bx * bn : (bx + 1) * bn], rhs_tile)
                T.gemm(lhs_tile, rhs_tile, out_frag)
            for i, j in T.Parallel(bm, bn):
                T.atomic_add(out[batch, by * bm + i, bx * bn + j], out_frag[i, j])

    return bmm


CONFIG = {"bm": 64, "bn": 128, "bk": 32, "stages": 2, "threads": 128}


def test_bmm_split_k(batch=2, m=128, n=128, k=256, split=4):
    program = bmm_split_k(batch, m, n, k, split, CONFIG)
    kernel = tilelang.compile(program)

    lhs = torch.randn(batch, m, k).to("cuda", torch.float16)
    rhs = torch.randn(batch, k, n).to("cuda", torch.float16)
    out = torch.zeros(batch, m, n, device="cuda", dtype=torch.float32)
    kernel(lhs, rhs, out)

    expected = torch.bmm(lhs.float(), rhs.float())
    assert torch.allclose(out, expected, rtol=1e-2, atol=1e-2), (out - expected).abs().max()


if __name__ == "__main__":
    test_bmm_split_k()
    print("split-k bmm ok")
