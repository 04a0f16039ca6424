"""How fast `triage explain` reads long and odd texts, and that time grows with size: `python benchmarks/explain.py [KIND…]`.

For each kind of text one row: seconds of the processor for n, 2n and 4n characters, megabytes a second of the longest, and
time(4n) / time(n), which is 4 where work is linear and 16 where it is quadratic (bar: 6). `--size` sets n; of `--rounds` rounds the
best one counts. Kinds are what logs hold (prose, progress bars, test runs) and what nobody means to write (a header of a
traceback a hundred thousand times). With `--profile` the functions that took longest are shown for each kind.
"""

from __future__ import annotations

import argparse
import base64
import cProfile
import json
import pstats
import random
import sys
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from triage.explaining import Knowledge, explain_text, load_knowledge, show  # noqa: E402

SIZE = 250_000
BAR = 6.0
HEADER = "Traceback (most recent call last):\n"
FRAME = '  File "/home/user/kernels/matmul.py", line 12, in main\n    kernel = matmul(M, N, K)\n'
LIBRARY_FRAME = '  File "/home/user/venv/lib/python3.11/site-packages/tilelang/engine/lower.py", line 240, in lower\n    lower(mod)\n'
CHECK = "tvm.error.InternalError: Check failed: (is_zero(x)) is false: the layout of C is not known"
CXX_FRAME = '  File "/project/3rdparty/tvm/src/ir/transform.cc", line 168, in tvm::transform::Pass::operator()(tvm::IRModule) const\n'
HANDLING = "\nDuring handling of the above exception, another exception occurred:\n\n"
PROSE = (
    "the kernel copies a tile of the matrix from global to shared memory while another warp reads what it wrote before and"
    " layout buffer pipeline stage shape float16 error failed expected"
)

