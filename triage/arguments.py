"""What can be said to triage on the command line, and what is made of the words."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import NoReturn


class UsageError(Exception):
    """The command line cannot be obeyed; the message says what is wrong and what to do."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}\n{self.format_usage().rstrip()}")


def parser() -> argparse.ArgumentParser:
    """Everything that can be said to triage. What is meant stands in `command`, of `rules` in `action`, too."""
    from triage import __version__

    words = _Parser(
        prog="triage",
        description="Find out why a TileLang kernel does not build, is wrong, is slow, or fails now and then.",
        allow_abbrev=False,
    )
    words.add_argument("--version", action="version", version=f"triage {__version__}")
    commands = words.add_subparsers(dest="command", metavar="COMMAND")

    run = commands.add_parser(
        "run",
        help="run a script, watch it, find its fault, write a report",
        allow_abbrev=False,
        usage="triage run [OPTIONS] kernel.py [-- ARGS…]\n       triage run [OPTIONS] -m MODULE [ARGS…]",
    )
    run.add_argument("script", nargs="?", help="the script; what triage does not know among the rest goes to it")
    run.add_argument("-m", dest="module", metavar="MODULE", help="run a module instead, as `python -m` does")
    run.add_argument("--arch", help="architecture of the virtual device, as sm_90a (without a GPU)")
    run.add_argument("--call", metavar="EXPR", help="evaluate this in the script afterwards, as 'make_kernel(1024)'")
    run.add_argument(
        "--reference", action="append", default=[], metavar="MODULE:FUNCTION[@KERNEL]",
        help="compare what kernels compute with what this function returns for their inputs; also path/to/file.py:FUNCTION",
    )  # fmt: skip
    run.add_argument(
        "--stages", action="append", default=[], metavar="MODULE:FUNCTION[@KERNEL]",
        help="compare the tiles of a block with what this generator yields: pairs of a buffer's name and its values",
    )  # fmt: skip
    run.add_argument("--kernel", metavar="NAME", help="look only at the kernels of this name")
    run.add_argument("--python", default=sys.executable, help="interpreter for the script (default: this one)")
    run.add_argument("--graph", type=Path, metavar="PATH", help="walk another decision graph")
    run.add_argument("--timeout", type=_seconds, default=300.0, metavar="S", help="stop the script after S s (300)")
    run.add_argument("--memory", type=_bytes, metavar="SIZE", help="limit the script's memory, as 8G")
    run.add_argument(
        "--fix", action="store_true", help="write the fix that was verified as a patch; no file is changed"
    )
    run.add_argument("--apply", action="store_true", help="change the file, if exactly one fix is verified")
    _walk_options(run)
    _output_options(run)

    resume = commands.add_parser("resume", help="go on with a case, here or on a machine that has what was missing")
    resume.add_argument("case", nargs="?", help="the case directory (default: the latest)")
    resume.add_argument("--yes", action="store_true", help="do not ask before running a case that came from elsewhere")
    resume.add_argument(
        "--step", type=int, metavar="N", help="only run step N of the walk again; the case stays as it is"
    )
    _walk_options(resume)
    _output_options(resume)

    minimize = commands.add_parser(
        "minimize", help="make a failing script small while it shows the same fault",
        usage="triage minimize [OPTIONS] kernel.py -o PATH [-- ARGS…]", allow_abbrev=False,
    )  # fmt: skip
    minimize.add_argument("script", help="the failing script; it is not changed, changed copies of it are run")
    minimize.add_argument("-o", dest="output", required=True, metavar="PATH", help="where to write the small script")
    minimize.add_argument("--arch", help="architecture of the virtual device, as sm_90a")
    minimize.add_argument("--call", metavar="EXPR", help="evaluate this in the script afterwards")
    minimize.add_argument("--python", default=sys.executable, help="interpreter for the script (default: this one)")
    minimize.add_argument("--budget", type=_seconds, default=600.0, metavar="S", help="stop searching after S s (600)")
    minimize.add_argument(
        "--jobs", type=_count, metavar="N", help="changed copies to run at once (default: one a core)"
    )
    minimize.add_argument(
        "--reducer", choices=("triage", "autodd"), default="triage",
        help="who proposes smaller scripts; triage judges them either way (triage)",
    )  # fmt: skip

    bisect = commands.add_parser(
        "bisect", help="find the compiler switches that make a kernel's failure go",
        usage="triage bisect [OPTIONS] kernel.py [-- ARGS…]", allow_abbrev=False,
    )  # fmt: skip
    bisect.add_argument("script", help="the failing script; it is run once, then its kernels are compiled differently")
    bisect.add_argument("--kernel", metavar="NAME", help="look only at the kernels of this name")
    bisect.add_argument("--arch", help="architecture of the virtual device, as sm_90a")
    bisect.add_argument("--call", metavar="EXPR", help="evaluate this in the script afterwards")
    bisect.add_argument("--python", default=sys.executable, help="interpreter for the script (default: this one)")
    bisect.add_argument("--budget", type=_seconds, default=300.0, metavar="S", help="stop searching after S s (300)")

    report = commands.add_parser("report", help="draw the report of a case again")
    report.add_argument("case", nargs="?", help="the case directory (default: the latest)")
    report.add_argument("--format", choices=("terminal", "md", "json"), default="terminal")
    report.add_argument("-o", dest="output", metavar="PATH", help="write there instead of to the terminal")

    explain = commands.add_parser(
        "explain", help="say what a rule means, or what a text says went wrong",
        description="Say what a rule means, or what a text says went wrong. Exit status 0: a rule fits, or the error has a "
        "category or a stage; 3: neither, also where only the words of a report hint at something.",
    )  # fmt: skip
    explain.add_argument(
        "what", nargs="+", help="codes or names of rules as TLG014, an error text, a file that holds one, or - for standard input"
    )  # fmt: skip
    explain.add_argument("--json", action="store_true", help="print JSON")

    _tolerance(commands.add_parser("tolerance", help="how much a right kernel may differ from its reference"))

    rules = commands.add_parser("rules", help="list, check and make rules")
    actions = rules.add_subparsers(dest="action", required=True, metavar="ACTION")
    actions.add_parser("list", help="all rules, a line each")
    check = actions.add_parser("check", help="check every rule and its fixtures; exit status 1 on a failure")
    check.add_argument("codes", nargs="*", metavar="CODE", help="check only these rules")
    check.add_argument("--bless", action="store_true", help="write the marks that hits lack, and correct wrong ones")
    mutate = actions.add_parser("mutate", help="weaken rules bit by bit and say what no fixture would notice")
    mutate.add_argument("codes", nargs="*", metavar="CODE", help="mutate only these rules")
    new = actions.add_parser("new", help="make a rule with a hit and a near miss to fill in")
    new.add_argument("category", choices=("generation", "correctness", "performance", "intermittent", "environment"))
    new.add_argument("name", help="a short name, as gemm-k-mismatch")
    new.add_argument("--stage", help="the stage of the compile or run (that of the log, else dsl)")
    new.add_argument(
        "--from", dest="log", metavar="LOG",
        help="make them from the output of a failed run, - for standard input: its decisive line becomes the expression",
    )  # fmt: skip

    graph = commands.add_parser("graph", help="check the decision graph and draw it")
    graph.add_argument("--format", choices=("text", "mermaid", "dot", "svg"), default="text")
    graph.add_argument("--file", type=Path, help="another graph than the one triage walks")

    doctor = commands.add_parser("doctor", help="what this machine and this tilelang can do")
    doctor.add_argument("--require", action="append", default=[], metavar="X", help="exit with 1 where X is missing")
    doctor.add_argument("--python", default=sys.executable, help="the interpreter to ask (default: this one)")
    doctor.add_argument("--json", action="store_true", help="print JSON")

    commands.add_parser("clean", help="remove all cases below .triage/ in this directory")
    return words


