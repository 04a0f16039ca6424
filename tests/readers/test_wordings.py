"""Short texts in the forms that tools print, one behaviour each."""

from __future__ import annotations

import pytest

from triage.model import ErrorRecord, Location
from triage.readers import Reading, decisive, read_output, read_stacks, split_lines

HEAD = "Traceback (most recent call last):\n"
KERNEL = "/home/me/kernel.py"
TILELANG = "/opt/venv/lib/python3.12/site-packages/tilelang/language/copy_op.py"


def of_user(file: str) -> bool | None:
    if file == KERNEL:
        return True
    return False if "site-packages" in file or file.startswith(("/usr/", "/project/")) else None


def read(text: str) -> Reading:
    return read_output(text, "stderr", of_user)


def only(text: str) -> ErrorRecord:
    (error,) = read(text).errors
    return error


def frame(file: str, line: int, function: str = "f", text: str = "g()") -> str:
    return f'  File "{file}", line {line}, in {function}\n    {text}\n'


# ---- chains: which record decides


def test_the_authors_wrapper_gives_way_to_the_toolchains_error() -> None:
    inner = HEAD + frame(KERNEL, 3) + frame(TILELANG, 70) + "ValueError: shapes differ\n"
    link = "\nThe above exception was the direct cause of the following exception:\n\n"
    outer = (
        HEAD
        + frame(KERNEL, 9, text='raise RuntimeError("my kernel failed") from e')
        + "RuntimeError: my kernel failed\n"
    )
    error = only(inner + link + outer)
    assert error.message == "my kernel failed"
    assert [(c.type, c.relation) for c in error.causes] == [("ValueError", "cause")]
    assert decisive(error).message == "shapes differ"


def test_a_fault_in_the_authors_handler_gives_way_too() -> None:
    inner = HEAD + frame(KERNEL, 3) + frame(TILELANG, 70) + "ValueError: shapes differ\n"
    link = "\nDuring handling of the above exception, another exception occurred:\n\n"
    outer = HEAD + frame(KERNEL, 9) + "NameError: name 'cleanup' is not defined\n"
    error = only(inner + link + outer)
    assert [(c.type, c.relation) for c in error.causes] == [("ValueError", "context")]
    assert decisive(error).type == "ValueError"


def test_the_toolchains_own_wording_wins_over_what_it_caught() -> None:
    inner = HEAD + frame(TILELANG, 12) + "KeyError: 'cuda2'\n"
    link = "\nThe above exception was the direct cause of the following exception:\n\n"
    outer = HEAD + frame(KERNEL, 9) + frame(TILELANG, 15) + "ValueError: Unknown backend 'cuda2'. Available: cuda\n"
    assert decisive(only(inner + link + outer)).message.startswith("Unknown backend")


def test_the_authors_own_chain_ends_with_what_the_author_says() -> None:
    inner = HEAD + frame(KERNEL, 3, text="TABLE[name]") + "KeyError: 'fp7'\n"
    link = "\nThe above exception was the direct cause of the following exception:\n\n"
    outer = HEAD + frame(KERNEL, 5, text="raise ValueError(name) from e") + "ValueError: unsupported dtype fp7\n"
    assert decisive(only(inner + link + outer)).type == "ValueError"


def test_longer_chains_are_flat_and_nearest_first() -> None:
    link = "\nDuring handling of the above exception, another exception occurred:\n\n"
    parts = [HEAD + frame(KERNEL, n) + f"ValueError: number {n}\n" for n in (1, 2, 3)]
    error = only(link.join(parts))
    assert error.message == "number 3"
    assert [c.message for c in error.causes] == ["number 2", "number 1"]
    assert all(c.causes == () for c in error.causes)