#: A piece of text that is repeated up to the wanted size.
REPEATED = {
    "headers": HEADER,
    "headers and blanks": HEADER + "\n",
    "frames": FRAME,
    "headers and frames": HEADER + FRAME * 3,
    "tracebacks": HEADER + FRAME + LIBRARY_FRAME + "ValueError: K_A = 32, K_B = 128\n\n",
    "tracebacks without gaps": HEADER + FRAME + "ValueError: K_A = 32, K_B = 128\n",
    "compiler tracebacks": HEADER + FRAME + CXX_FRAME * 4 + CHECK + "\n\n",
    "chained": HEADER + FRAME + "ValueError: a\n" + HANDLING,
    "handling lines": HANDLING,
    "embedded": "ValueError: " + HEADER + FRAME,
    "groups": "  + Exception Group " + HEADER + "  | ExceptionGroup: several (2 sub-exceptions)\n  +-+---------------- 1 ----------------\n"
    "    | ValueError: a\n    +------------------------------------\n",
    "gutters": "  + + + + Exception Group " + HEADER,
    "remote": 'multiprocessing.pool.RemoteTraceback: \n"""\n' + HEADER + FRAME + 'ValueError: a\n"""\n\n',
    "error lines": "ValueError: K_A = 32, K_B = 128\n",
    "many error types": "",  # made below
    "sources in messages": HEADER + FRAME + "RuntimeError: #if 1\n  x = 1;\n\n",
    "statements": "x = 1\n",
    "indented": "        value = compute(value)\n",
    "blank lines": "\n",
    "spaces": "                \n",
    "carets": "^^^^\n",
    "carets and tildes": "    ~~~~^^^^\n",
    "pytest lines": "E   AssertionError: T.gemm K shape check failed: K_A = 32, K_B = 128\n",
    "pytest notes": "E         Mismatched elements: 1 / 4 (25.0%)\n",
    "pytest sections": "_____ test_a _____\n\n    def test_a():\n>       run()\nE       ValueError: x\n\ntest_a.py:3: ValueError\n",
    "pytest headers": "_____ test_a _____\n",
    "pytest summaries": "FAILED tests/test_a.py::test_b[float16-1] - ValueError: wrong shape\n",
    "c++ stack": "  3: tvm::tl::LayoutInferencer::Run(tvm::tir::PrimFunc const&)\n",
    "c++ frames": CXX_FRAME,
    "nvcc errors": 'kernel.cu(12): error: identifier "foo" is undefined\n      foo(1);\n      ^\n\n',
    "nvcc warnings": "kernel.cu(12): warning #177-D: variable was declared but never referenced\n",
    "includes": "In file included from a.h:1,\n                 from b.h:2:\n",
    "compile commands": "Compilation error:\nkernel.cu(3): error: no\n",
    "tvm warnings": "[22:30:12] /project/src/op/gemm.cc:12: Warning: the layout is replicated\n  it says more\n",
    "tilelang logs": "2026-11-29 22:29:21  [TileLang:tilelang.jit.kernel:INFO] (k.py:1): TileLang begins to compile kernel `main`\n",
    "critical logs": "2026-11-29 22:29:21  [TileLang:a:CRITICAL] (b.py:1): x\nargs=1\n source=2\n",
    "python warnings": "/home/user/kernels/k.py:3: UserWarning: deprecated\n  warnings.warn(1)\n",
    "crashes": "Segmentation fault (core dumped)\nThread 0x1 (most recent call first):\n" + FRAME,
    "threads": "Thread 0x00007f (most recent call first):\n" + FRAME,
    "signals": "!!!!!!! Segfault encountered !!!!!!!\n" + CXX_FRAME,
    "pip errors": "ERROR: Could not find a version that satisfies the requirement tilelang\n",
    "coloured": "\x1b[32mPASS\x1b[0m \x1b[1mlatency\x1b[22m = 0.12 ms\n",
    "escapes": "\x1b[",
    "progress": "\r 42%|####      | 42/100 [00:12<00:21, 46.51it/s]",
    "progress lines": "\r 42%|####      | 42/100 [00:12<00:21, 46.51it/s]\n",
    "nulls": "\0",
    "nulls in lines": "a\0b\0c\n",
    "crlf": "step 12: loss 0.25\r\n",
    "brackets": "(",
    "brackets in lines": "((((((((((((((((((((((((((((((\n",
    "backslashes": "\\n",
    "quoted lines": "> step 12: loss 0.25\n",
    "quoted tracebacks": "> " + (HEADER + FRAME + "ValueError: a\n").replace("\n", "\n> ")[:-2],
    "single quotes": "> a\nb\n",
    "fences": "```\nx\n```\n",
    "tags": "<details><summary>log</summary>\n",
    "entities": "&lt;&amp;&gt; ",
    "ci prefixes": "2026-11-29T22:34:10.1234567Z [rank0]: step\n",
    "rank tracebacks": ("[rank0]: " + (HEADER + FRAME + "ValueError: a").replace("\n", "\n[rank0]: ") + "\n"),
    "checks": "Check failed: (a == b) is false: \n",
    "check operands": "Check failed: a == b (1 vs. 2) : ",
    "tables": "| a | b | 1.25 | tl.gemm |\n",
    "types": "Error: ",
    "dotted names": "a.",
    "versions": "tilelang 0.1.15 ",
    "one letter": "a",
    "one space": " ",
    "digits": "1",
    "slashes": "/",
    "quotes": "'",
    "colons": ":",
}  # fmt: skip


def _prose(size: int) -> str:
    chance, found, length = random.Random(1), [], 0
    while length < size:
        line = " ".join(chance.choices(PROSE.split(), k=14)) + "."
        found.append(line)
        length += len(line) + 1
    return "\n".join(found)[:size]


