"""Solve L X = B in place for many right-hand sides; L lower triangular, only its lower half is read."""
import torch
import tilelang
import tilelang.language as T


@T.macro
def solve_diagonal(ls, xs, nb, cols):
    # forward substitution on the rows of the block that is in shared memory
    for r in T.serial(nb):
        for c in T.Parallel(cols):
            xs[r, c] = xs[r, c] / ls[r, r]
        for i, c in T.Parallel(nb, cols):
            if i > r:
                xs[i, c] -= ls[i, r] * xs[r, c]


@tilelang.jit
def trsm(L, B, nb: int = 16, cols: int = 32):
    N, R = T.const("N, R")
    L: T.Tensor[[N, N], T.float32]
    B: T.Tensor[[N, R], T.float32]

    with T.Kernel(T.ceildiv(R, cols), threads=128) as bc:
        ls = T.alloc_shared((nb, nb), T.float32)
        xs = T.alloc_shared((nb, cols), T.float32)
        done = T.alloc_shared((nb, cols), T.float32)
        for ib in T.serial(T.ceildiv(N, nb)):
            for i, c in T.Parallel(nb, cols):
                inside = ib * nb + i < N and bc * cols + c < R
                xs[i, c] = T.if_then_else(inside, B[T.min(ib * nb + i, N - 1), T.min(bc * cols + c, R - 1)], 0.0)
            for jb in T.serial(ib):
                for i, c in T.Parallel(nb, cols):
                    done[i, c] = B[jb * nb + i, T.min(bc * cols + c, R - 1)]
                for i, k in T.Parallel(nb, nb):
                    ls[i, k] = L[T.min(ib * nb + i, N - 1), jb * nb + k]
                for i, c in T.Parallel(nb, cols):
                    for k in T.serial(nb):
                        xs[i, c] -= ls[i, k] * done[k, c]
            # rows past the end get a unit diagonal, so that nothing is divided by zero
            for i, k in T.Parallel(nb, nb):
                inside = ib * nb + i < N and ib * nb + k < N
                ls[i, k] = T.if_then_else(
                    inside, L[T.min(ib * nb + i, N - 1), T.min(ib * nb + k, N - 1)], T.if_then_else(i == k, 1.0, 0.0)
                )
            solve_diagonal(ls, xs, nb, cols)
            for i, c in T.Parallel(nb, cols):
                if ib * nb + i < N and bc * cols + c < R:
                    B[ib * nb + i, bc * cols + c] = xs[i, c]


def main():
    torch.manual_seed(6)
    for N, R in [(16, 32), (64, 40), (75, 9), (1, 3)]:
        low = torch.tril(torch.randn(N, N, device="cuda"), -1) / max(N, 1) ** 0.5
        low += torch.diag(torch.rand(N, device="cuda") + 1.0)
        garbage = torch.triu(torch.full((N, N), 1e3, device="cuda"), 1)
        b = torch.randn(N, R, device="cuda")
        x = b.clone()
        trsm(low + garbage, x)

        # backward error instead of a comparison of solutions
        resid = (low.double() @ x.double() - b.double()).norm() / (low.norm() * x.norm())
        print(f"N={N} R={R}: backward error {resid.item():.1e}")
        assert resid < 1e-6
        exact = torch.linalg.solve_triangular(low.double(), b.double(), upper=False)
        assert ((x.double() - exact).abs().max() / exact.abs().max()) < 1e-4


if __name__ == "__main__":
    main()
