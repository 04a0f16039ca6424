"""How records of one case come together: culprits give places, recovered errors are advice, ignored rules go."""

from __future__ import annotations

from dataclasses import replace

import pytest

from triage.findings import find
from triage.knowledge.files import rules_root
from triage.knowledge.judge import Observability
from triage.knowledge.load import load_rules
from triage.knowledge.upstream import load_issues
from triage.lints.hazard import Hazard
from triage.model import Confidence, ErrorRecord, FoundBy, Frame, Label, Location, Place, State, WarningRecord
from triage.ownership import owner_by_path
from triage.report.build import rank
from triage.tools.base import Culprit

RULES = load_rules()
SCRIPT = "/home/user/kernels/k.py"
NO_LAYOUT = ErrorRecord(
    "exception",
    "tvm.error.InternalError",
    "Check failed: (has_best) is false: no available layout found",
    frames=(
        Frame(SCRIPT, 30, "<module>", "k = make()", user=True),
        Frame(
            "/project/src/transform/layout_inference/layout_inference.cc",
            1539,
            "InferInFreeMode",
            lang="cxx",
            user=False,
        ),
    ),
    phase="lower",
    stage="layout",
    kernel="k1",
    origin="event",
)
PLACE = Location(SCRIPT, 12, found_by=FoundBy.EXPERIMENT)
CULPRIT = Culprit("k1", PLACE, (Label(SCRIPT, 9, "is needed, too"),), Confidence.CONFIRMED, "one statement")


def findings(error: ErrorRecord, *culprits: Culprit, ignore: tuple[str, ...] = ()):
    return find([error], [], [], culprits, {}, RULES, Observability(), ignore)


def test_without_a_culprit_the_call_that_compiled_is_not_blamed() -> None:
    (finding,) = findings(NO_LAYOUT)
    assert (finding.rule, finding.state, finding.location) == ("TLG001", State.CLASSIFIED, None)


def test_a_culprit_gives_the_place_and_makes_it_localized() -> None:
    (finding,) = findings(NO_LAYOUT, CULPRIT)
    assert (finding.state, finding.location) == (State.LOCALIZED, PLACE)
    assert finding.labels[0].line == 9


def test_a_fault_that_only_lowering_again_shows_stands_behind_what_ended_the_run() -> None:
    latent = replace(NO_LAYOUT, latent=True)
    ended = ErrorRecord(
        "exception", "KeyError", "'rows'", frames=(Frame(SCRIPT, 40, "<module>", "c['rows']", user=True),)
    )
    both = find([ended, latent], [], [], [], {}, RULES, Observability())
    assert {f.rule: f.level for f in both} == {None: "fault", "TLG001": "advice"}
    (alone,) = find([latent], [], [], [], {}, RULES, Observability())
    assert alone.level == "fault"


def test_of_builds_that_all_failed_the_cause_that_most_share_is_the_fault() -> None:
    def tried(number: int, error: ErrorRecord) -> ErrorRecord:
        return replace(error, kernel=f"k{number}", handled=True)

    index = ErrorRecord(
        "exception", "ValueError", "out_idx index 17 is out of range for a function with 3 parameters",
        frames=(Frame("/x/site-packages/tilelang/jit/abi.py", 26, "legalize", user=False),),
    )  # fmt: skip
    names = {f"kernel:k{number}": {"kernel.name": "main"} for number in (1, 2, 3)}
    errors = [tried(1, NO_LAYOUT), tried(2, index), tried(3, index)]
    found = find(errors, [], [], [], names, RULES, Observability())
    assert {f.rule: f.level for f in found} == {"TLG018": "fault", "TLG001": "advice"}
    last = find([tried(2, index), tried(1, NO_LAYOUT)], [], [], [], names, RULES, Observability())
    assert {f.rule: f.level for f in last} == {"TLG018": "advice", "TLG001": "fault"}
    apart = {about: {"kernel.name": about} for about in names}  # of different kernels each has its own fault
    assert {f.level for f in find(errors, [], [], [], apart, RULES, Observability())} == {"fault"}