def test_a_line_above_the_decorator_is_no_line_of_the_kernel() -> None:
    builder = "/x/site-packages/tilelang/language/eager/builder.py"
    build = frame(KERNEL, 6, "matmul", "@T.prim_func") + frame(builder, 1791, "impl", "ir_gen.gen(builder)(**annot)")
    doubtful = only(HEAD + build + frame(KERNEL, 1, "main", "import tilelang") + frame(TILELANG, 7) + "TypeError: x\n")
    assert [(f.line, f.user) for f in doubtful.frames if f.file == KERNEL] == [(6, True), (1, None)]
    true = only(HEAD + build + frame(KERNEL, 9, "main", "T.copy(a, b)") + frame(TILELANG, 7) + "TypeError: x\n")
    assert [(f.line, f.user) for f in true.frames if f.file == KERNEL] == [(6, True), (9, True)]
    expand = frame(KERNEL, 9, "main", "mac(A, B)") + frame(builder, 1500, "__call__", "ir_gen.gen(builder)(*args)")
    macro = only(
        HEAD + build + expand + frame(KERNEL, 3, "mac", "A[0] = B[0, 0]") + frame(TILELANG, 7) + "IndexError: x\n"
    )
    assert [(f.line, f.user) for f in macro.frames if f.file == KERNEL] == [(6, True), (9, True), (3, True)]


def test_tvms_older_errors_carry_a_traceback_in_the_message() -> None:
    text = (
        HEAD
        + frame(KERNEL, 3)
        + "tvm.error.InternalError: "
        + HEAD
        + "  8: tvm::transform::Pass::operator()(tvm::IRModule) const\n"
        + "        at /workspace/tvm/src/ir/transform.cc:270\n"
        + '  File "/workspace/tilelang/src/transform/layout_inference.cc", line 348\n'
        + "InternalError: Check failed: (min_reg_num < INT64_MAX) is false: no available layout found\n"
    )
    error = only(text)
    assert error.type == "tvm.error.InternalError"
    assert error.message == "Check failed: (min_reg_num < INT64_MAX) is false: no available layout found"
    assert [(f.lang, f.line) for f in error.frames] == [("python", 3), ("cxx", 348)]


# ---- compilers


def nvcc_failure(output: str) -> str:
    source = '#include <tl_templates/cuda/gemm.h>\n\nextern "C" __global__ void k() {\n  foo<3>(x);\n}\n\n'
    command = "Command: /usr/local/cuda/bin/nvcc --cubin -o /tmp/t/tvm_kernels.cubin /tmp/t/tvm_kernels.cu\n"
    return HEAD + frame(KERNEL, 20) + f"RuntimeError: {source}\nCompilation error:\n{output}\n\n{command}\n"


@pytest.mark.parametrize(
    ("output", "tool", "quoted"),
    [
        ("ptxas fatal   : Unresolved extern function 'foo'", "ptxas", "ptxas fatal   : Unresolved extern function 'foo'"),
        ("ptxas /tmp/t/x.ptx, line 37; error   : Unknown symbol 'foo'\nptxas fatal   : Ptx assembly aborted due to errors", "ptxas", "ptxas /tmp/t/x.ptx, line 37; error   : Unknown symbol 'foo'"),
        ("ptxas error   : Entry function 'k' uses too much shared data (0x20000 bytes, 0xc000 max)", "ptxas", "uses too much shared data"),
        ("ptxas info    : (C7510) Potential Performance Loss: wgmma serialized\nnvlink error   : Undefined reference to 'foo' in 'x.o'", "nvlink", "Undefined reference"),
        ("nvcc fatal   : Cannot find compiler 'cl.exe' in PATH", "nvcc", "Cannot find compiler"),
        ("sh: 1: cicc: not found", "nvcc", "cicc: not found"),
        ("nvcc error   : 'cicc' died due to signal 11 (Invalid memory reference)", "nvcc", "died due to signal 11"),
        ("/tmp/t/tvm_kernels.cu(4): catastrophic error: cannot open source file \"curand_kernel.h\"", "nvcc", "cannot open source file"),
        ("/tmp/t/tvm_kernels.cu(4): error #20: identifier \"x\" is undefined", "nvcc", "identifier"),
        ("/tmp/t/tvm_kernels.cu(4): warning #177-D: unused\n    int error;\n\n/x/y.h(9): error: no instance of function template \"foo\" matches", "nvcc", "no instance"),
    ],
)  # fmt: skip
def test_first_error_decides_and_is_quoted(output: str, tool: str, quoted: str) -> None:
    text = nvcc_failure(output)
    found = decisive(only(text))
    assert (found.kind, found.type, found.phase) == ("compiler", tool, "device")
    assert found.quote is not None
    assert found.quote.line is not None
    assert quoted in found.quote.text
    assert text.split("\n")[found.quote.line - 1] == found.quote.text


