import tilelang.language as T


def tiles(extent, block, name):
    if extent % block:
        raise ValueError(f"{name} = {extent} is no multiple of {block}")
    return extent // block


def plan(m, n):
    if m > 4096:
        raise ValueError(f"{'m'} = {m} is no multiple of {4096}")
    print(T.ceildiv(n, 64))
    return tiles(m, 64, "m"), tiles(n, 64, "n")


plan(5000, 128)
