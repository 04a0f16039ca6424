import tilelang.language as T

T.gemm(A_shared, B_shared "T.gemm K shape check failed: K_A = 32, K_B = 64")
