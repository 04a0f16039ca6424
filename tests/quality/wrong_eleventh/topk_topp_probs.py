"""Probabilities after top-k and then top-p (nucleus) filtering, in the order that samplers apply them."""
import torch
import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[2])
def topk_softmax(R, V, k, threads=128):
    @T.prim_func
    def main(Logits: T.Tensor((R, V), "float32"), Temp: T.Tensor((R,), "float32"), P: T.Tensor((R, V), "float32")):
        with T.Kernel(R, threads=threads) as r:
            x = T.alloc_shared((V,), "float32")
            e = T.alloc_fragment((V,), "float32")
            larger = T.alloc_fragment((V,), "int32")
            mx = T.alloc_fragment((1,), "float32")
            denom = T.alloc_fragment((1,), "float32")

            for j in T.Parallel(V):
                x[j] = Logits[r, j] / Temp[r]
            T.clear(larger)
            for t in T.serial(V):
                for j in T.Parallel(V):
                    if x[t] > x[j]:
                        larger[j] += 1
            T.copy(x, e)
            T.reduce_max(e, mx, dim=0)
            for j in T.Parallel(V):
                e[j] = T.exp(e[j] - mx[0])
            T.reduce_sum(e, denom, dim=0)
            for j in T.Parallel(V):
                e[j] = T.if_then_else(larger[j] < k, e[j], 0.0)
            for j in T.Parallel(V):
                P[r, j] = e[j] / denom[0]

    return main


@tilelang.jit(out_idx=[2])
def nucleus(R, V, threads=128):
    @T.prim_func
    def main(P: T.Tensor((R, V), "float32"), TopP: T.Tensor((R,), "float32"), Out: T.Tensor((R, V), "float32")):
        with T.Kernel(R, threads=threads) as r:
            p_s = T.alloc_shared((V,), "float32")
            ahead = T.alloc_fragment((V,), "float32")
            kept = T.alloc_fragment((V,), "float32")
            mass = T.alloc_fragment((1,), "float32")
            T.copy(P[r, 0], p_s)
            # probability of everything ranked before token j
            T.clear(ahead)
            for t in T.serial(V):
                for j in T.Parallel(V):
                    if p_s[t] > p_s[j]:
                        ahead[j] += p_s[t]
            for j in T.Parallel(V):
                kept[j] = T.if_then_else(ahead[j] < TopP[r], p_s[j], 0.0)
            T.reduce_sum(kept, mass, dim=0)
            for j in T.Parallel(V):
                Out[r, j] = kept[j] / mass[0]

    return main


def reference(logits, temp, k, top_p):
    x = logits / temp[:, None]
    kth = x.topk(k, dim=-1).values[:, -1:]
    x = x.masked_fill(x < kth, float("-inf"))
    p, order = x.softmax(-1).sort(dim=-1, descending=True)
    drop = p.cumsum(-1) - p >= top_p[:, None]
    p = p.masked_fill(drop, 0.0)
    p = p / p.sum(-1, keepdim=True)
    return torch.zeros_like(p).scatter(-1, order, p)


def main():
    torch.manual_seed(4)
    R, V = 12, 256
    logits = 2.5 * torch.randn(R, V, device="cuda")
    temp = torch.linspace(0.6, 1.8, R, device="cuda")
    for k, p in [(V, 0.9), (20, 1.0), (20, 0.8), (50, 0.95)]:
        top_p = torch.full((R,), p, device="cuda")
        out = nucleus(R, V)(topk_softmax(R, V, k)(logits, temp), top_p)
        want = reference(logits, temp, k, top_p)
        n_got, n_want = (out > 0).sum(-1), (want > 0).sum(-1)
        if not torch.allclose(out, want, rtol=1e-4, atol=1e-6):
            print(f"k={k} p={p}: kept {n_got.tolist()} expected {n_want.tolist()}")
            exit(1)
        print(f"k={k} p={p}: ok, {n_got.tolist()} kept")


if __name__ == "__main__":
    main()
