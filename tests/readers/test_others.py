"""Errors of other programs, told by what stands around the message."""

from __future__ import annotations

import pytest

from triage.ownership import owner_by_path
from triage.readers import read_output
from triage.readers.others import BUILD, EXTENSION, NO_PYTHON

EXTENSION_LOG = """\
my_ext.cu(12): error: identifier "foo" is undefined
1 error detected in the compilation of "my_ext.cu".
ninja: build stopped: subcommand failed.
Traceback (most recent call last):
  File "/home/user/kernels/s.py", line 4, in <module>
    torch.utils.cpp_extension.load("x", ["my_ext.cu"])
RuntimeError: Error building extension 'x'
"""


def printers(text: str) -> list[str | None]:
    return [error.printed_by for error in read_output(text, "t", owner_by_path).errors]


@pytest.mark.parametrize(
    "text",
    [
        "SyntaxError: Unexpected token '<' is not valid JSON\n    at JSON.parse (<anonymous>)\n",
        "TypeError: x is not a function\n    at Object.<anonymous> (/home/user/app.js:3:1)\n    at node:internal/main:1:2\n",
        "Error: boom\n    at run (/home/user/app.js:3:1)\n",
        "java.lang.OutOfMemoryError: Java heap space\n\tat com.x.Y(Y.java:3)\n",
        "System.NullReferenceException: Object reference not set to an instance of an object.\n",
    ],
)
def test_a_stack_of_another_language_below_a_message_tells_its_program(text: str) -> None:
    assert printers(text) == [NO_PYTHON]


@pytest.mark.parametrize(
    "text",
    [
        "SyntaxError: invalid syntax\n",
        "ValueError: operands differ\n  at line 3 of the kernel\n",
        "ValueError: operands differ\n  at the call of T.gemm\n",
    ],
)
def test_a_message_of_several_lines_is_no_stack(text: str) -> None:
    assert printers(text) == [None]


def test_what_compilers_say_while_torch_builds_an_extension_is_about_the_extension() -> None:
    assert printers(EXTENSION_LOG) == [EXTENSION, EXTENSION]


def test_a_kernel_that_fails_beside_an_extension_stays_a_kernel() -> None:
    text = EXTENSION_LOG.replace("my_ext.cu(12)", "/tmp/tmpx/tvm_kernels.cu(12)", 1)
    assert printers(text) == [None, EXTENSION]


def test_a_compiler_alone_names_no_other_program() -> None:
    assert printers('kernel.cu(12): error: identifier "foo" is undefined\n') == [None]


CMAKE_LOG = """\
[ 50%] Building CUDA object CMakeFiles/app.dir/src/kernel.cu.o
/home/user/app/src/kernel.cu(12): error: identifier "blockDimX" is undefined
make[2]: *** [CMakeFiles/app.dir/build.make:76: CMakeFiles/app.dir/src/kernel.cu.o] Error 1
"""


def test_the_source_of_an_object_that_make_builds_is_no_kernel_of_tilelang() -> None:
    assert printers(CMAKE_LOG) == [BUILD]
    assert printers(
        "main.cpp:5:10: error: 'foo' was not declared in this scope\nmake: *** [Makefile:3: main.o] Error 1\n"
    ) == [BUILD]


def test_what_is_built_is_known_by_its_name_and_by_its_project() -> None:
    assert printers(CMAKE_LOG.replace("src/kernel.cu(12)", "tmp1x2/tvm_kernels.cu(12)")) == [None]
    assert printers("Building wheel for tilelang\n" + CMAKE_LOG) == [None]
