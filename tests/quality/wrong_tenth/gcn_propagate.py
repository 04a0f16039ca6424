"""GCN propagation over a CSR graph: out = D^-1/2 (A + I) D^-1/2 X."""
import sys

import numpy as np
import torch
import tilelang
import tilelang.language as T


@tilelang.jit
def gcn_propagate(rowptr, col, x, out, block_R: int = 4, block_F: int = 32):
    V, E, F, V1 = T.const("V, E, F, V1")
    rowptr: T.Tensor[[V1], T.int32]
    col: T.Tensor[[E], T.int32]
    x: T.Tensor[[V, F], T.float32]
    out: T.Tensor[[V, F], T.float32]

    with T.Kernel(T.ceildiv(V, block_R), T.ceildiv(F, block_F), threads=128) as (bv, bf):
        for r, f in T.Parallel(block_R, block_F):
            v = bv * block_R + r
            feat = bf * block_F + f
            if v < V and feat < F:
                acc = T.alloc_var(T.float32)
                first = rowptr[v]
                deg = rowptr[v + 1] - first
                # every node has a self loop, so the degree counts one more
                dinv = T.rsqrt(T.cast(deg + 1, T.float32))
                acc = dinv * dinv * x[v, feat]
                for e in T.serial(deg):
                    u = col[first + e]
                    acc += dinv * dinv * x[u, feat]
                out[v, feat] = acc


def random_graph(n, avg, rng):
    upper = np.triu(rng.random((n, n)) < avg / n, 1)
    upper[0, 1:] |= rng.random(n - 1) < 0.5  # a hub
    adj = upper | upper.T
    adj[n - 1] = adj[:, n - 1] = False  # an isolated node
    return adj


def main():
    rng = np.random.default_rng(11)
    bad = 0
    for n, feats, avg in [(50, 32, 4), (67, 40, 6)]:
        adj = random_graph(n, avg, rng)
        rowptr = np.concatenate([[0], adj.sum(1).cumsum()]).astype(np.int32)
        col = np.nonzero(adj)[1].astype(np.int32)
        x = rng.standard_normal((n, feats)).astype(np.float32)

        out = torch.empty(n, feats, device="cuda")
        gcn_propagate(
            torch.from_numpy(rowptr).to("cuda"),
            torch.from_numpy(col).to("cuda"),
            torch.from_numpy(x).to("cuda"),
            out,
        )

        a = adj.astype(np.float64) + np.eye(n)
        d = 1.0 / np.sqrt(a.sum(1))
        want = (d[:, None] * a * d[None, :]) @ x
        err = np.abs(out.cpu().numpy() - want).max()
        print(f"V={n} E={len(col)} F={feats}: max abs err {err:.2e}")
        bad += err > 1e-4
    return bad


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
