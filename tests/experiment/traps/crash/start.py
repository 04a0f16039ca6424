import ctypes


def peek(address):
    return ctypes.string_at(address)


def main():
    print("looking")
    text = peek(8)
    print(text)


main()
