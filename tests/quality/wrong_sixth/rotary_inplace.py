"""In-place rotary embedding (NeoX halves, only the first ROT dims), with per-sequence position offsets."""
import torch
import tilelang
import tilelang.language as T


@tilelang.jit
def rope_(B: int, S: int, H: int, D: int, ROT: int, P: int, block_S: int = 16):
    half = ROT // 2

    @T.prim_func
    def k(
        X: T.Tensor((B, S, H, D), "float32"),
        COS: T.Tensor((P, half), "float32"),
        SIN: T.Tensor((P, half), "float32"),
        offset: T.Tensor((B,), "int32"),
    ):
        with T.Kernel(T.ceildiv(S, block_S), H, B, threads=128) as (bs, h, b):
            lo = T.alloc_fragment((block_S, half), "float32")
            hi = T.alloc_fragment((block_S, half), "float32")
            for s, d in T.Parallel(block_S, half):
                if bs * block_S + s < S:
                    lo[s, d] = X[b, bs * block_S + s, h, d]
                    hi[s, d] = X[b, bs * block_S + s, h, d + half]
            for s, d in T.Parallel(block_S, half):
                if bs * block_S + s < S:
                    pos = offset[b] + bs * block_S + s
                    X[b, bs * block_S + s, h, d] = lo[s, d] * COS[pos, d] - hi[s, d] * SIN[pos, d]
                    X[b, bs * block_S + s, h, half + d] = hi[s, d] * COS[pos, d] + lo[s, d] * SIN[pos, d]

    return k


def rope_ref(x, cos, sin, offset, rot):
    pos = offset.long()[:, None] + torch.arange(x.shape[1], device=x.device)[None]
    c, s = (torch.cat([t[pos], t[pos]], -1)[:, :, None] for t in (cos, sin))
    xr, rest = x[..., :rot], x[..., rot:]
    rotated = torch.cat([-xr[..., rot // 2 :], xr[..., : rot // 2]], -1)
    return torch.cat([xr * c + rotated * s, rest], -1)


def main():
    torch.manual_seed(0)
    B, S, H, D, ROT, P = 2, 37, 3, 48, 32, 128
    inv = 1.0 / (10000 ** (torch.arange(0, ROT, 2, device="cuda").float() / ROT))
    ang = torch.arange(P, device="cuda").float()[:, None] * inv[None]
    cos, sin = ang.cos().contiguous(), ang.sin().contiguous()
    x = torch.randn(B, S, H, D, device="cuda")
    offset = torch.tensor([0, 91], device="cuda", dtype=torch.int32)
    want = rope_ref(x, cos, sin, offset, ROT)
    rope_(B, S, H, D, ROT, P)(x, cos, sin, offset)
    torch.testing.assert_close(x, want, rtol=1e-4, atol=1e-5)
    print("rope ok")


if __name__ == "__main__":
    main()
