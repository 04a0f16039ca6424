import torch
import torch.nn.functional as F
import tilelang
import tilelang.language as T

LOG2E = 1.4426950408889634
LN2 = 0.6931471805599453


@tilelang.jit
def nll_fwd(logits, labels, rows: int = 16, chunk: int = 64, ignore_index: int = -100):
    M, V = T.const("M V")
    logits: T.Tensor[[M, V], T.float32]
    labels: T.Tensor[[M], T.int32]
    loss = T.empty((M,), T.float32)
    lse_out = T.empty((M,), T.float32)

    with T.Kernel(T.ceildiv(M, rows), threads=128) as bx:
        x = T.alloc_fragment((rows, chunk), "float32")
        m_cur = T.alloc_fragment((rows,), "float32")
        m_run = T.alloc_fragment((rows,), "float32")
        s_cur = T.alloc_fragment((rows,), "float32")
        s_run = T.alloc_fragment((rows,), "float32")
        lse = T.alloc_fragment((rows,), "float32")

        T.fill(m_run, -1e30)
        T.fill(s_run, 0.0)
        for c in T.serial(T.ceildiv(V, chunk)):
            for i, j in T.Parallel(rows, chunk):
                x[i, j] = T.if_then_else(
                    T.And(bx * rows + i < M, c * chunk + j < V),
                    logits[bx * rows + i, c * chunk + j] * LOG2E,
                    -1e30,
                )
            T.reduce_max(x, m_cur, dim=1)
            for i in T.Parallel(rows):
                m_cur[i] = T.max(m_cur[i], m_run[i])
            for i, j in T.Parallel(rows, chunk):
                x[i, j] = T.exp2(x[i, j] - m_cur[i])
            T.reduce_sum(x, s_cur, dim=1)
            for i in T.Parallel(rows):
                s_run[i] = s_run[i] * T.exp2(m_run[i] - m_cur[i]) + s_cur[i]
                m_run[i] = m_cur[i]

        for i in T.Parallel(rows):
            lse[i] = m_run[i] + T.log2(s_run[i]) * LN2  # BUG
        for i in T.Parallel(rows):
            if bx * rows + i < M:
                lse_out[bx * rows + i] = lse[i]
                if labels[bx * rows + i] == ignore_index:
                    loss[bx * rows + i] = 0.0
                else:
                    loss[bx * rows + i] = lse[i] - logits[bx * rows + i, labels[bx * rows + i]]
    return loss, lse_out


def reference(logits, labels):
    loss = F.cross_entropy(logits, labels.long(), ignore_index=-100, reduction="none")
    return loss, torch.logsumexp(logits, dim=-1)


def rel_l2(got, want):
    return ((got - want).norm() / want.norm().clamp_min(1e-6)).item()


if __name__ == "__main__":
    torch.manual_seed(1)
    M, V = 50, 300
    logits = torch.randn(M, V, device="cuda") * 2
    labels = torch.randint(0, V, (M,), device="cuda", dtype=torch.int32)
    labels[::7] = -100
    loss, lse = nll_fwd(logits, labels)
    want_loss, want_lse = reference(logits, labels)
    e_lse, e_loss = rel_l2(lse, want_lse), rel_l2(loss, want_loss)
    print(f"rel err: lse {e_lse:.2e}  loss {e_loss:.2e}")
    if max(e_lse, e_loss) > 1e-4:
        raise RuntimeError("nll_fwd does not match torch")
    print("nll_fwd ok")
