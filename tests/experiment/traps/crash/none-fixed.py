import ctypes


def peek(address):
    return b""


def main():
    print("looking")
    text = peek(8)
    print(text)


main()
