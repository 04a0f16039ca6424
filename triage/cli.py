"""The command line. It parses, calls, and turns results into text and an exit status; heavy imports wait in the commands.

Exit status: 0 healthy, 1 a fault was found, 2 bad usage, 3 a fault that stays unknown, 4 triage itself failed.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

if TYPE_CHECKING:
    from triage.case import Case
    from triage.knowledge.stages import Stages
    from triage.report.contract import Report
    from triage.session import Session
    from triage.tools.base import Options

HEALTHY, FAULT, USAGE, UNKNOWN, BROKEN, INTERRUPTED = 0, 1, 2, 3, 4, 130
EXIT_OF_STATE = {"healthy": HEALTHY, "localized": FAULT, "classified": FAULT, "unknown": UNKNOWN}
BINARY_PROBE = 8192
LIKE_A_CODE = re.compile(r"TL[A-Z]\d+")


class UsageError(Exception):
    """The command line cannot be obeyed; the message says what is wrong and what to do."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}\n{self.format_usage().rstrip()}")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit status is returned. Nothing but a fault in triage itself ends in status 4."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        return _dispatch(words)
    except UsageError as error:
        print(f"triage: {error}", file=sys.stderr)
        return USAGE
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return HEALTHY
    except KeyboardInterrupt:
        print("triage: interrupted; `triage resume` goes on with the case, `triage report` shows it", file=sys.stderr)
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 - whatever breaks, the user gets a report
        return _own_failure(error)


def _own_failure(error: Exception) -> int:
    import tempfile
    import traceback

    with tempfile.NamedTemporaryFile("w", prefix="triage-failure-", suffix=".txt", delete=False) as file:
        file.write("".join(traceback.format_exception(error)))
    print(
        f"triage: it failed itself ({type(error).__name__}: {error}).\n"
        f"  This is a bug of triage, not of your kernel. The details are in {file.name}.\n"
        "  `triage report` draws what was known by then.",
        file=sys.stderr,
    )
    return BROKEN


def _dispatch(words: list[str]) -> int:
    parser = _parser()
    if words and words[0].endswith(".py"):
        raise UsageError(f"no command {words[0]!r}; did you mean `triage run {words[0]}`?")
    if words[:1] == ["run"]:
        words, subject = _split_run(words)
        args, rest = parser.parse_known_args(words)
        return _run(args, rest, subject)
    for name, command_with_arguments in (("minimize", _minimize), ("bisect", _bisect)):
        if words[:1] == [name] and "--" in words:
            at = words.index("--")
            return command_with_arguments(parser.parse_args(words[:at]), words[at + 1 :])
    args = parser.parse_args(words)
    if args.command is None:
        parser.print_help()
        return HEALTHY
    command: Any = args.function
    return int(command(args))


def _split_run(words: list[str]) -> tuple[list[str], list[str]]:
    """Cut `run` off what belongs to the script: all after `--`, and for `-m MODULE` all from the module on."""
    for index, word in enumerate(words):
        if word == "--":
            return words[:index], words[index + 1 :]
        if word == "-m":
            if index + 1 == len(words):
                raise UsageError("-m needs the name of a module, as in `triage run -m pytest tests/test_kernel.py`")
            return words[: index + 2], words[index + 2 :]
    return words, []