def test_later_errors_follow_the_first() -> None:
    error = only(
        nvcc_failure('a.cu(1): error: one\n\nb.h(2): error: two\n\n2 errors detected in the compilation of "a.cu".')
    )
    assert [c.message for c in error.causes] == ["error: one", "error: two"]
    assert decisive(error).message == "error: one"


def test_compiler_lines_of_the_users_file_are_named_and_library_files_are_not() -> None:
    trail = (
        f"/x/site-packages/tilelang/src/tl_templates/cuda/scan.h(109): error: static assertion failed\n    static_assert(t);\n    ^\n"
        f'          detected during:\n            instantiation of "class A" at line 160\n'
        f'            instantiation of "B" at line 17 of {KERNEL}\n            instantiation of "C" at line 5 of /x/site-packages/tilelang/cuda/language/print.py\n'
    )
    found = decisive(only(nvcc_failure(trail)))
    assert [(place.file, place.line) for place in found.named] == [(KERNEL, 17)]
    assert [f.line for f in found.frames] == [5, 17, 160, 109]


def test_generated_line_in_the_trail_gets_its_text_from_the_printed_source() -> None:
    found = decisive(
        only(
            nvcc_failure(
                '/x/a.h(9): error: bad\n    y;\n          detected during "foo" at line 4 of /tmp/t/tvm_kernels.cu\n'
            )
        )
    )
    assert (found.frames[0].line, found.frames[0].text) == (4, "foo<3>(x);")


def test_timeout_of_the_compiler_is_no_diagnostic() -> None:
    error = only(
        HEAD + frame(KERNEL, 3) + "RuntimeError: NVCC compilation timed out after 30.0 seconds.\nCommand: nvcc x.cu\n"
    )
    assert error.causes == ()
    assert error.message.startswith("NVCC compilation timed out")


def test_ascends_compiler_output_is_read_inside_the_exception() -> None:
    text = (
        HEAD
        + frame(KERNEL, 20)
        + "RuntimeError: Ascend compilation failed.\nCommand: bisheng -O2 -c /tmp/t/tl_kernel.asc\nCompiler output:\n"
        + "/x/ascend/gemm.h:50:3: error: static assertion failed due to requirement '96 % 64 == 0': K must be divisible\n"
        + '  static_assert(K % T == 0, "K must be divisible");\n  ^\n1 error generated.\n\nSource:\n#include "gemm.h"\n'
    )
    found = decisive(only(text))
    assert (found.kind, found.type) == ("compiler", "c++")
    assert found.message.startswith("error: static assertion failed due to requirement")


def test_compiler_output_without_an_exception() -> None:
    error = only(
        "x.cpp: In function 'f':\nx.cpp:3:5: error: 'y' was not declared\n    3 |     y;\n      |     ^\n/usr/bin/ld: cannot find -lcuda: No such file or directory\ncollect2: error: ld returned 1 exit status\n"
    )
    assert (error.kind, error.type, error.message.partition("\n")[0]) == (
        "compiler",
        "c++",
        "error: 'y' was not declared",
    )
    assert [c.type for c in error.causes] == ["ld"]


# ---- messages


def test_message_ends_where_something_else_begins() -> None:
    for after in (
        "make: *** [run] Error 1",
        "##[error]Process completed with exit code 1.",
        "[22:30:12] : Warning: x",
        "=== next step",
    ):
        error = only(HEAD + frame(KERNEL, 3) + f"ValueError: first\nsecond\n{after}\n")
        assert error.message == "first\nsecond"


def test_spans_of_library_files_are_not_the_users() -> None:
    text = f"InternalError: bad layout\n  --> {TILELANG}:160:1\n  --> {KERNEL}:7:9\n   |\n 7 |     x = T.alloc()\n   |         ^\n"
    error = only(HEAD + frame(KERNEL, 3) + text)
    assert [(p.file, p.line, p.column, p.snippet) for p in error.named] == [(KERNEL, 7, 9, "x = T.alloc()")]


