from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triage.readers.unwrap import unwrap

TRACEBACK = """Traceback (most recent call last):
  File "/home/user/kernels/gemm.py", line 12, in <module>
    main()
ValueError: T.gemm was given three tiles"""


def indented(text: str, by: str) -> str:
    return "\n".join(by + line for line in text.split("\n"))


@pytest.mark.parametrize(
    "around",
    [
        lambda text: f"It fails:\n\n```shell\n{text}\n```\nWhy?",
        lambda text: indented(f"```\n{text}\n```", "> "),
        lambda text: f"<details>\n<summary>log</summary>\n\n```\n{text}\n```\n</details>",
        lambda text: f"So:\n\n{indented(text, '    ')}\n\nand then?",
        lambda text: f"(venv) user@host:~/kernels$ python gemm.py\n{text}",
        lambda text: indented(text, "2026-11-30T09:31:23.1234567Z "),
        lambda text: indented(text, "test\tRun tests\t2026-11-30T09:31:23.1234567Z "),
        lambda text: indented(text, "(EngineCore_0 pid=123) ERROR 11-30 09:31:23 [core.py:700] "),
        lambda text: indented(text, "worker-1  | "),
        lambda text: indented(text, "#12 3.456 "),
        lambda text: indented(text, "Nov 30 09:31:23 host kernel[77]: "),
        lambda text: "\n".join(f"\x1b[31m{line}\x1b[0m" for line in text.split("\n")),
        lambda text: '{"log": "' + text.replace('"', '\\"').replace("\n", "\\n") + '\\n"}',
        lambda text: text.replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;"),
    ],
)
def test_what_people_put_around_output_is_taken_off(around) -> None:  # type: ignore[no-untyped-def]
    lines = unwrap(around(TRACEBACK)).text.split("\n")
    for line in TRACEBACK.split("\n")[1:]:
        assert line in lines


def test_lines_of_pytest_stand_for_themselves() -> None:
    text = ">       kernel(a)\nE   ValueError: T.gemm was given three tiles\nE     of other shapes\n"
    assert unwrap(text).text.split("\n") == [
        ">       kernel(a)",
        "ValueError: T.gemm was given three tiles",
        "of other shapes",
    ]
    assert unwrap("FAILED tests/a.py::test_b[1-2] - ValueError: no").text == "ValueError: no"


@pytest.mark.parametrize(
    "text",
    [
        TRACEBACK,
        "a <- b\n  c: d | e\n[12:00:00] : Warning: x",
        'kernel.cu(12): error: identifier "x" is undefined\n    int y = x;\n            ^',
        "x > y\n> 3",
    ],
)
def test_plain_output_stays_as_it_is(text: str) -> None:
    assert unwrap(text).text == text


@given(st.text(max_size=300))
def test_any_text_has_a_number_for_each_line(text: str) -> None:
    found = unwrap(text)
    lines = found.text.split("\n") if found.numbers else []
    assert len(lines) == len(found.numbers) and all(number >= 1 for number in found.numbers)
