import math

import torch
import tilelang
import tilelang.language as T

LOG2E = 1.44269504


@tilelang.jit(out_idx=[6])
def paged_decode(batch, heads, dim, n_pages, max_pages, page, rows=16):
    scale = LOG2E / math.sqrt(dim)
    window_tiles = max_pages

    @T.prim_func
    def decode(
        Q: T.Tensor((batch, heads, dim), "float16"),
        Kc: T.Tensor((n_pages, page, dim), "float16"),
        Vc: T.Tensor((n_pages, page, dim), "float16"),
        table: T.Tensor((batch, max_pages), "int32"),
        lens: T.Tensor((batch,), "int32"),
        sink: T.Tensor((heads,), "float32"),
        Out: T.Tensor((batch, heads, dim), "float32"),
    ):
        with T.Kernel(T.ceildiv(heads, rows), batch, threads=128) as (bh, bb):
            q = T.alloc_shared((rows, dim), "float16")
            k = T.alloc_shared((page, dim), "float16")
            v = T.alloc_shared((page, dim), "float16")
            p = T.alloc_shared((rows, page), "float16")
            s = T.alloc_fragment((rows, page), "float32")
            o = T.alloc_fragment((rows, dim), "float32")
            m = T.alloc_fragment((rows,), "float32")
            m_new = T.alloc_fragment((rows,), "float32")
            l = T.alloc_fragment((rows,), "float32")
            part = T.alloc_fragment((rows,), "float32")

            T.copy(Q[bb, bh * rows, 0], q)
            T.clear(o)
            # the sink is one more column of the softmax with no value row
            for i in T.Parallel(rows):
                m[i] = sink[bh * rows + i] * LOG2E
                l[i] = 1.0
            # newest page first: the partly filled page comes at the start
            for t in T.serial(T.min(T.ceildiv(lens[bb], page), window_tiles)):
                tile = T.ceildiv(lens[bb], page) - 1 - t
                T.copy(Kc[table[bb, tile], 0, 0], k)
                T.copy(Vc[table[bb, tile], 0, 0], v)
                T.clear(s)
                T.gemm(q, k, s, transpose_B=True, policy=T.GemmWarpPolicy.FullCol)
                for i, j in T.Parallel(rows, page):
                    s[i, j] = T.if_then_else(tile * page + j < lens[bb], s[i, j] * scale, -T.infinity("float32"))
                T.reduce_max(s, part, dim=1)
                for i in T.Parallel(rows):
                    m_new[i] = T.max(m[i], part[i])
                for i, j in T.Parallel(rows, page):
                    s[i, j] = T.exp2(s[i, j] - m_new[i])
                T.reduce_sum(s, part, dim=1)
                for i in T.Parallel(rows):
                    l[i] = l[i] * T.exp2(m[i] - m_new[i]) + part[i]
                for i, j in T.Parallel(rows, dim):
                    o[i, j] = o[i, j] * T.exp2(m[i] - m_new[i])
                T.copy(m_new, m)
                T.copy(s, p)
                T.gemm(p, v, o, policy=T.GemmWarpPolicy.FullCol)
            for i, j in T.Parallel(rows, dim):
                Out[bb, bh * rows + i, j] = o[i, j] / l[i]

    return decode


def reference(q, kc, vc, table, lens, sink):
    out = torch.zeros(q.shape, device=q.device)
    for b, n in enumerate(lens.tolist()):
        ids = table[b].long()
        k = kc[ids].flatten(0, 1)[:n].float()
        v = vc[ids].flatten(0, 1)[:n].float()
        s = q[b].float() @ k.t() / math.sqrt(q.shape[-1])
        w = torch.cat([s, sink.unsqueeze(-1)], dim=-1).softmax(-1)[:, :-1]
        out[b] = w @ v
    return out


if __name__ == "__main__":
    torch.manual_seed(5)
    B, H, D, PAGE, MAXP = 4, 16, 64, 64, 4
    q = torch.randn(B, H, D, device="cuda").half()
    kc = torch.randn(B * MAXP, PAGE, D, device="cuda").half()
    vc = torch.randn(B * MAXP, PAGE, D, device="cuda").half()
    table = torch.randperm(B * MAXP, device="cuda").view(B, MAXP).to(torch.int32)
    lens = torch.tensor([1, 64, 150, 0], device="cuda", dtype=torch.int32)
    sink = torch.randn(H, device="cuda")
    out = paged_decode(B, H, D, B * MAXP, MAXP, PAGE)(q, kc, vc, table, lens, sink)
    torch.testing.assert_close(out, reference(q, kc, vc, table, lens, sink), rtol=1e-2, atol=1e-2)
    print("paged decode ok")
