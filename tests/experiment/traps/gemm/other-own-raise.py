raise AssertionError("T.gemm K shape check failed: K_A = 32, K_B = 64")