@pytest.mark.parametrize(
    ("message", "names"),
    [
        ("Layout infer conflict between col_sum and row_sum in T.Parallel loop:", ("col_sum", "row_sum")),
        ("The layout for fragment C_local can not be inferred correctly.", ("C_local",)),
        ("Buffer B is 1-dimensional, cannot be indexed", ("B",)),
        ("for src=A, dst=s\nsrc buffer: A, scope=global", ("A", "s")),
        ("In PrimFunc main variables (n, m,) are used, but are not passed", ("n", "m")),
        ("kernel program input Q device_type mismatch, expected cuda", ("Q",)),
        ("the buffer is read before the variable was set", ()),
        ("name 'foo' is not defined", ("foo",)),
    ],
)
def test_names_the_message_mentions(message: str, names: tuple[str, ...]) -> None:
    assert only(HEAD + frame(KERNEL, 3) + f"ValueError: {message}\n").mentions == names


def test_syntax_error_inside_an_import() -> None:
    text = (
        HEAD
        + frame(KERNEL, 1, "<module>", "import helper")
        + '  File "/home/me/helper.py", line 4\n    def f(:\n          ^\nSyntaxError: invalid syntax\n'
    )
    error = only(text)
    assert [f.line for f in error.frames] == [1, 4]
    assert error.named == (Location("/home/me/helper.py", 4, snippet="def f(:"),)


def test_cut_tracebacks() -> None:
    tail = only(frame(KERNEL, 3) + "ValueError: x\n")
    assert (tail.type, tail.frames[0].line) == ("ValueError", 3)
    head = only(HEAD + frame(KERNEL, 3) + frame(TILELANG, 7))
    assert (head.type, head.message, len(head.frames)) == ("", "", 2)


def test_a_pasted_message_alone() -> None:
    error = only("tvm.error.InternalError: Check failed: (has_best) is false: no available layout found\n")
    assert (error.type, error.frames) == ("tvm.error.InternalError", ())
    assert read("Note: everything is fine\nresult: 3\n").errors == ()


def test_pasted_without_indentation() -> None:
    lost = "\n".join(
        line.strip() for line in (HEAD + frame(KERNEL, 3) + frame(TILELANG, 70) + "OSError: x\n").split("\n")
    )
    error = only(lost)
    assert (error.type, [(f.line, f.text) for f in error.frames]) == ("OSError", [(3, "g()"), (70, "g()")])


def test_header_behind_other_text() -> None:
    error = only("  [4/5] pipelined" + HEAD + frame(KERNEL, 3) + "ValueError: x\n")
    assert (error.type, error.frames[0].line) == ("ValueError", 3)


def test_tail_of_an_older_tvm_error() -> None:
    text = '  1: tvm::tl::Gemm::InferLayout()\n  File "/tilelang/src/layout/gemm_layouts.cc", line 269\nInternalError: Check failed: (n % 32 == 0) is false:\n'
    error = only(text)
    assert (error.type, error.frames[0].file, error.frames[0].line) == (
        "InternalError",
        "/tilelang/src/layout/gemm_layouts.cc",
        269,
    )


def test_frame_lines_alone_are_no_error() -> None:
    assert read("see\n" + frame(KERNEL, 3) + "\nfor more\n").errors == ()


# ---- the rest of what ends a process


@pytest.mark.parametrize(
    ("text", "kind", "type_", "message"),
    [
        ("run.sh: line 3: 4711 Segmentation fault      (core dumped) python k.py\n", "signal", "SIGSEGV", "Segmentation fault"),
        ("Killed\n", "signal", "SIGKILL", "Killed"),
        ("Bus error (core dumped)\n", "signal", "SIGBUS", "Bus error"),
        ("terminate called after throwing an instance of 'std::runtime_error'\n  what():  out of range\nAborted (core dumped)\n", "signal", "std::runtime_error", "out of range"),
        ("ERROR: No matching distribution found for tilelang==9.9\n", "check", "pip", "No matching distribution found for tilelang==9.9"),
        ("/usr/bin/python3: No module named tilelang\n", "exception", "ModuleNotFoundError", "No module named tilelang"),
        ("python: can't open file '/home/me/k.py': [Errno 2] No such file or directory\n", "exception", "FileNotFoundError", "can't open file '/home/me/k.py': [Errno 2] No such file or directory"),
        ("bash: line 1: nvcc: command not found\n", "check", "command not found", "nvcc: command not found"),
        ("./k: error while loading shared libraries: libcuda.so.1: cannot open shared object file\n", "check", "dynamic linker", "error while loading shared libraries: libcuda.so.1: cannot open shared object file"),
        ("/tmp/x.cu:10: kernel: block: [0,0,0], thread: [0,0,0] Assertion `i < n` failed.\n/tmp/x.cu:10: kernel: block: [0,0,0], thread: [1,0,0] Assertion `i < n` failed.\n", "check", "device assertion", "Assertion `i < n` failed."),
        ("[22:30:12] /project/3rdparty/tvm/src/runtime/x.cc:12: Fatal: out of memory\n", "check", "tvm log fatal", "out of memory"),
    ],
)  # fmt: skip
def test_ends_without_a_traceback(text: str, kind: str, type_: str, message: str) -> None:
    error = only(text)
    assert (error.kind, error.type, error.message) == (kind, type_, message)


