"""MLA decode with absorbed projections: attention runs directly on the compressed KV cache."""
from dataclasses import dataclass

import torch
import tilelang
import tilelang.language as T


@dataclass(frozen=True)
class MLAConfig:
    heads: int = 16
    nope: int = 32
    rope: int = 16
    rank: int = 64
    v_dim: int = 32


def mla_decode(cfg, batch, max_len, block_S=32, dtype="float16"):
    H, R, P = cfg.heads, cfg.rank, cfg.rope
    scale = (R + P) ** -0.5 * 1.44269504

    @T.prim_func
    def decode(
        Q_lat: T.Tensor((batch, H, R), dtype),
        Q_pe: T.Tensor((batch, H, P), dtype),
        KV: T.Tensor((batch, max_len, R), dtype),
        K_pe: T.Tensor((batch, max_len, P), dtype),
        Lens: T.Tensor((batch,), "int32"),
        O_lat: T.Tensor((batch, H, R), dtype),
    ):
        with T.Kernel(batch, threads=128) as b:
            q_s = T.alloc_shared((H, R), dtype)
            qpe_s = T.alloc_shared((H, P), dtype)
            kv_s = T.alloc_shared((block_S, R), dtype)
            kpe_s = T.alloc_shared((block_S, P), dtype)
            p_s = T.alloc_shared((H, block_S), dtype)
            s = T.alloc_fragment((H, block_S), "float32")
            acc = T.alloc_fragment((H, R), "float32")
            m_prev = T.alloc_fragment((H,), "float32")
            m_cur = T.alloc_fragment((H,), "float32")
            l_tile = T.alloc_fragment((H,), "float32")
            l_sum = T.alloc_fragment((H,), "float32")

            T.copy(Q_lat[b, 0, 0], q_s)
            T.copy(Q_pe[b, 0, 0], qpe_s)
            T.clear(acc)
            T.clear(l_sum)
            T.fill(m_cur, -1e30)

            for t in T.serial(T.ceildiv(Lens[b], block_S)):
                T.copy(KV[b, t * block_S, 0], kv_s)
                T.copy(K_pe[b, t * block_S, 0], kpe_s)
                T.clear(s)
                T.gemm(q_s, kv_s, s, transpose_B=True)
                T.gemm(qpe_s, kpe_s, s, transpose_B=True)
                for i, j in T.Parallel(H, block_S):
                    s[i, j] = T.if_then_else(t * block_S + j < Lens[b], s[i, j] * scale, -1e30)
                T.copy(m_cur, m_prev)
                T.reduce_max(s, m_cur, dim=1, clear=False)
                for i, j in T.Parallel(H, block_S):
                    s[i, j] = T.exp2(s[i, j] - m_cur[i])
                T.reduce_sum(s, l_tile, dim=1)
                for i in T.Parallel(H):
                    l_sum[i] = l_sum[i] * T.exp2(m_prev[i] - m_cur[i]) + l_tile[i]
                for i, j in T.Parallel(H, R):
                    acc[i, j] *= T.exp2(m_prev[i] - m_cur[i])
                T.copy(s, p_s)
                T.gemm(p_s, kv_s, acc)

            for i, j in T.Parallel(H, R):
                acc[i, j] /= l_sum[i]
            T.copy(acc, O_lat[b, 0, 0])

    return decode


def reference(cfg, q_nope, q_pe, kv, k_pe, w_uk, w_uv, lens):
    """Unabsorbed: expand keys and values per head, then ordinary attention."""
    k_nope = torch.einsum("bsr,hdr->bhsd", kv.float(), w_uk)
    v = torch.einsum("bsr,hdr->bhsd", kv.float(), w_uv)
    k = torch.cat([k_nope, k_pe.float()[:, None].expand(-1, cfg.heads, -1, -1)], dim=-1)
    q = torch.cat([q_nope, q_pe], dim=-1)[:, :, None]
    mask = torch.arange(kv.shape[1], device=kv.device)[None] < lens[:, None]
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, None]).squeeze(2)


def main():
    torch.manual_seed(3)
    cfg, batch, max_len = MLAConfig(), 3, 96
    dev = "cuda"
    q_nope = torch.randn(batch, cfg.heads, cfg.nope, device=dev)
    q_pe = torch.randn(batch, cfg.heads, cfg.rope, device=dev)
    kv = torch.randn(batch, max_len, cfg.rank, device=dev).half()
    k_pe = torch.randn(batch, max_len, cfg.rope, device=dev).half()
    w_uk = torch.randn(cfg.heads, cfg.nope, cfg.rank, device=dev) / cfg.rank**0.5
    w_uv = torch.randn(cfg.heads, cfg.v_dim, cfg.rank, device=dev) / cfg.rank**0.5
    lens = torch.tensor([96, 41, 7], dtype=torch.int32, device=dev)

    kernel = tilelang.compile(mla_decode(cfg, batch, max_len), out_idx=[-1])
    q_lat = torch.einsum("bhd,hdr->bhr", q_nope, w_uk).contiguous()
    o_lat = kernel(q_lat.half(), q_pe.half(), kv, k_pe, lens)
    out = torch.einsum("bhr,hdr->bhd", o_lat.float(), w_uv)
    torch.testing.assert_close(out, reference(cfg, q_nope, q_pe, kv, k_pe, w_uk, w_uv, lens), rtol=2e-2, atol=2e-2)
    print("mla decode ok")


if __name__ == "__main__":
    main()
