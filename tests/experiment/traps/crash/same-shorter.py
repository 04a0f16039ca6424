import ctypes


def peek(address):
    return ctypes.string_at(address)


peek(8)
