import torch
import tilelang
import tilelang.language as T


@tilelang.jit
def count_tokens(n_tok, vocab, block=64):
    @T.prim_func
    def main(Idx: T.Tensor((n_tok,), "int32"), Count: T.Tensor((vocab,), "int32")):
        with T.Kernel(T.ceildiv(n_tok, block), threads=64) as bx:
            for i in T.Parallel(block):
                if bx * block + i < n_tok:
                    T.atomic_add(Count[Idx[bx * block + i]], 1)

    return main


@tilelang.jit
def embedding_grad(n_tok, vocab, dim, padding_idx, block_T=16, block_D=64):
    """dW[v] = sum of dY over the tokens equal to v, divided by their frequency.

    Tokens come sorted by id (Sorted) with the permutation that sorted them (Order)."""

    @T.prim_func
    def main(
        Sorted: T.Tensor((n_tok,), "int32"),
        Order: T.Tensor((n_tok,), "int32"),
        Count: T.Tensor((vocab,), "int32"),
        dY: T.Tensor((n_tok, dim), "float32"),
        dW: T.Tensor((vocab, dim), "float32"),
    ):
        with T.Kernel(T.ceildiv(n_tok, block_T), T.ceildiv(dim, block_D), threads=64) as (bt, bd):
            run = T.alloc_fragment((block_D,), "float32")
            T.clear(run)
            for i in T.serial(block_T):
                s = bt * block_T + i
                if s < n_tok:
                    for j in T.Parallel(block_D):
                        run[j] += dY[s, bd * block_D + j]  # BUG
                    # the run of equal ids ends here (or the block does): flush
                    if i == block_T - 1 or s == n_tok - 1 or Sorted[s] != Sorted[T.min(s + 1, n_tok - 1)]:
                        if Sorted[s] != padding_idx:
                            for j in T.Parallel(block_D):
                                T.atomic_add(dW[Sorted[s], bd * block_D + j], run[j] / T.cast(Count[Sorted[s]], "float32"))
                        T.clear(run)

    return main


def tl_embedding_backward(idx, dy, vocab, padding_idx):
    n_tok, dim = dy.shape
    count = torch.zeros(vocab, dtype=torch.int32, device=idx.device)
    count_tokens(n_tok, vocab)(idx, count)
    srt, order = torch.sort(idx, stable=True)
    dw = torch.zeros(vocab, dim, device=dy.device)
    embedding_grad(n_tok, vocab, dim, padding_idx)(srt, order.int(), count, dy, dw)
    return count, dw


def main():
    torch.manual_seed(0)
    vocab, dim, n_tok, pad = 37, 128, 200, 0
    idx = torch.randint(0, vocab, (n_tok,), device="cuda", dtype=torch.int32)
    dy = torch.randn(n_tok, dim, device="cuda")

    count, dw = tl_embedding_backward(idx, dy, vocab, pad)
    assert torch.equal(count, torch.bincount(idx, minlength=vocab).int()), "bincount"
    emb = torch.nn.Embedding(vocab, dim, padding_idx=pad, scale_grad_by_freq=True, device="cuda")
    emb(idx).backward(dy)
    torch.testing.assert_close(dw, emb.weight.grad, rtol=1e-4, atol=1e-4)
    print("embedding backward ok")


if __name__ == "__main__":
    main()
