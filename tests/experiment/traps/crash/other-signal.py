import os


def peek(address):
    os.abort()


def main():
    print("looking")
    text = peek(8)
    print(text)


main()
