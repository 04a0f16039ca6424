"""Pieces of kernels."""

import tilelang.language as T


@T.macro
def sum_of_squares(x, squares, total, rows, cols):
    """total[i] = sum of x[i, j] ** 2, with `squares` to work in."""
    for i, j in T.Parallel(rows, cols):
        squares[i, j] = x[i, j] * x[i, j]
    T.reduce_sum(squares, total, dim=1)
