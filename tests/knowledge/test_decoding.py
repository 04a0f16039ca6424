"""Logs whose bytes several writers made."""

from __future__ import annotations

import io
import random

import pytest

from triage.knowledge.decoding import decode
from triage.knowledge.material import BinaryError, read_material

LINE = "AssertionError: T.gemm K shape check failed: K_A = 32, K_B = 128\n"
UTF_16 = {"utf-16-le": b"\xff\xfe", "utf-16-be": b"\xfe\xff"}


@pytest.mark.parametrize("encoding", UTF_16)
def test_utf_16_is_read_with_and_without_its_mark(encoding: str) -> None:
    assert decode(UTF_16[encoding] + LINE.encode(encoding)) == LINE
    assert decode(LINE.encode(encoding)) == LINE
    assert decode(UTF_16[encoding] + ("错误 " * 40).encode(encoding)) == "错误 " * 40


@pytest.mark.parametrize("encoding", UTF_16)
def test_utf_16_that_was_appended_to_utf_8_is_read_and_so_is_what_follows(encoding: str) -> None:
    part = UTF_16[encoding] + LINE.encode(encoding)
    plain = "step 1: the loss is größer\n" * 3
    assert decode(plain.encode() + part) == plain + LINE
    assert decode(plain.encode() + part + plain.encode()) == plain + LINE + plain
    assert decode(part + part) == LINE + LINE


def test_a_mark_before_other_text_is_two_stray_bytes() -> None:
    assert decode(b"\xff\xfe\xfa" + LINE.encode()) == "\ufffd" * 3 + LINE
    assert decode(b"a\xff\xfeb " + LINE.encode()) == "a\ufffd\ufffdb " + LINE
    assert decode(b"\xff\xfe") == "\ufffd\ufffd"


def test_a_mark_of_utf_8_is_taken_off() -> None:
    assert decode(b"\xef\xbb\xbf" + LINE.encode()) == LINE


@pytest.mark.parametrize("head", [b"", b"\xff\xfe", b"\xfe\xff", b"\x00\x00"])
def test_random_bytes_are_binary_whatever_mark_they_begin_with(head: bytes) -> None:
    for seed in range(20):
        with pytest.raises(BinaryError):
            read_material(io.BytesIO(head + random.Random(seed).randbytes(4_000)))


def test_a_text_with_a_few_stray_bytes_is_a_text() -> None:
    data = LINE.encode() * 10 + b"\x00\x01\xff\xfe\x80" + LINE.encode()
    assert read_material(io.BytesIO(data)).text.count(LINE) == 11