def test_a_hazard_on_the_line_of_an_error_that_no_rule_knows_is_its_cause() -> None:
    error = ErrorRecord(
        "exception", "AssertionError", "Not a canonical layout: stride<1,0>=16 != W=1", stage="tile-op", phase="lower",
        frames=(Frame("/x/site-packages/tilelang/cuda/macro.py", 5, "f", user=False),), kernel="k1",
    )  # fmt: skip
    hazard = Hazard("threads-over-limit", "kernel:k1", Place(SCRIPT, PLACE.line), fields={"threads": 2048})
    levels = lambda *culprits: {  # noqa: E731
        f.rule: f.level for f in find([error], [], [hazard], list(culprits), {}, RULES, Observability())
    }
    assert levels(CULPRIT) == {"TLG080": "fault", None: "advice"}
    assert levels() == {None: "fault", "TLG080": "advice"}


def test_a_culprit_of_another_kernel_says_nothing() -> None:
    (finding,) = findings(NO_LAYOUT, replace(CULPRIT, kernel="k2"))
    assert finding.location is None


def test_a_possible_culprit_does_not_localize() -> None:
    (finding,) = findings(NO_LAYOUT, replace(CULPRIT, confidence=Confidence.POSSIBLE))
    assert finding.state is State.CLASSIFIED


def test_without_a_rule_the_place_is_told_but_the_cause_stays_open() -> None:
    unknown = replace(NO_LAYOUT, message="Check failed: (quux) is false: never seen before")
    (finding,) = findings(unknown, CULPRIT)
    assert (finding.rule, finding.state, finding.location) == (None, State.CLASSIFIED, PLACE)


COPIES = """\
def main():
    for k in T.serial(4):
        last = last + k
    a = T.alloc_shared((8,), "int8")
    b = T.alloc_fragment((8,), "int8")
    T.copy(a, b)
    f(last)
"""


def related(line: int, message: str, before: tuple[Label, ...] = (), stage: str = "layout") -> list[int]:
    """The lines of the labels of an error whose place an experiment found in `COPIES`."""
    error = replace(NO_LAYOUT, message=message, stage=stage, frames=NO_LAYOUT.frames[1:])
    culprit = Culprit("k1", replace(PLACE, line=line), before, Confidence.CONFIRMED)
    seen = Observability("0.1.15", lambda file: COPIES)
    (finding,) = find([error], [], [], [culprit], {}, RULES, seen)
    assert finding.location and finding.location.line == line
    assert finding.labels[: len(before)] == before
    return [label.line for label in finding.labels[len(before) :]]


def test_an_error_about_operands_is_shown_with_the_lines_that_made_them() -> None:
    assert related(6, "the shape of b is odd") == [5, 4]
    assert related(6, "a barrier is missing") == [] == related(6, "the shape is odd", stage="codegen")
    assert related(6, "a barrier is missing\n  --> /home/user/kernels/k.py:4:1\n  a = f(shape)") == []
    assert related(7, "variables (k,) are used, but are not passed in", stage="compile") == [3]


def test_labels_of_operands_fill_what_room_there_is() -> None:
    told = tuple(Label(SCRIPT, line, "is needed, too") for line in (4, 11, 12))
    assert related(6, "the shape is odd", told) == [5], "line 4 has a label"
    assert related(6, "the shape is odd", (*told, Label(SCRIPT, 13, "is needed, too"))) == []


def test_what_the_script_got_over_is_advice() -> None:
    (finding,) = findings(replace(NO_LAYOUT, handled=True, recovered=True), CULPRIT)
    assert finding.level == "advice"


def test_what_the_script_only_caught_stays_a_fault() -> None:
    (finding,) = findings(replace(NO_LAYOUT, handled=True), CULPRIT)
    assert finding.level == "fault"


def test_ignored_rules_are_left_out() -> None:
    assert findings(NO_LAYOUT, ignore=("TLG001",)) == []


