import ctypes


def main():
    ctypes.memset(8, 0, 8)


main()
