def tiles(extent, block, name):
    if extent % block:
        raise ValueError(f"{name} = {extent} is no multiple of {block}")


tiles(10, 4, "m")