@pytest.mark.parametrize(
    ("file", "mine"),
    [
        ("/home/user/kernels/k.py", True),
        ("/home/user/venv/lib/python3.11/site-packages/tilelang/jit/kernel.py", False),
        ("/usr/lib/python3.12/runpy.py", False),
        ("/project/src/op/copy.cc", False),
        ("../tilelang/jit/adapter/cython/cython_wrapper.pyx", False),
        ("<unknown>", None),
        ("", None),
    ],
)
def test_a_path_tells_whose_file_it_is(file: str, mine: bool | None) -> None:
    assert owner_by_path(file) is mine


WARNED = WarningRecord("Buffer read before initialization: 1 buffer(s) read before anything writes them\n  [1] `s` is read before anything writes it", at=Location(SCRIPT, 8))  # fmt: skip


def test_a_warning_beside_the_error_that_stopped_the_compile_is_only_advice() -> None:
    found = find([NO_LAYOUT], [WARNED], [], [], {}, RULES, Observability())
    assert [(f.rule, f.level) for f in found] == [("TLG001", "fault"), ("TLC001", "advice")]


def test_a_warning_alone_is_a_fault() -> None:
    (finding,) = find([], [WARNED], [], [], {}, RULES, Observability())
    assert (finding.rule, finding.level) == ("TLC001", "fault")


def test_one_compile_tells_a_rule_once() -> None:
    inner = ErrorRecord("compiler", "nvcc", 'error: identifier "foo" is undefined', relation="inner")
    other = replace(inner, message='error: identifier "bar" is undefined')
    error = ErrorRecord("exception", "RuntimeError", "Compilation error:", causes=(inner, other), phase="device")
    found = find([error], [], [], [], {}, RULES, Observability())
    assert [f.rule for f in found] == ["TLG051"]


def test_a_hazard_that_explains_the_error_takes_its_place() -> None:
    error = replace(NO_LAYOUT, type="AssertionError", message="local_buf must be a fragment", frames=(
        *NO_LAYOUT.frames[:1],
        Frame("/v/site-packages/tilelang/cuda/intrinsics/macro/wgmma_macro_generator.py", 986, "make_mma_store_layout", user=False),
    ))  # fmt: skip
    hazard = Hazard(
        "gemm-operand-scope", "kernel:k1", Place(SCRIPT, 15),
        fields={"operand": "C", "buffer": "C_s", "scope": "shared.dyn", "allowed": "local.fragment", "op": "gemm"},
    )  # fmt: skip
    alone = find([error], [], [], [], {}, RULES, Observability())
    both = find([error], [], [hazard], [], {}, RULES, Observability())
    assert [f.level for f in both] == ["fault"] and len(alone) == 1
    assert both[0].location is not None and both[0].location.line == 15


def stopped_by(kind: str, line: str, launches: int):
    error = ErrorRecord(
        "exception", kind, "1", frames=(Frame(SCRIPT, 40, "<module>", line, user=True),), origin="event"
    )
    return find([error], [], [], [], {"run": {"launches.virtual": launches}}, RULES, Observability())


@pytest.mark.parametrize(
    ("kind", "line", "launches", "level"),
    [
        ("AssertionError", "assert (a - b).abs().max() < 1e-2", 1, "advice"),
        ("SystemExit", "sys.exit(1)", 2, "advice"),
        ("AssertionError", "assert c.shape == (4, 4)", 1, "fault"),
        ("AssertionError", "assert (a - b).abs().max() < 1e-2", 0, "fault"),
        ("ValueError", "raise ValueError('no config')", 1, "fault"),
    ],
)
def test_a_check_of_made_up_values_is_no_fault(kind: str, line: str, launches: int, level: str) -> None:
    assert [f.level for f in stopped_by(kind, line, launches)] == [level]


