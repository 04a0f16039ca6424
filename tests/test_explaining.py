"""`triage explain` of texts, files and standard input: the verdict, the fits, the near misses, JSON."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triage.explaining import JUDGED, SCHEMA, Explanation, Knowledge, as_json, explain_text, load_knowledge, show
from triage.knowledge.fixtures import fixture_paths, take_marks
from triage.knowledge.material import END, BinaryError, read_material
from triage.model import Category, Confidence, Owner, State

ROOT = Path(__file__).resolve().parents[1]
K_MISMATCH = "AssertionError: T.gemm K shape check failed: K_A = 32, K_B = 128"
REPORT = f"""### Describe the bug

My attention kernel does not build with tilelang==0.1.15.

> ```
> (venv) user@host:~/kernels$ python attention.py
> \x1b[31mTraceback (most recent call last):\x1b[0m
>   File "/home/user/kernels/attention.py", line 40, in <module>
>     kernel = make(128)
>   File "/home/user/venv/lib/python3.12/site-packages/tilelang/language/gemm_op.py", line 99, in gemm
>     assert K_A == K_B, f"T.gemm K shape check failed"
> {K_MISMATCH}
> ```
"""


@cache
def knowledge() -> Knowledge:
    return load_knowledge(ROOT / "rules")


def explained(text: str) -> Explanation:
    return explain_text(text, knowledge())


def triage(*words: str, stdin: str | bytes | None = None, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    data = stdin.encode() if isinstance(stdin, str) else stdin
    done = subprocess.run(
        [sys.executable, "-m", "triage", "explain", *words],
        input=data, capture_output=True, cwd=cwd, env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}, timeout=120,
    )  # fmt: skip
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


def test_a_pasted_report_gets_the_verdict_of_a_run() -> None:
    found = explained(REPORT)
    assert found.finding and (found.basis, found.finding.rule) == ("rule", "TLG014")
    assert (found.category, found.stages, found.owner) == (Category.GENERATION, ("dsl",), Owner.KERNEL)
    assert found.confidence is Confidence.CONFIRMED  # the raising frame was seen
    assert found.finding.captures["k_b"] == 128 and found.tilelang == "0.1.15"
    line = REPORT.splitlines().index(f"> {K_MISMATCH}") + 1
    assert found.finding.quote and found.finding.quote.line == line
    assert found.fits.number(found.fits.fits[0].line) == line


@pytest.mark.parametrize(
    "text",
    [K_MISMATCH, K_MISMATCH.removeprefix("AssertionError: "), f"E   {K_MISMATCH}", f"##[error]{K_MISMATCH}", f"I get `{K_MISMATCH}` here"],
)  # fmt: skip
def test_an_error_line_alone_is_likely_at_most(text: str) -> None:
    found = explained(text)
    assert found.finding and found.finding.rule == "TLG014" and found.confidence is Confidence.LIKELY


def test_the_scripts_own_raise_is_not_the_rule() -> None:
    text = (
        "Traceback (most recent call last):\n"
        '  File "/home/user/kernels/plan.py", line 8, in <module>\n'
        f'    raise AssertionError("{K_MISMATCH.removeprefix("AssertionError: ")}")\n{K_MISMATCH}\n'
    )
    found = explained(text)
    assert found.finding is not None and found.finding.rule is None
    assert found.fits.fits[0].against and "but it is not this rule" in show(found)


def test_an_assertion_that_was_quoted_without_its_beginning_is_told() -> None:
    told = explained("SM80_16x8x16_F32F16F16F32_TN without CUTE_ARCH_MMA_SM80_ENABLED")
    assert told.finding is not None and told.finding.rule == "TLE093"


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("cudaErrorMisalignedAddress", "TLC010"),
        ("RuntimeError: cudaErrorIllegalAddress", "TLC010"),
        ("RuntimeError: hipErrorIllegalAddress", "TLC010"),
        ("RuntimeError: CUDA_ERROR_ILLEGAL_INSTRUCTION", "TLC070"),
        ("RuntimeError: cudaErrorIllegalInstruction", "TLC070"),
        ("RuntimeError: cudaErrorAssert", "TLC011"),
        ("RuntimeError: cudaErrorLaunchTimeout", "TLI020"),
        ("RuntimeError: cudaErrorNoKernelImageForDevice", "TLE019"),
        ("RuntimeError: HIP error: invalid device function", "TLE019"),
        ("/usr/bin/ld: cannot find -lcuda: No such file or directory", "TLE096"),
    ],
)
def test_a_device_error_is_told_by_its_name_and_by_its_message(text: str, rule: str) -> None:
    told = explained(text)
    assert told.finding is not None and told.finding.rule == rule


def test_words_alone_are_possible_at_most_and_no_rule() -> None:
    found = explained("My kernel gives wrong results when num_stages=3")
    assert (found.basis, found.category, found.confidence) == ("words", Category.CORRECTNESS, Confidence.POSSIBLE)
    data = as_json(found, {}, "0")["verdict"]
    assert (data["state"], data["rule"], data["stage"]) == (State.UNKNOWN, None, None) and data["next"]


def test_words_that_say_several_things_leave_the_category_open() -> None:
    found = explained("It is slow and gives wrong results")
    assert found.category is None
    assert set(as_json(found, {}, "0")["verdict"]["categories"]) == {"correctness", "performance"}


def test_prose_about_a_stage_is_not_an_error_of_it() -> None:
    found = explained("Regression after the warp specialization rewrite.\nMissing barrier in my loop\n")
    assert found.basis == "words" and found.stages == ()


@pytest.mark.parametrize("text", ["hello world", "", "no wrong results, not slow", "1 2 3"])
def test_a_text_that_says_nothing_stays_unknown(text: str) -> None:
    found = explained(text)
    assert (found.basis, found.category, found.finding) == ("nothing", None, None)


def hit_logs() -> list[tuple[str, Path]]:
    """The first hit of every seventh rule: all of them are read in tests/rules."""
    rules = list(knowledge().rules)
    paths = [
        (rule.code, p)
        for rule in rules
        for p in fixture_paths(rule)
        if p.name.startswith("hit-") and p.suffix == ".log"
    ]
    first = dict(reversed(paths))
    return sorted(first.items())[::7]


@pytest.mark.parametrize(("code", "path"), hit_logs(), ids=lambda value: value if isinstance(value, str) else "")
def test_a_log_is_explained_the_same_when_it_was_pasted(code: str, path: Path) -> None:
    text, _ = take_marks(path.read_text("utf-8"))
    plain = explained(text)
    assert plain.basis == "rule"
    pasted = "What is this?\n\n" + "".join(f"> {line}\n" for line in f"```\n{text}\n```".split("\n"))
    again = explained(pasted)
    assert again.finding and plain.finding
    assert (again.finding.rule, again.category, again.stages) == (plain.finding.rule, plain.category, plain.stages)


def test_a_long_log_is_read_at_its_records_and_keeps_its_line_numbers() -> None:
    noise = "step: loss 0.25\n" * 40_000
    found = explained(noise + REPORT + noise)
    assert found.finding and found.finding.rule == "TLG014" and found.finding.quote
    line = 40_000 + REPORT.splitlines().index(f"> {K_MISMATCH}") + 1
    assert found.finding.quote.line == line
    assert f"{line} | " in show(found)


def test_repeated_errors_cost_no_verdict_and_too_many_different_ones_are_said_to_be_left_out() -> None:
    repeated = explained(REPORT + "\nValueError: a shape\n" * 3_000)
    assert repeated.finding and repeated.finding.rule == "TLG014" and not repeated.left_out
    many = "".join(f"ValueError: failed at {n}\n\n" for n in range(JUDGED + 30))
    found = explained(K_MISMATCH + "\n\n" + many)
    assert found.finding and found.finding.rule == "TLG014"
    assert found.left_out == 31 and "not looked at: 31 further errors" in show(found)


KEYS = {
    "state", "category", "categories", "stage", "stages", "pass", "owner", "rule", "name", "cause", "title", "summary", "confidence",
    "basis", "quote", "location", "captures", "known_issues", "next",
}  # fmt: skip


@given(
    st.one_of(st.text(max_size=200), st.sampled_from([REPORT, K_MISMATCH, "hangs", "T.gemm K dimension check failed"]))
)
@settings(max_examples=40, deadline=None)
def test_any_text_gives_json_of_one_shape_and_a_page(text: str) -> None:
    found = explained(text)
    data: dict[str, Any] = json.loads(json.dumps(as_json(found, {"kind": "text"}, "0"), allow_nan=False))
    assert data["schema"] == SCHEMA and data["verdict"].keys() == KEYS
    assert data.keys() == {
        "schema",
        "triage",
        "source",
        "tilelang",
        "errors_left_out",
        "verdict",
        "other_findings",
        "symptoms",
        "fits",
        "near",
    }
    page = show(found)
    assert page.startswith("VERDICT\n") and all(c == "\n" or c.isprintable() for c in page)


def test_the_command_reads_words_files_and_standard_input(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_text(REPORT, encoding="utf-8")
    of_file = triage("run.log", cwd=tmp_path)
    assert of_file.returncode == 0 and "reading the file run.log" in of_file.stderr and "TLG014" in of_file.stdout
    assert triage("-", stdin=REPORT).stdout == of_file.stdout
    assert "TLG014" in triage(*K_MISMATCH.split()).stdout
    data = json.loads(triage("--json", "run.log", cwd=tmp_path).stdout)
    assert data["verdict"]["rule"] == "TLG014" and data["source"]["kind"] == "file"
    log.write_bytes(b"\xff\xfe" + REPORT.encode("utf-16-le"))
    assert "TLG014" in triage("run.log", cwd=tmp_path).stdout


def test_the_command_says_what_it_cannot_read(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(bytes(range(256)) * 40)
    for words, what in ((["a.bin"], "binary"), (["."], "directory"), ([""], "no text")):
        done = triage(*words, cwd=tmp_path)
        assert done.returncode == 2 and what in done.stderr, words


def test_several_codes_and_names_give_several_pages() -> None:
    done = triage("TLG014", "gemm-output-mismatch")
    assert done.returncode == 0 and "\n\n\nTLG015 gemm-output-mismatch" in done.stdout
    wrong = triage("TLG014", "gemm-k-mismach")
    assert wrong.returncode == 3 and "did you mean gemm-k-mismatch" in wrong.stderr and "TLG014" in wrong.stdout
    data = json.loads(triage("--json", "TLG014").stdout)
    assert [rule["code"] for rule in data["rules"]] == ["TLG014"]


def test_reading_keeps_both_ends_and_says_what_was_left_out() -> None:
    text = b"begin\n" + b"x" * 79 + b"\n" + (b"y" * 79 + b"\n") * (3 * END // 80) + b"end\n"
    found = read_material(io.BytesIO(text))
    assert found.text.startswith("begin\n") and found.text.endswith("\nend\n")
    assert found.left_out == len(text) - 2 * END
    with pytest.raises(BinaryError):
        read_material(io.BytesIO(b"\x7fELF\x02\x01\x01" + bytes(200)))


JAVASCRIPT = "SyntaxError: Unexpected token '<' is not valid JSON\n    at JSON.parse (<anonymous>)\n"


def test_another_languages_error_reaches_no_rule() -> None:
    found = explained(JAVASCRIPT)
    assert (found.basis, found.category, found.owner) == ("error", None, Owner.UNKNOWN)
    assert "another program" in found.next[0]
    assert found.fits.fits and all(fit.against for fit in found.fits.fits)
    assert explained(JAVASCRIPT.splitlines()[0]).finding.rule == "TLG076"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "text",
    [
        "psycopg2.errors.SyntaxError: no available layout found",
        "jaxlib.xla_extension.XlaRuntimeError: INTERNAL: CUDA error: an illegal memory access was encountered",
    ],
)
def test_another_librarys_error_is_possible_at_most_and_no_known_issue(text: str) -> None:
    found = explained(text)
    assert found.finding and found.finding.rule and found.confidence is Confidence.POSSIBLE
    assert not found.finding.known_issues
    named = explained(f"My tilelang kernel is called by it:\n{text}")
    assert named.finding and named.finding.rule == found.finding.rule and named.confidence is Confidence.LIKELY


def test_another_librarys_internal_error_is_not_tilelangs() -> None:
    assert explained("tensorflow.python.framework.errors_impl.InternalError: boom").category is None
    assert explained("tvm.error.InternalError: boom").category is Category.GENERATION


PTXAS = "ptxas error   : Entry function '{}' uses too much shared data (0x1c000 bytes, 0xc000 max)"


def test_what_a_compiler_says_of_anybodys_kernel_is_likely_at_most() -> None:
    assert explained(PTXAS.format("my_cuda_kernel")).confidence is Confidence.LIKELY
    assert explained(PTXAS.format("main_kernel")).confidence is Confidence.CONFIRMED


def test_what_torch_builds_is_no_kernel_of_tilelang() -> None:
    found = explained(
        'my_ext.cu(12): error: identifier "foo" is undefined\nTraceback (most recent call last):\n'
        '  File "/home/user/kernels/s.py", line 4, in <module>\n    load("x", ["my_ext.cu"])\n'
        "RuntimeError: Error building extension 'x'\n"
    )
    assert found.category is None and found.finding and found.finding.rule is None


@pytest.mark.parametrize(
    "text",
    [
        "AttributeError: module 'tilelangg' has no attribute 'jit'",
        "ImportError: cannot import name 'jit' from 'tilelang_utils' (/home/user/kernels/tilelang_utils.py)",
    ],
)
def test_a_name_that_only_begins_like_tilelang_is_another_module(text: str) -> None:
    rule = explained(text).finding
    assert rule is None or rule.rule not in ("TLG003", "TLG077")


GONE = [
    'there is no error "no available layout found" any more since I fixed the layout, everything works now, thanks!',
    'We do not see a "CUDA error: an illegal memory access was encountered" anymore. Question: is there a roadmap?',
    'Since the update we do not see the\n"CUDA error: an illegal memory access was encountered" anymore.',
    f"We never get `{K_MISMATCH}` any more.",
    f"`{K_MISMATCH}` is fixed now, thanks",
]


@pytest.mark.parametrize("text", GONE)
def test_an_error_that_a_report_says_is_gone_is_no_verdict(text: str) -> None:
    found = explained(text)
    assert (found.basis, found.category, found.is_explained) == ("nothing", None, False)
    assert found.fits.fits and "the text says that it is not there" in show(found)


@pytest.mark.parametrize(
    "text",
    [
        f"I do not understand why I get `{K_MISMATCH}`",
        f"It doesn't work. `{K_MISMATCH}`",
        "I never saw `no available layout found` before today",
        "RuntimeError: could not load the module: CUDA error: an illegal memory access was encountered",
    ],
)
def test_a_negation_about_something_else_leaves_the_error(text: str) -> None:
    found = explained(text)
    assert found.basis == "rule"


@pytest.mark.parametrize(
    ("text", "explains"),
    [
        (K_MISMATCH, True),  # a rule
        ("KeyError: 'T.gemm'", True),  # a category
        ("tvm.error.InternalError: Check failed: (n == m) is false: my pass", True),
        ("Segmentation fault (core dumped)", True),  # a stage
        ("java.lang.OutOfMemoryError: Java heap space\n\tat com.x.Y(Y.java:3)", False),
        ("bash: triage: command not found", False),
        ("my kernel gives wrong results", False),  # words
    ],
)  # fmt: skip
def test_exit_status_says_whether_the_text_was_explained(text: str, explains: bool) -> None:
    found = explained(text)
    assert found.is_explained is explains
    cause_unknown = found.finding is not None and "unknown cause" in found.finding.title
    assert not (explains and cause_unknown)


def test_a_rule_that_something_speaks_against_is_no_explanation() -> None:
    text = (
        'Traceback (most recent call last):\n  File "/home/user/my.py", line 4, in <module>\n'
        '    raise ValueError("no available layout found in my page")\nValueError: no available layout found in my page\n'
    )
    found = explained(text)
    assert found.fits.fits and found.fits.fits[0].against and not found.is_explained
    assert triage("-", stdin=text).returncode == 3


@pytest.mark.parametrize(
    ("around", "k_b"),
    [
        ("{} (expected, negative test)", 128),
        ("see `{}`, swap dims.", 128),
        ("{}.", 128),
        ("{} * n", "128 * n"),
        ("{}//n", "128//n"),
    ],
)
def test_an_operand_that_is_a_number_ends_where_the_number_does(around: str, k_b: int | str) -> None:
    finding = explained(around.format(K_MISMATCH)).finding
    assert finding and finding.captures["k_b"] == k_b


def test_the_source_lines_of_a_traceback_are_no_words_of_a_report() -> None:
    text = (
        'Traceback (most recent call last):\n  File "/home/user/app.py", line 4, in connect\n'
        '    raise ValueError("cannot compile, crashes, hangs and is slow")\nValueError: three sides\n'
    )
    found = explained(text)
    assert (found.basis, found.category) == ("error", None)
    assert explained("My kernel cannot compile:\n" + text).category is Category.GENERATION


def test_a_line_that_was_not_read_to_its_end_is_told() -> None:
    cut = show(explained(K_MISMATCH.replace("32", "9" * 40_000)))
    assert "of line 1 only the first 16384 characters were read" in cut
    assert "only the first" not in show(explained(K_MISMATCH))


def test_quotation_marks_are_no_part_of_an_operators_name() -> None:
    finding = explained(f"I get `{K_MISMATCH.removeprefix('AssertionError: ')}`").finding
    assert finding and finding.captures["op"] == "T.gemm"