def test_one_death_is_told_once() -> None:
    text = (
        "!!!!!!! Segfault encountered !!!!!!!\n"
        + '  File "<unknown>", line 0, in main_kernel\n\nSegmentation fault (core dumped)\n'
    )
    error = only(text)
    assert [f.function for f in error.frames] == ["main_kernel"]


def test_progress_lines_are_no_diagnostics() -> None:
    assert read("epoch:3: error: 0.25\nstep(12): error: 0.5\nvalidation error: 0.1\n").errors == ()


def test_headers_without_a_suffix_and_drive_letters() -> None:
    assert only("/usr/include/c++/13/type_traits:12:3: error: no\n").frames[0].line == 12
    assert only("C:\\t\\k.cu(4): error: no\n").frames[0].file == "C:\\t\\k.cu"


def test_prose_about_death_is_no_death() -> None:
    assert read("the worker was Killed by the scheduler, see docs\nAborted: 0, finished: 3\n").errors == ()


def test_stacks_of_a_hanging_process() -> None:
    dump = f'Thread 0x1 (most recent call first):\n  File "/usr/lib/threading.py", line 5 in wait\n\nCurrent thread 0x2 (most recent call first):\n  File "{KERNEL}", line 7 in spin\n  File "{KERNEL}", line 9 in <module>\n'
    stacks = read_stacks(split_lines(dump), of_user)
    assert [(s.current, [f.line for f in s.frames]) for s in stacks] == [(False, [5]), (True, [9, 7])]
    assert read(dump).errors == ()


def test_stacks_of_a_crash_stand_below_its_name() -> None:
    dump = f'Fatal Python error: Segmentation fault\n\nCurrent thread 0x2 (most recent call first):\n  File "{KERNEL}", line 7 in load\n  File "{KERNEL}", line 9 in <module>\n\nExtension modules: numpy (total: 1)\n'
    (stack,) = read_stacks(split_lines(dump), of_user)
    assert (stack.current, [f.line for f in stack.frames]) == (True, [9, 7])


def test_python_warnings() -> None:
    reading = read(
        f"{KERNEL}:3: UserWarning: slow path\n  T.copy(a, b)\n{TILELANG}:9: DeprecationWarning: old\n  x()\n"
    )
    first, second = reading.warnings
    assert first.at is not None
    assert (first.text, first.at.line, first.at.snippet) == ("UserWarning: slow path", 3, "T.copy(a, b)")
    assert (second.text, second.at, second.origin) == ("DeprecationWarning: old", None, "python")


def test_compiler_log_warnings_end_before_what_the_script_prints() -> None:
    text = "[22:30:12] : Warning: [ThreadSync] Hoisting sync out of a branch; the race remains\n  in loop i\nlatency: 3 ms\n[22:30:13] /project/src/x.cc:9: Warning: two\n"
    first, second = read(text).warnings
    assert first.text == "[ThreadSync] Hoisting sync out of a branch; the race remains\n  in loop i"
    assert (second.text, second.quote and second.quote.line) == ("two", 4)


def test_raw_line_numbers_survive_carriage_returns() -> None:
    text = "10%\r20%\r\n" + HEAD + frame(KERNEL, 3) + "ValueError: x\r\n"
    quote = only(text).quote
    assert quote is not None
    assert (quote.line, quote.text, quote.artifact) == (5, "ValueError: x", "stderr")