@pytest.mark.parametrize(
    ("kind", "source", "level"),
    [
        ("AssertionError", "n, m = 7, 2\ny = k(n)\nassert n % m == 0", "fault"),
        ("SystemExit", "import sys\ny = k(7)\nsys.exit(3)", "fault"),
        ("ZeroDivisionError", "n = 0\ny = k(n)\nm = 7 // n", "fault"),
        ("AssertionError", "n, m = 7, 2\ny = k(n)\nassert y == 0", "advice"),
        ("SystemExit", "import sys\ny = k(7)\nsys.exit(int(y > 0))", "advice"),
        ("SystemExit", "import sys\ny = k(7)\nif y > 0: sys.exit(3)", "advice"),
    ],
)
def test_what_constants_decide_fails_on_every_device(kind: str, source: str, level: str) -> None:
    line = source.rpartition("\n")[2]
    error = ErrorRecord("exception", kind, "1", frames=(Frame(SCRIPT, 3, "<module>", line, user=True),), origin="event")
    seen = Observability(read_source=lambda file: source if file == SCRIPT else None)
    (finding,) = find([error], [], [], [], {"run": {"launches.virtual": 1}}, RULES, seen)
    assert finding.level == level and (level == "advice" or finding.state is State.UNKNOWN)


def test_what_a_factory_refuses_of_its_arguments_keeps_the_kernel_from_being_built() -> None:
    line = "assert block_K % group == 0"
    error = ErrorRecord(
        "exception", "AssertionError", "", frames=(Frame(SCRIPT, 9, "make", line, user=True),), phase="build"
    )
    (finding,) = find([error], [], [], [], {"run": {"launches.virtual": 1}}, RULES, Observability())
    assert (finding.level, finding.state, finding.category) == ("fault", State.CLASSIFIED, "generation")


UNDEFINED = ErrorRecord(
    "exception",
    "RuntimeError",
    "Compilation error:",
    frames=(Frame(SCRIPT, 9, "<module>", "k = make()", user=True),),
    causes=(ErrorRecord("compiler", "nvcc", 'error: identifier "fast" is undefined', relation="inner"),),
    phase="device",
    kernel="k1",
    origin="event",
)
NAMES_IT = "HELPER = '''\nfloat g() { return fast(1); }\n'''\ndef main():\n    y = T.call_extern('g')\nk = make()\n"


@pytest.mark.parametrize(
    ("source", "accused", "line", "confidence"),
    [
        (NAMES_IT, 5, 2, Confidence.LIKELY),  # the experiment finds the call, the name stands in the helper
        (NAMES_IT, None, 2, Confidence.LIKELY),
        (NAMES_IT.replace("'g'", "'fast'"), 5, 5, Confidence.CONFIRMED),  # both name it: the experiment decides
        (NAMES_IT.replace("'g'", "'fast'"), None, None, None),
        (NAMES_IT.replace("fast", "slow"), 5, None, None),  # nothing of the user's names it
        (NAMES_IT.replace("T.call_extern(", "T.call_extern(\n        ").replace("'g'", "'fast'"), 5, 5, None),
    ],
)
def test_what_an_error_names_has_to_stand_in_the_accused_statement(
    source: str, accused: int | None, line: int | None, confidence: Confidence | None
) -> None:
    culprits = [replace(CULPRIT, location=replace(PLACE, line=accused))] if accused else []
    seen = Observability("0.1.15", lambda file: source)
    (finding,) = find([UNDEFINED], [], [], culprits, {}, RULES, seen)
    assert (finding.rule, finding.location.line if finding.location else None) == ("TLG051", line)
    assert finding.state is (State.LOCALIZED if line else State.CLASSIFIED)
    assert confidence is None or finding.confidence is confidence


@pytest.mark.parametrize(
    ("kind", "line", "level"),
    [
        ("ValueError", "math.log(err)", "advice"),
        ("ZeroDivisionError", "print(1.0 / x)", "advice"),
        ("AssertionError", "raise AssertionError('Mismatched elements: 3 / 4')", "advice"),
        ("NameError", "print(undefined)", "fault"),
        ("KeyError", "cfg['tolerance']", "fault"),
    ],
)
def test_arithmetic_on_made_up_values_is_no_fault_but_a_wrong_name_is(kind: str, line: str, level: str) -> None:
    assert [f.level for f in stopped_by(kind, line, 1)] == [level]