def _json(size: int) -> str:
    rows = [{"step": n, "loss": n / 7, "name": f"kernel_{n}", "ok": n % 3 == 0} for n in range(size // 60 + 1)]
    return json.dumps(rows)[:size]


def _base64(size: int) -> str:
    return base64.b64encode(random.Random(1).randbytes(size)).decode()[:size]


def _base64_lines(size: int) -> str:
    code = _base64(size)
    return "\n".join(code[at : at + 76] for at in range(0, size, 77))


def _different(shape: str) -> Callable[[int], str]:
    """Lines that all differ: what is remembered by its text is of no use then."""

    def text(size: int) -> str:
        found, length = [], 0
        for n in count():
            found.append(shape.replace("%d", str(n)))
            length += len(found[-1])
            if length >= size:
                return "".join(found)[:size]
        raise AssertionError

    return text


def _repeated(piece: str) -> Callable[[int], str]:
    return lambda size: (piece * (size // len(piece) + 1))[:size]


KINDS: dict[str, Callable[[int], str]] = {
    **{name: _repeated(piece) for name, piece in REPEATED.items() if piece},
    "many error types": _different("My%dError: failed at %d\n"),
    "many tracebacks": _different(HEADER + FRAME + "ValueError: %d is not %d0\n\n"),
    "many compiler tracebacks": _different(HEADER + FRAME + CXX_FRAME * 4 + CHECK + " at %d\n\n"),
    "many chained": _different(HEADER + FRAME + "ValueError: a%d\n" + HANDLING),
    "many warnings": _different("[22:30:12] /project/src/op/gemm.cc:12: Warning: layout of C%d is replicated\n"),
    "many nvcc errors": _different('kernel.cu(%d): error: identifier "foo%d" is undefined\n\n'),
    "many files": _different(
        HEADER + '  File "/home/user/kernels/k%d.py", line %d, in f%d\n    g()\nValueError: a\n\n'
    ),
    "prose": _prose,
    "prose in one line": lambda size: _prose(size).replace("\n", " "),
    "json": _json,
    "json lines": lambda size: _json(size).replace("}, ", "}\n"),
    "base64": _base64,
    "base64 lines": _base64_lines,
}


def seconds(text: str, knowledge: Knowledge, rounds: int) -> float:
    """Seconds of the processor for an explanation and its page, of the best round."""
    times = []
    for _ in range(rounds):
        start = time.process_time()
        show(explain_text(text, knowledge))
        times.append(time.process_time() - start)
    return min(times)


def profiled(text: str, knowledge: Knowledge) -> None:
    profile = cProfile.Profile()
    profile.runcall(explain_text, text, knowledge)
    pstats.Stats(profile).sort_stats("cumulative").print_stats(18)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help="kinds of text; all of them if none is named")
    parser.add_argument("--size", type=int, default=SIZE, metavar="N", help=f"characters of the shortest text ({SIZE})")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    unknown = set(options.kinds) - KINDS.keys()
    if unknown:
        parser.error(f"no kind is called {', '.join(sorted(unknown))}; there are {', '.join(KINDS)}")
    knowledge = load_knowledge(ROOT / "rules")
    explain_text(_prose(20_000) + "\nValueError: a\n" + CHECK, knowledge)  # what is read once is not measured
    above = []
    print(f"{'kind':26} {'n':>8} {'2n':>8} {'4n':>8}  {'MB/s':>7}  time(4n)/time(n), n = {options.size}")
    for kind in options.kinds or KINDS:
        texts = [KINDS[kind](options.size * times) for times in (1, 2, 4)]
        if options.profile:
            profiled(texts[-1], knowledge)
        one, two, four = (seconds(text, knowledge, options.rounds) for text in texts)
        rate, ratio = len(texts[-1]) / four / 1e6, four / one
        above += [kind] if ratio > BAR else []
        print(
            f"{kind:26} {one:8.2f} {two:8.2f} {four:8.2f}  {rate:7.2f}  {ratio:5.1f}{' above' if ratio > BAR else ''}",
            flush=True,
        )
    print(f"above {BAR:g}: {', '.join(above)}" if above else f"none above {BAR:g}")
    return 1 if above else 0


if __name__ == "__main__":
    sys.exit(main())