def _tolerance(words: argparse.ArgumentParser) -> None:
    words.add_argument("--dtype", required=True, metavar="TYPE", help="format of the result, as float16")
    words.add_argument("--k", required=True, type=_length, help="how many products or terms make one result")
    words.add_argument(
        "--op", default="gemm", metavar="OP",
        help="gemm (default), sum, softmax, rmsnorm, layernorm, attention, or a chain as exp,mul,cast:float16",
    )  # fmt: skip
    words.add_argument(
        "--in", dest="inputs", metavar="TYPE", help="format of the inputs (that of the result; int8 for int32)"
    )
    words.add_argument(
        "--accum", metavar="TYPE",
        help="format of the accumulator (float32), hopper-fp8 or hopper-fp8-promoted; of other operations, of their arithmetic",
    )  # fmt: skip
    words.add_argument(
        "--reference", metavar="TYPE", help="format the reference is kept in (that of the result), or exact"
    )
    words.add_argument(
        "--unrounded", action="store_true", help="the reference reads the inputs before they were rounded"
    )
    words.add_argument("--atomics", type=_length, default=0, metavar="N", help="N partial sums are added by atomics")
    words.add_argument("--same-sign", action="store_true", help="all products or terms have one sign")
    words.add_argument("--range", type=_positive, metavar="X", help="how large arguments of exp are (9)")
    words.add_argument("--offset", type=_size, metavar="X", help="layernorm: mean over deviation (1)")
    words.add_argument("--depth", type=_length, metavar="D", help="attention: extent of a head (64)")
    words.add_argument("--fast-math", action="store_true", help="exp and divisions are fast-math intrinsics")
    words.add_argument("--rms", type=_positive, metavar="R", help="rms of your results (else that of normal inputs)")
    words.add_argument(
        "--measured", type=_positive, metavar="E", help="judge an rms error of E over the rms of the result"
    )
    words.add_argument("--json", metavar="PATH", help="write it as JSON there; - for standard output")