@pytest.mark.parametrize(("installed", "shown"), [("0.1.15", False), ("0.1.8", True), (None, True)])
def test_an_issue_that_the_installed_version_has_fixed_is_not_shown(installed: str | None, shown: bool) -> None:
    error = replace(
        NO_LAYOUT,
        message="The layout for fragment f can not be inferred correctly.",
        frames=(*NO_LAYOUT.frames[:1], Frame("/project/src/transform/layout_inference/layout_inference.cc", 1, "f", lang="cxx", user=False)),
    )  # fmt: skip
    seen = Observability(tilelang=installed, issues=load_issues(rules_root()))
    (finding,) = find([error], [], [], [], {}, RULES, seen)
    assert finding.rule == "TLG029"
    assert bool(finding.known_issues) is shown


def test_an_error_that_the_virtual_device_may_have_caused_is_unknown() -> None:
    (finding,) = findings(replace(NO_LAYOUT, suspect="could not wrap the kernel"), CULPRIT)
    assert (finding.state, finding.rule, finding.category) == (State.UNKNOWN, None, None)


def test_a_missing_package_is_the_fault_only_where_the_script_has_no_other() -> None:
    missing = ErrorRecord(
        "exception", "ModuleNotFoundError", "No module named 'fla'",
        frames=(Frame(SCRIPT, 3, "<module>", "import fla", user=True),), phase="import", handled=True, stubbed=True,
    )  # fmt: skip
    alone = find([missing], [], [], [], {}, RULES, Observability())
    both = find([missing, NO_LAYOUT], [], [], [], {}, RULES, Observability())
    assert [(f.category, f.level) for f in alone] == [("environment", "fault")]
    assert {f.rule: f.level for f in both} == {"TLG001": "fault", alone[0].rule: "advice"}


def test_what_a_script_exits_for_is_what_went_wrong() -> None:
    reason = ErrorRecord(
        "exception",
        "KeyError",
        "'x'",
        frames=(Frame(SCRIPT, 17, "main", 'print({}["x"])', user=True),),
        relation="context",
    )
    exit_ = ErrorRecord(
        "exception", "SystemExit", "1", frames=(Frame(SCRIPT, 23, "<module>", "sys.exit(1)", user=True),), causes=(reason,)
    )  # fmt: skip
    (finding,) = find([exit_], [], [], [], {"run": {"launches.virtual": 1}}, RULES, Observability())
    assert (finding.level, finding.summary) == ("fault", "'x'")


MACRO = """\
@T.macro
def mul(a, b, c):
    T.gemm(a, b, c)
@tilelang.jit
def make():
    @T.prim_func
    def main():
        mul(A, B, C)
        mul(A, D, C)
try:
    make()
except Exception as e:
    print(e)
"""
BUILDER = "/home/user/venv/lib/python3.12/site-packages/tilelang/language/eager/builder.py"
GEMM = "/home/user/venv/lib/python3.12/site-packages/tilelang/language/gemm_op.py"
OPERANDS = ErrorRecord(
    "exception",
    "AssertionError",
    "T.gemm K shape check failed: K_A = 32, K_B = 64",
    frames=(
        Frame(SCRIPT, 11, "<module>", "make()", user=True),
        Frame("/home/user/venv/lib/python3.12/site-packages/tilelang/jit/__init__.py", 553, "__call__", user=False),
        Frame(SCRIPT, 6, "make", "@T.prim_func", user=True),
        Frame(BUILDER, 1800, "prim_func", user=False),
        Frame(SCRIPT, 9, "main", "mul(A, D, C)", user=True),
        Frame(BUILDER, 1065, "__call__", user=False),
        Frame(SCRIPT, 3, "mul", "T.gemm(a, b, c)", user=True),
        Frame(GEMM, 83, "_gemm_dense_slots", user=False, raises=True),
    ),
    phase="build",
    origin="event",
)
OF_MACRO = Observability("0.1.15", lambda file: MACRO if file == SCRIPT else None)