def _parser() -> argparse.ArgumentParser:
    from triage import __version__

    parser = _Parser(
        prog="triage",
        description="Find out why a TileLang kernel does not build, is wrong, is slow, or fails now and then.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"triage {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")

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
    resume.set_defaults(function=_resume)

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
    minimize.set_defaults(function=_minimize)

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
    bisect.set_defaults(function=_bisect)

    report = commands.add_parser("report", help="draw the report of a case again")
    report.add_argument("case", nargs="?", help="the case directory (default: the latest)")
    report.add_argument("--format", choices=("terminal", "md", "json"), default="terminal")
    report.add_argument("-o", dest="output", metavar="PATH", help="write there instead of to the terminal")
    report.set_defaults(function=_report)

    explain = commands.add_parser("explain", help="say what a rule means, or which rules fit a text")
    explain.add_argument("what", help="a code as TLG014, an error text, or - for standard input")
    explain.set_defaults(function=_explain)

    rules = commands.add_parser("rules", help="list, check and make rules")
    actions = rules.add_subparsers(dest="action", required=True, metavar="ACTION")
    actions.add_parser("list", help="all rules, a line each").set_defaults(function=_rules_list)
    check = actions.add_parser("check", help="check every rule and its fixtures; exit status 1 on a failure")
    check.add_argument("--bless", action="store_true", help="write the marks that hits lack")
    check.set_defaults(function=_rules_check)
    new = actions.add_parser("new", help="make a rule with a hit and a near miss to fill in")
    new.add_argument("category", choices=("generation", "correctness", "performance", "intermittent", "environment"))
    new.add_argument("name", help="a short name, as gemm-k-mismatch")
    new.add_argument("--stage", default="dsl", help="the stage of the compile or run (dsl)")
    new.set_defaults(function=_rules_new)

    graph = commands.add_parser("graph", help="check the decision graph and draw it")
    graph.add_argument("--format", choices=("text", "mermaid", "dot", "svg"), default="text")
    graph.add_argument("--file", type=Path, help="another graph than the one triage walks")
    graph.set_defaults(function=_graph)

    doctor = commands.add_parser("doctor", help="what this machine and this tilelang can do")
    doctor.add_argument("--require", action="append", default=[], metavar="X", help="exit with 1 where X is missing")
    doctor.add_argument("--python", default=sys.executable, help="the interpreter to ask (default: this one)")
    doctor.add_argument("--json", action="store_true", help="print JSON")
    doctor.set_defaults(function=_doctor)

    clean = commands.add_parser("clean", help="remove all cases below .triage/ in this directory")
    clean.set_defaults(function=_clean)
    return parser


def _walk_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--budget", type=_seconds, default=120.0, metavar="S", help="seconds for experiments (120)")
    parser.add_argument("--no-experiments", action="store_true", help="run nothing but the script itself")


def _output_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", metavar="PATH", help="write the report as JSON there; - for standard output")
    parser.add_argument("--ignore", action="append", default=[], metavar="CODE", help="leave out findings of this rule")
    parser.add_argument("--exit-zero", action="store_true", help="exit with 0 even if a fault was found")


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 1024:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of processes")
    return int(text)


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


# --------------------------------------------------------------------------------------------------------


def _run(args: argparse.Namespace, rest: list[str], subject: list[str]) -> int:
    from triage import driver
    from triage.graph.load import GraphError

    options = _options(args, rest, subject)
    try:
        case = driver.new_case(options, Path.cwd(), args.graph)
    except GraphError as error:
        raise UsageError(str(error)) from None
    return _walk(case, args, fix=args.fix or args.apply, apply=args.apply)


def _options(args: argparse.Namespace, rest: list[str], subject: list[str]) -> Options:
    from triage.tools.base import Options

    if args.module is None and args.script is None:
        raise UsageError("which script? As in `triage run kernel.py`")
    if args.module == "":
        raise UsageError("-m needs the name of a module, as in `triage run -m pytest tests/test_kernel.py`")
    if args.call is not None:
        try:
            compile(args.call, "--call", "eval")
        except SyntaxError as error:
            raise UsageError(f"--call {args.call!r} is no Python expression: {error.msg}") from None
    if args.arch is not None:
        _known_architecture(args.arch)
    if args.module is not None and args.script is not None:
        raise UsageError("either a script or -m MODULE, not both")
    if args.module is not None and rest:
        raise UsageError(f"unknown option {rest[0]}")
    if (args.fix or args.apply) and args.no_experiments:
        raise UsageError(
            "a fix is tried on changed copies of the script, which --no-experiments forbids; leave one out"
        )
    if (args.fix or args.apply) and args.module is not None:
        raise UsageError("a fix is tried on a script; name the file instead of -m MODULE")
    script = "" if args.module is not None else str(_readable_script(args.script))
    if not Path(args.python).exists():
        import shutil

        if shutil.which(args.python) is None:
            raise UsageError(f"--python {args.python}: no such interpreter")
    return Options(
        script=script, module=args.module, argv=(*rest, *subject), cwd=str(Path.cwd()), python=args.python,
        arch=args.arch, call=args.call, kernel=args.kernel, timeout=args.timeout, memory=args.memory,
        budget=args.budget, experiments=not args.no_experiments, ignore=tuple(args.ignore),
    )  # fmt: skip


def _known_architecture(arch: str) -> None:
    from triage.knowledge.files import rules_root
    from triage.lints.devices import load_devices

    devices = load_devices(rules_root() / "reference" / "devices.toml")
    if re.fullmatch(r"sm_\d+[af]?", arch) is None or arch not in devices:
        known = ", ".join(name for name in devices if name.startswith("sm_"))
        raise UsageError(f"--arch {arch!r} is not known; known: {known}, also with the suffix a or f")


def _readable_script(text: str) -> Path:
    path = Path(text)
    if not text or not os.path.exists(path):  # Path.exists raises for a name that is too long
        raise UsageError(f"{text!r}: no such file")
    if path.is_dir():
        raise UsageError(f"{text} is a directory; name the script in it, or use `triage run -m PACKAGE`")
    if not path.is_file():
        raise UsageError(f"{text} is no regular file")
    try:
        with open(path, "rb") as file:
            head = file.read(BINARY_PROBE)
    except OSError as error:
        raise UsageError(f"{text}: {error.strerror}") from None
    if b"\0" in head:
        raise UsageError(f"{text} is a binary file, not a Python script")
    return path.absolute()


def _resume(args: argparse.Namespace) -> int:
    from triage import driver
    from triage.session import CaseUnusable

    case = _case(args.case)
    try:
        problem = driver.may_resume(case, trusted=args.yes)
        if problem:
            raise UsageError(problem)
        if args.step is not None:
            return _repeat(case, args)
        if not driver.reopen(case, budget=args.budget, experiments=not args.no_experiments):
            print(f"triage: nothing of {case.path} can be done here that was not done before", file=sys.stderr)
        return _walk(case, args)
    except CaseUnusable as error:
        raise UsageError(str(error)) from None


def _repeat(case: Case, args: argparse.Namespace) -> int:
    """Run one step again and show what it gives; the status is that of the report as it stands after this step."""
    from triage import driver
    from triage.conclusion import build
    from triage.progress import Progress
    from triage.report import json_report, step_page

    with Progress(sys.stderr) as progress:
        session = driver.repeat(case, args.step, progress.tell)
    step = next(s for s in session.state.steps if s.number == args.step)
    result = session.results[-1]
    report = build(session)
    if args.json not in (None, "-"):
        _write(args.json, json_report.render(report))
    page = step_page.render(step, result.facts, result.artifacts, session.findings())
    sys.stdout.write(json_report.render(report) if args.json == "-" else page)
    return HEALTHY if args.exit_zero else EXIT_OF_STATE[report["verdict"]["state"]]


def _walk(case: Case, args: argparse.Namespace, fix: bool = False, apply: bool = False) -> int:
    from triage import driver
    from triage.progress import Progress
    from triage.report import json_report, terminal
    from triage.session import replay

    _stop_as_interrupt()
    quiet, interrupted = args.json == "-", False
    try:
        with Progress(sys.stderr) as progress:
            session = driver.walk(case, progress.tell)
    except KeyboardInterrupt:
        session, interrupted = replay(case), True
    report = driver.write_report(session)
    status = HEALTHY if args.exit_zero else EXIT_OF_STATE[report["verdict"]["state"]]
    try:
        if quiet:
            sys.stdout.write(json_report.render(report))
        elif args.json:
            _write(args.json, json_report.render(report))
        page = sys.stderr if quiet else sys.stdout
        if page is not None:
            terminal.show(report, page)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    except OSError as error:
        print(f"triage: the report cannot be shown ({error.strerror}); it is in {session.case.path}", file=sys.stderr)
    if interrupted:
        raise KeyboardInterrupt
    return _deliver(session, report, apply, status, sys.stderr if quiet else sys.stdout) if fix else status


def _deliver(session: Session, report: Report, apply: bool, status: int, page: TextIO) -> int:
    """Write the verified fix; what cannot be written is said, and is bad usage where it was asked to be applied."""
    from triage.patching import NotFixed, deliver

    try:
        written = deliver(session, report, apply)
    except NotFixed as error:
        print(f"triage: {'nothing was changed' if apply else 'no patch was written'}: {error}", file=sys.stderr)
        return USAGE if apply or error.refused else status
    patch = os.path.relpath(written.patch, written.root)
    if written.changed:
        print(f"changed: {', '.join(written.changed)} (to undo: patch -R -p0 < {patch})", file=page)
        return status
    where = "" if written.root == os.getcwd() else f"cd {written.root} && "
    print(f"patch: {patch} (to apply: {where}patch -p0 < {patch}, or git apply -p0 {patch})", file=page)
    return status


def _stop_as_interrupt() -> None:
    """Let a request to stop end as Ctrl-C does: with what is known so far written down."""
    import signal

    def stop(number: int, frame: object) -> NoReturn:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)


def _case(text: str | None) -> Case:
    from triage.case import ROOT, Case, CaseError

    try:
        named = Path(text) if text else None
        if named is not None and not named.exists() and (Path.cwd() / ROOT / named).is_dir():
            named = Path.cwd() / ROOT / named
        return Case.open(named) if named else Case.latest(Path.cwd())
    except CaseError as error:
        raise UsageError(str(error)) from None


def _minimize(args: argparse.Namespace, argv: Sequence[str] = ()) -> int:
    from triage.experiment.autodd import NotInstalledError
    from triage.experiment.client import TemplateError
    from triage.experiment.minimize_script import NothingToMinimizeError
    from triage.minimizing import Request, minimize
    from triage.progress import Progress

    if args.arch is not None:
        _known_architecture(args.arch)
    output = Path(args.output)
    if output.is_dir() or not output.absolute().parent.is_dir():
        raise UsageError(f"-o {args.output}: name a file in a folder that exists")
    script = _readable_script(args.script)
    if output.exists() and output.samefile(script):
        raise UsageError("-o names the script itself; the minimized one goes to a file of its own")
    request = Request(
        script,
        output,
        tuple(argv),
        args.call,
        args.python,
        args.arch,
        budget=args.budget,
        reducer=args.reducer,
        jobs=args.jobs,
    )
    print("triage: this runs changed copies of the script, in processes and folders of their own", file=sys.stderr)
    _stop_as_interrupt()
    try:
        with Progress(sys.stderr) as progress:
            result = minimize(request, progress.tell)
    except (NothingToMinimizeError, NotInstalledError, TemplateError) as error:
        print(f"triage: nothing was minimized: {error}", file=sys.stderr)
        return UNKNOWN
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{args.script} to {args.output}: {error}") from None
    ended = "" if result.finished else "; the time ran out, --budget gives more"
    print(
        f"{args.output}: {result.lines_before} -> {result.lines} lines, the same fault"
        f"{f' ({result.rule})' if result.rule else ''}; {result.runs} runs in {result.seconds:.1f} s{ended}"
    )
    return HEALTHY


def _bisect(args: argparse.Namespace, argv: Sequence[str] = ()) -> int:
    from triage.bisecting import NothingToBisectError, Request, bisect_script
    from triage.experiment.client import TemplateError
    from triage.knowledge.switches import SwitchTableError
    from triage.progress import Progress
    from triage.report import switch_page
    from triage.report.text import encodable

    if args.arch is not None:
        _known_architecture(args.arch)
    script = _readable_script(args.script)
    request = Request(script, tuple(argv), args.call, args.python, args.arch, args.kernel, args.budget)
    _stop_as_interrupt()
    try:
        with Progress(sys.stderr) as progress:
            answers = bisect_script(request, progress.tell)
    except (NothingToBisectError, TemplateError, SwitchTableError) as error:
        print(f"triage: nothing was bisected: {error}", file=sys.stderr)
        return UNKNOWN
    pages = [
        switch_page.render(answer.title, answer.how, answer.found.sets, answer.found.neighbours) for answer in answers
    ]
    sys.stdout.write(encodable("\n".join(pages), sys.stdout.encoding or "utf-8"))
    return HEALTHY if any(answer.found.sets for answer in answers) else UNKNOWN


def _report(args: argparse.Namespace) -> int:
    from triage.conclusion import build
    from triage.report import json_report, markdown, terminal
    from triage.session import CaseUnusable, replay

    try:
        report = build(replay(_case(args.case)))
    except CaseUnusable as error:
        raise UsageError(str(error)) from None
    if args.format == "terminal" and args.output is None:
        terminal.show(report, sys.stdout)
        return HEALTHY
    render = {"terminal": terminal.render, "md": markdown.render, "json": json_report.render}[args.format]
    if args.output:
        _write(args.output, render(report))
    else:
        sys.stdout.write(render(report))
    return HEALTHY


def _write(path: str, text: str) -> None:
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from None


def _clean(args: argparse.Namespace) -> int:
    from triage.case import clean

    count = clean(Path.cwd())
    print(f"removed {count} case{'' if count == 1 else 's'}")
    return HEALTHY


def _graph(args: argparse.Namespace) -> int:
    from triage.graph.check import check
    from triage.graph.draw import draw
    from triage.graph.load import GraphError, load
    from triage.knowledge.facts import fact_types
    from triage.knowledge.files import rules_root
    from triage.tools.registry import SPECS

    root = rules_root()
    try:
        graph = load(args.file or root / "graph.toml")
    except GraphError as error:
        raise UsageError(str(error)) from None
    problems = check(graph, SPECS, fact_types(root))
    sys.stdout.write(draw(graph, SPECS, args.format))
    for problem in problems:
        print(f"triage graph: {problem}", file=sys.stderr)
    return FAULT if problems else HEALTHY


def _doctor(args: argparse.Namespace) -> int:
    from triage.tools import doctor

    return doctor.command(args.require, args.python, args.json)


def _explain(args: argparse.Namespace) -> int:
    from triage.knowledge.explain import UnknownCodeError, explain_code
    from triage.knowledge.files import CODE

    text = sys.stdin.read() if args.what == "-" else args.what
    if CODE.fullmatch(text.strip().upper()) or LIKE_A_CODE.fullmatch(text.strip().upper()):
        try:
            sys.stdout.write(explain_code(text))
        except UnknownCodeError as error:
            print(f"triage: {error}", file=sys.stderr)
            return UNKNOWN
        return HEALTHY
    return _explain_text(text)


def _explain_text(text: str) -> int:
    from triage.findings import records_of_text
    from triage.knowledge.fits import find_fits, show_fits
    from triage.knowledge.load import load_rules

    if not text.strip():
        raise UsageError("there is no text to explain")
    found = find_fits(text, load_rules(), records_of_text(text, "text", _stages()))
    sys.stdout.write(show_fits(found, color=sys.stdout.isatty() and not os.environ.get("NO_COLOR")))
    return HEALTHY if found.fits else UNKNOWN


def _stages() -> Stages:
    from triage.knowledge.files import rules_root
    from triage.knowledge.stages import Stages

    return Stages.load(rules_root() / "reference" / "stages.toml")


def _rules_list(args: argparse.Namespace) -> int:
    from triage.knowledge.catalogue import show_list
    from triage.knowledge.load import load_rules

    sys.stdout.write(show_list(load_rules()))
    return HEALTHY


def _rules_check(args: argparse.Namespace) -> int:
    from triage.findings import records_of_text
    from triage.fixes.strategies import STRATEGIES
    from triage.knowledge.check import check_rules, show_checked

    stages = _stages()
    done = check_rules(
        lambda text, name: records_of_text(text, name, stages), bless=args.bless, strategies=STRATEGIES.keys()
    )
    sys.stdout.write(show_checked(done))
    return FAULT if done.problems else HEALTHY


def _rules_new(args: argparse.Namespace) -> int:
    from triage.knowledge.new import new_rule

    try:
        written = new_rule(args.category, args.name, args.stage)
    except (ValueError, OSError) as error:
        raise UsageError(str(error)) from None
    for path in written:
        print(path)
    return HEALTHY