def _walk_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--budget", type=_seconds, default=None, metavar="S", help="seconds for experiments (120; 300 with a GPU)"
    )
    parser.add_argument("--no-experiments", action="store_true", help="run nothing but the script itself")


def _output_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", metavar="PATH", help="write the report as JSON there; - for standard output")
    parser.add_argument("--ignore", action="append", default=[], metavar="CODE", help="leave out findings of this rule")
    parser.add_argument("--exit-zero", action="store_true", help="exit with 0 even if a fault was found")


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 1024:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of processes")
    return int(text)


#: sizes of real data are not farther from 1 than float32 reaches
_SMALLEST, _LARGEST = 1e-38, 1e38


def _length(text: str) -> int:
    # no sum of a kernel is longer than an address space
    try:
        value = float(text) if "e" in text.lower() else int(text)
    except ValueError:
        value = 0
    if not 1 <= value <= 2**48 or value != int(value):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of terms; give a whole number from 1 to 2^48, as 4096")
    return int(value)


def _positive(text: str) -> float:
    value = _size(text)
    if value < _SMALLEST:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not positive"
            if not value
            else f"{text!r} is smaller than any data; give {_SMALLEST:g} at least"
        )
    return value


def _size(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no number; give one as 0.5 or 1e-3") from None
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is negative or no finite number; give one as 0.5 or 1e-3")
    if value > _LARGEST:
        raise argparse.ArgumentTypeError(f"{text!r} is larger than any data; give {_LARGEST:g} at most")
    return value


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds") from None
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds")
    return value


def _bytes(text: str) -> int:
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
    number = text.rstrip("iB").rstrip("ib")
    unit = units.get(number[-1:].upper(), 1)
    try:
        value = float(number[:-1] if unit > 1 else number) * unit
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no size; write 8G or 512M") from None
    if not 1 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no size; write 8G or 512M")
    return int(value)