def test_an_error_in_a_macro_names_the_call_that_the_frames_tell() -> None:
    (finding,) = find([OPERANDS], [], [], [], {}, RULES, OF_MACRO)
    assert (finding.rule, finding.location and finding.location.line) == ("TLG014", 3)
    assert Label(SCRIPT, 9, "mul is called here") in finding.labels
    assert not any(label.line in (6, 8, 11) for label in finding.labels)


def test_a_hazard_in_a_macro_names_the_calls_it_may_be() -> None:
    hazard = Hazard(
        "gemm-operand-scope", "kernel:k1", Place(SCRIPT, 3),
        fields={"operand": "C", "buffer": "C_s", "scope": "shared.dyn", "allowed": "local.fragment", "op": "gemm"},
    )  # fmt: skip
    (finding,) = find([], [], [hazard], [], {}, RULES, OF_MACRO)
    assert [label.line for label in finding.labels] == [8, 9]


LATER = ErrorRecord(
    "exception", "KeyError", "'b'", frames=(Frame(SCRIPT, 20, "<module>", "n['b']", user=True),), origin="event"
)


@pytest.mark.parametrize(
    ("later", "status", "passed", "told"),
    [
        ([], "succeeded", False, "the script caught this error itself, and ended without an error"),
        ([], "failed", False, ""),
        ([LATER], "failed", True, "the script caught this error itself, and ended with another error, KeyError"),
        (
            [replace(LATER, type="TypeError", message="'NoneType' object is not callable")], "failed", False,
            "ended with another error, TypeError",
        ),
    ],
)  # fmt: skip
def test_an_error_that_the_script_caught_says_so(
    later: list[ErrorRecord], status: str, passed: bool, told: str
) -> None:
    caught = replace(OPERANDS, handled=True)
    found = find([caught, *later], [], [], [], {"run": {"run.status": status}}, RULES, OF_MACRO)
    assert [f.rule for f in found] == ["TLG014", None][: 1 + len(later)]
    assert (found[0].passed, found[0].level) == (passed, "fault")
    assert told in found[0].summary and ("caught" in found[0].summary) == bool(told)
    assert (Label(SCRIPT, 12, "the script catches the error here") in found[0].labels) == bool(told)
    assert rank(found)[0] is found[-1 if passed else 0]


def test_an_error_that_no_code_of_the_script_could_catch_is_not_called_caught() -> None:
    inside = replace(OPERANDS, handled=True, frames=(replace(OPERANDS.frames[0], line=5), *OPERANDS.frames[1:]))
    (finding,) = find([inside], [], [], [], {"run": {"run.status": "succeeded"}}, RULES, OF_MACRO)
    assert "caught" not in finding.summary


@pytest.mark.parametrize(
    ("line", "phase", "status", "stage"),
    [
        ("print(outt.shape)", None, "failed", None),
        ("print(outt.shape)", None, None, "dsl"),  # a text alone: nobody knows what was being built
        ("Y[i] = outt[i]", "build", "failed", "dsl"),
        ("size = T.ceildiv(outt, 4)", None, "failed", "dsl"),
    ],
)
def test_a_wrong_name_beside_the_kernels_is_in_none_of_their_stages(
    line: str, phase: str | None, status: str | None, stage: str | None
) -> None:
    error = ErrorRecord(
        "exception", "NameError", "name 'outt' is not defined", frames=(Frame(SCRIPT, 3, "f", line, user=True),),
        phase=phase, origin="event",
    )  # fmt: skip
    run = {"run": {"run.status": status}} if status else {}
    (finding,) = find([error], [], [], [], run, RULES, Observability("0.1.15"))
    assert (finding.rule, finding.stage) == ("TLG093", stage)


def test_a_process_that_ends_without_a_word_is_not_taken_for_a_check_of_values() -> None:
    error = ErrorRecord("exception", "SystemExit", "4", origin="event")
    (finding,) = find([error], [], [], [], {"run": {"launches.virtual": 1}}, RULES, Observability())
    assert (finding.level, finding.state) == ("fault", State.UNKNOWN)
