import sys

TEXT = """Traceback (most recent call last):
  File "start.py", line 30, in main
    T.gemm(A_shared, B_shared, C_local)
  File "site-packages/tilelang/language/gemm_op.py", line 120, in _gemm_impl
    assert prim_expr_equal(K, K_B), f"T.gemm K shape check failed: K_A = {K}, K_B = {K_B}"
AssertionError: T.gemm K shape check failed: K_A = 32, K_B = 64
"""
print(TEXT)
print(TEXT, file=sys.stderr)
sys.exit(1)
