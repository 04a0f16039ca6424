"""The words every other module speaks: facts, errors, kernels, findings, steps and the verdict.

Everything here is a frozen dataclass or an enum with no behaviour beyond turning itself into plain JSON. A
dataclass becomes JSON by `to_json` and comes back by `from_json`; unknown keys are ignored on the way back,
so that a case written by a newer triage can still be read.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeVar

REPORT_SCHEMA = "triage.report/1"
KERNEL_SCHEMA = "triage.kernel/1"


class Category(StrEnum):
    GENERATION = "generation"
    CORRECTNESS = "correctness"
    PERFORMANCE = "performance"
    INTERMITTENT = "intermittent"
    ENVIRONMENT = "environment"


class State(StrEnum):
    """How far a verdict got. `localized` promises cause and place; see `Confidence`."""

    LOCALIZED = "localized"
    CLASSIFIED = "classified"
    UNKNOWN = "unknown"
    HEALTHY = "healthy"


class Confidence(StrEnum):
    """`confirmed`: a counterfactual experiment, or the error's own frame and operands, shows it."""

    CONFIRMED = "confirmed"
    LIKELY = "likely"
    POSSIBLE = "possible"


class Owner(StrEnum):
    KERNEL = "kernel"
    COMPILER = "compiler"
    ENVIRONMENT = "environment"
    LIMITATION = "limitation"
    REFERENCE = "reference"
    TOLERANCE = "tolerance"
    UNKNOWN = "unknown"


class Caliber(StrEnum):
    """How a fact arose. Two measurements are comparable only within one caliber and one environment."""

    STATIC = "static"
    WALL = "wall"
    EVENT = "event"
    PROFILER = "profiler"
    REPORTED = "reported"
    OBSERVED = "observed"
    VIRTUAL = "virtual"


class FoundBy(StrEnum):
    FRAME = "frame"
    LINE_DIRECTIVE = "line-directive"
    EXPERIMENT = "experiment"
    SPAN = "span"
    LINT = "lint"
    TWIN = "twin"


class StepStatus(StrEnum):
    RAN = "ran"
    SKIPPED = "skipped"
    FAILED = "failed"
    TIMED_OUT = "timed_out"


class StepOutcome(StrEnum):
    """What a step that ran says about the subject; a step that did not run says `unknown`."""

    FINDING = "finding"
    CLEAN = "clean"
    UNKNOWN = "unknown"


#: The stages of a compile and a run, in their order.
STAGES = (
    "install",
    "import",
    "target",
    "dsl",
    "semantic-check",
    "layout",
    "tile-op",
    "pipeline",
    "warp-specialize",
    "memory-plan",
    "thread-sync",
    "vectorize",
    "codegen",
    "device-compile",
    "compile",
    "call",
    "launch",
    "runtime",
    "numerics",
    "concurrency",
    "throughput",
    "bandwidth",
    "latency",
    "occupancy",
    "launch-overhead",
    "compile-time",
    "autotune",
    "cache",
    "profiler",
)


@dataclass(frozen=True)
class Location:
    """A place in the user's file; `line` and `column` count from 1."""

    file: str
    line: int
    column: int | None = None
    snippet: str | None = None
    function: str | None = None
    found_by: FoundBy | None = None


@dataclass(frozen=True)
class Label:
    """A second place worth looking at, with what is to be seen there."""

    file: str
    line: int
    text: str


@dataclass(frozen=True)
class Quote:
    """Text taken verbatim from an artifact; `line` counts from 1 in that artifact."""

    text: str
    artifact: str | None = None
    line: int | None = None


@dataclass(frozen=True)
class Frame:
    """One frame of a traceback. `user` is None where nobody could tell whose file it is."""

    file: str
    line: int
    function: str = ""
    text: str = ""
    lang: str = "python"  # python | cxx
    user: bool | None = None
    #: the column range of the failing expression on `line`, 1-based, where the interpreter told it
    column: int | None = None
    end_column: int | None = None
    #: the innermost frame only: whether it stopped at a `raise` or `assert` of its own; None where that was not seen
    raises: bool | None = None


@dataclass(frozen=True)
class Runs:
    """Indices of an axis as runs of neighbours: how many indices and runs, the first runs and the last as (start, length),
    and the least and the greatest distance of two starts and length (the last run may be cut off, and is left out)."""

    count: int
    runs: int
    first: tuple[tuple[int, ...], ...] = ()
    last: tuple[int, ...] = ()
    distances: tuple[int, ...] = ()
    lengths: tuple[int, ...] = ()


@dataclass(frozen=True)
class Axis:
    """One axis of a mask of wrong elements: the indices that hold any, and those of which half or more are wrong."""

    extent: int
    touched: Runs
    dense: Runs


@dataclass(frozen=True)
class Differences:
    """How far all elements of a tensor are from their references, in numbers.

    Of the `count` elements with numbers on both sides: those that are `unequal`, and absolute errors; `gain` is sum(error * expected) /
    sum(expected^2), None where nothing but zero is expected. `expected` is the type that the reference was rounded to, `kept` the coarsest
    that either side was. `*_steps` are errors in spacings of that type, where the reference lies, less an absolute error that is
    nothing beside the rms of the references; `max_scaled_steps` in spacings at that rms, for references below it. `max_beyond_spacing` is the
    largest absolute error less one spacing of its own element; `lean` the part of the result by which values lie to one side of the
    references, both as `kept` holds them, with its standard deviation by chance. `nonfinite` counts
    the elements that have no number on one side only, or another infinity.
    """

    expected: str = ""
    kept: str = ""
    count: int = 0
    nonfinite: int = 0
    unequal: int = 0
    rms_error: float = 0.0
    max_error: float = 0.0
    mean_error: float = 0.0
    mean_expected: float = 0.0
    rms_expected: float = 0.0
    max_expected: float = 0.0
    gain: float | None = None
    rms_steps: float = 0.0
    max_steps: float = 0.0
    max_scaled_steps: float = 0.0
    max_beyond_spacing: float = 0.0
    lean: float = 0.0
    lean_by_chance: float = 0.0


@dataclass(frozen=True)
class Arrangement:
    """Where the values that wrong elements hold are expected, if nearly all are expected somewhere.

    `kind`: shifted `by` so many rows and columns; swapped (halves of so many rows or columns); duplicated (in groups of so many, all
    are like number `first`); displaced-tiles, duplicated-tiles (`tile` number `first` holds what number `source` should, as plane, row
    and column, counted in tiles); mixed-tiles (each tile holds its values in another order).
    """

    kind: str
    share: float
    by: tuple[int, ...] = ()
    tile: tuple[int, ...] = ()
    first: tuple[int, ...] = ()
    source: tuple[int, ...] = ()


@dataclass(frozen=True)
class Mismatch:
    """What is wrong between a tensor and its reference. `dtype` is the tensor's own type.

    `axes` are those of the mask, the last six apart. Of the wrong elements: how many are NaN, infinite or zero where the
    reference is not, or have no number as a reference; the largest finite errors; the `ratio` that fits best, the share that
    it explains, and whether their references vary at all; the share that holds what is expected at the transposed place.
    `digest` is the same for the same set of wrong elements.
    """

    shape: tuple[int, ...]
    dtype: str
    wrong: int
    total: int
    axes: tuple[Axis, ...] = ()
    digest: str = ""
    nan: int = 0
    expected_nan: int = 0
    inf: int = 0
    #: the index of the first wrong element that is NaN or infinite, or compared with NaN
    not_finite_at: tuple[int, ...] = ()
    zeros: int = 0
    max_abs: float | None = None
    max_rel: float | None = None
    ratio: float | None = None
    explained: float = 0.0
    varied: bool = False
    transposed: float = 0.0
    #: where the values are expected, None where nothing is sure
    arrangement: Arrangement | None = None
    differences: Differences | None = None


@dataclass(frozen=True)
class Output:
    """An argument of a kernel that a launch wrote; `name` is the kernel's function with those around it."""

    name: str
    argument: str
    launch: str = ""
    kernel: str = ""


@dataclass(frozen=True)
class Comparison:
    """A comparison of values that were really computed, and failed.

    `function` is what compared, or `assert`, `raise` or `exit` for arithmetic of the script's own. `vacuous` says why it could
    not show anything: empty, itself, all-nan. `written`: of the operands, those that a launch wrote. `sources` is a digest of
    the statements that the operands come from, `program` one of the kernels that wrote them, both without numbers. `garbage`:
    buffers that such a kernel reads before it writes them, or uses outside their extents.
    """

    function: str
    shape: tuple[int, ...] = ()
    dtype: str = ""
    tolerance: str = ""
    vacuous: str = ""
    pattern: Mismatch | None = None
    written: tuple[Output, ...] = ()
    sources: str = ""
    program: str = ""
    garbage: tuple[str, ...] = ()


@dataclass(frozen=True)
class ErrorRecord:
    """One error, however it was seen: as an event of the observed process, or read out of text.

    `frames` run from the outermost call to the raising one, Python and C++ in one list. `causes` holds the
    exceptions behind this one (`__cause__`, `__context__`, or the inner reason an outer message hides),
    nearest first. `origin` says whether the harness saw it or a reader found it in text.
    """

    kind: str  # exception | compiler | signal | timeout | check
    type: str
    message: str
    frames: tuple[Frame, ...] = ()
    phase: str | None = None  # what the subject was doing: import, build, lower, codegen, device, load, call, launch
    stage: str | None = None
    pass_name: str | None = None
    causes: tuple[ErrorRecord, ...] = ()
    quote: Quote | None = None
    kernel: str | None = None
    origin: str = "text"  # event | text
    #: the subject went on after it (caught, or printed only)
    handled: bool = False
    #: it was caught, and the same kernel was built later: a configuration that was tried, not a fault
    recovered: bool = False
    #: why the virtual device, and not the script, may have caused it
    suspect: str | None = None
    #: an import that would have failed was answered by a stand-in, and the script went on
    stubbed: bool = False
    #: the run did not come so far: seen only when the kernel was lowered again
    latent: bool = False
    #: another program than the script and the tools that build its kernels, where the text around the message shows one
    printed_by: str | None = None
    #: the failed comparison that the error rests on
    comparison: Comparison | None = None
    #: the script ended itself for a reason that no value of a kernel is part of
    regardless: bool = False
    #: it ended itself on a comparison of values that the virtual device made up
    on_made_up: bool = False
    #: lines of the user's file that the error text itself names: `--> file:line:col`, nvcc `file(line)`
    named: tuple[Location, ...] = ()
    #: names of buffers and variables that the text mentions
    mentions: tuple[str, ...] = ()
    #: how this record relates to the one whose `causes` hold it: cause (`raise … from`), context (`During
    #: handling`), inner (its message contains this one), group (a member of an exception group)
    relation: str | None = None


@dataclass(frozen=True)
class WarningRecord:
    """A warning that speaks about the author's program, although the exit status may be 0."""

    text: str
    origin: str = "tilelang"  # tilelang | python | nvcc | other
    at: Location | None = None
    quote: Quote | None = None
    kernel: str | None = None


@dataclass(frozen=True)
class Fact:
    """One measured or computed value. `about` is `run`, `kernel:ID`, `launch:ID` or `comparison:ID`."""

    name: str
    value: Any
    about: str = "run"
    unit: str | None = None
    caliber: Caliber = Caliber.OBSERVED
    env: str = "e1"
    source: str = ""
    step: int = 0


@dataclass(frozen=True)
class Fix:
    title: str
    detail: str = ""
    patch: str | None = None
    verified: str = "not-run"  # passed | failed | not-run
    level: str | None = None  # builds | matches | faster
    by: str | None = None


@dataclass(frozen=True)
class SwitchSetting:
    """A switch of the compiler or of the launch, set differently: `was` and `now` as one would write them.

    `effect` says what it does to the result of a correct kernel, `cost` what one who leaves it set pays. `line` is where
    the script writes it, if that is known.
    """

    what: str
    was: str
    now: str
    effect: str  # preserves | reorders-floats | changes-result
    cost: str = ""
    file: str | None = None
    line: int | None = None


@dataclass(frozen=True)
class SwitchSet:
    """Settings with which a fault goes, none of which can be left out: an experiment, made twice.

    `passes` are those that the switches govern, as far as that is known. `blame` says in a sentence what the experiments
    show of the pass that fails. `level`: how far the kernel then comes, lowers (source is generated) or builds (the device
    compiler takes it).
    """

    settings: tuple[SwitchSetting, ...]
    effect: str
    passes: tuple[str, ...] = ()
    blame: str = ""
    level: str = "lowers"


@dataclass(frozen=True)
class Neighbour:
    """The nearest value of one thing with which the whole kernel comes through, everything else unchanged."""

    kind: str  # threads | num_stages | architecture | dtype | extent
    what: str
    was: str
    now: str


@dataclass(frozen=True)
class Finding:
    """What a rule, or the fallback classification, makes of the facts."""

    state: State
    category: Category | None
    title: str
    summary: str
    rule: str | None = None
    cause: str | None = None
    stage: str | None = None
    location: Location | None = None
    labels: tuple[Label, ...] = ()
    quote: Quote | None = None
    owner: Owner = Owner.UNKNOWN
    confidence: Confidence = Confidence.POSSIBLE
    signature: str = ""
    level: str = "fault"  # fault | advice
    #: the script caught the error and ended of another one, which comes first
    passed: bool = False
    about: str = "run"
    why: str = ""
    known_issues: tuple[dict[str, Any], ...] = ()
    fixes: tuple[Fix, ...] = ()
    captures: dict[str, Any] = field(default_factory=dict)
    explains: tuple[str, ...] = ()
    #: what makes the fault go, and the nearest values that work, by experiments
    switches: tuple[SwitchSet, ...] = ()
    neighbours: tuple[Neighbour, ...] = ()


@dataclass(frozen=True)
class Step:
    """One step of the walk, as the report shows it."""

    node: str
    tool: str
    about: str = "run"
    env: str = "e1"
    status: StepStatus = StepStatus.RAN
    outcome: StepOutcome = StepOutcome.UNKNOWN
    why: str = ""
    seconds: float = 0.0
    command: str = ""
    elsewhere: str | None = None
    number: int = 0
    detail: str = ""


@dataclass(frozen=True)
class NotChecked:
    what: str
    why: str
    command: str | None = None


@dataclass(frozen=True)
class Environment:
    id: str
    python: str = ""
    tilelang: str | None = None
    torch: str | None = None
    ran_on: str = "none"  # virtual:ARCH | cpu-twin | cuda:N | none
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Artifact:
    """A file that a step left in the case. `picture` is what it shows, if that is small enough for a report."""

    path: str
    kind: str
    sha256: str
    picture: str = ""


@dataclass(frozen=True)
class FaultKey:
    """The identity of a fault, by which the oracle tells the same fault from another one.

    `raiser` is the innermost frame outside the user's files (package path and function, never a line);
    `operands` are the values a rule captured.
    """

    kind: str  # exception | signal | timeout | mismatch | warning
    exception: str = ""
    raiser: str = ""
    pass_name: str = ""
    rule: str = ""
    callee: str = ""
    operands: dict[str, Any] = field(default_factory=dict)
    text: str = ""  # the decisive line with numbers and generated names blanked


# --------------------------------------------------------------------------------------------------------
# The kernel record: a tile program as plain data, written by the harness, read by lints, roofline and rules.


@dataclass(frozen=True)
class Place:
    """A source position; macro-expanded statements list the call site first, then inner places."""

    file: str
    line: int


@dataclass(frozen=True)
class BufferInfo:
    """A buffer of the kernel. `shape` holds integers, or strings for symbolic extents; `bytes` is None then."""

    name: str
    scope: str  # global | shared | shared.dyn | local.fragment | local | local.var | shared.barrier | shared.tmem …
    dtype: str
    shape: tuple[int | str, ...]
    bits: int = 0  # of one element
    bytes: int | None = None
    param: bool = False
    at: Place | None = None
    #: name is unique within the kernel; the name the author wrote, if the builder had to rename
    source_name: str | None = None
    #: the buffer whose memory this one looks at in another shape or type (`T.reshape`, `T.view`)
    alias_of: str | None = None


@dataclass(frozen=True)
class Access:
    """One read or write of a buffer region.

    Per dimension: the printed index (`index`), the number of elements touched from there (`extent`, 1 for a
    scalar access, None if symbolic) and the inclusive range of the index over all enclosing loops (`low`,
    `high`, None if unbounded). `exact` says the range is attained at both ends (an affine index in
    independent loop variables); `guarded` says an enclosing `if` or predicate may exclude some of it.
    """

    buffer: str
    index: tuple[str, ...]
    extent: tuple[int | None, ...]
    low: tuple[int | None, ...]
    high: tuple[int | None, ...]
    exact: bool = False
    guarded: bool = False
    mode: str = "read"  # read | write | readwrite


@dataclass(frozen=True)
class Loop:
    var: str
    kind: str  # serial | parallel | pipelined | persistent | unrolled | vectorized | thread
    min: int | str
    extent: int | str
    annotations: dict[str, Any] = field(default_factory=dict)  # num_stages, order, stage, …


@dataclass(frozen=True)
class TileOp:
    """A call of a tile operator. `name` is its short name (`copy`, `gemm`, `fill`, `reduce`, `atomic_add`…)."""

    name: str
    args: tuple[str, ...] = ()  # printed
    params: dict[str, Any] = field(default_factory=dict)  # plain attributes that could be decoded


@dataclass(frozen=True)
class Statement:
    """A node of the tile program. `id` is a path of child numbers, `"0.2.1"`, stable for one PrimFunc."""

    id: str
    kind: str  # for | if | op | store | bind | attr | while | alloc | call | block | return
    at: Place | None = None
    text: str = ""  # one printed line
    loop: Loop | None = None
    op: TileOp | None = None
    condition: str | None = None
    #: for kind "if": the condition depends on a thread index or on loop variables bound to threads
    divergent: bool | None = None
    accesses: tuple[Access, ...] = ()
    body: tuple[Statement, ...] = ()
    orelse: tuple[Statement, ...] = ()
    via: tuple[Place, ...] = ()  # for statements out of a macro or library helper: the places below `at`


@dataclass(frozen=True)
class Launch:
    grid: tuple[int | str, ...] = ()
    threads: tuple[int | str, ...] = ()
    cluster: tuple[int, ...] = ()
    at: Place | None = None


@dataclass(frozen=True)
class KernelRecord:
    """A captured kernel: its interface, buffers, launch and tile program.

    `shared_bytes` is the dynamic shared memory the lowered kernel asks for (after multi-buffering and
    reuse), None before lowering or if unknown.
    """

    name: str
    target: dict[str, Any] = field(default_factory=dict)
    params: tuple[dict[str, Any], ...] = ()
    buffers: tuple[BufferInfo, ...] = ()
    launch: Launch = field(default_factory=Launch)
    statements: tuple[Statement, ...] = ()
    annotations: tuple[dict[str, Any], ...] = ()
    pass_configs: dict[str, Any] = field(default_factory=dict)
    out_idx: tuple[int, ...] = ()
    shared_bytes: int | None = None
    #: every launch of a function that has several; `launch` is the first
    launches: tuple[Launch, ...] = ()
    schema: str = KERNEL_SCHEMA


# --------------------------------------------------------------------------------------------------------

T = TypeVar("T")


def to_json(value: Any) -> Any:
    """Turn dataclasses, enums and tuples into what `json.dumps` takes; the order of fields is kept."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_json(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(k): to_json(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(v) for v in value]
    if isinstance(value, StrEnum):
        return str(value)
    return value


def from_json(cls: type[T], data: Any) -> T:
    """Rebuild a dataclass of this module from `to_json` output.

    Raises `TypeError` or `ValueError` where the data cannot be an instance of `cls`; missing fields take their
    defaults, unknown keys are ignored.
    """
    return typing.cast(T, _decode(cls, data))


_HINTS: dict[type, dict[str, Any]] = {}


def _decode(hint: Any, data: Any) -> Any:
    if hint is Any:
        return data
    origin = typing.get_origin(hint)
    if origin in (types.UnionType, typing.Union):
        return _decode_union(typing.get_args(hint), data)
    if origin is tuple:
        if not isinstance(data, (list, tuple)):
            raise TypeError(f"expected a list, got {type(data).__name__}")
        return tuple(_decode(typing.get_args(hint)[0], item) for item in data)
    if origin is dict:
        if not isinstance(data, dict):
            raise TypeError(f"expected an object, got {type(data).__name__}")
        value_hint = typing.get_args(hint)[1]
        return {k: _decode(value_hint, v) for k, v in data.items()}
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        if not isinstance(data, dict):
            raise TypeError(f"expected an object for {hint.__name__}, got {type(data).__name__}")
        hints = _HINTS.setdefault(hint, typing.get_type_hints(hint))
        return hint(**{k: _decode(hints[k], v) for k, v in data.items() if k in hints})
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return hint(data)
    if hint is float and isinstance(data, int) and not isinstance(data, bool):
        return float(data)
    if isinstance(hint, type) and not isinstance(data, hint):
        raise TypeError(f"expected {hint.__name__}, got {type(data).__name__}")
    return data


def _decode_union(options: tuple[Any, ...], data: Any) -> Any:
    if data is None and type(None) in options:
        return None
    failure: Exception | None = None
    for option in options:
        if option is type(None):
            continue
        try:
            return _decode(option, data)
        except (TypeError, ValueError) as error:
            failure = error
    raise failure or TypeError(f"no value expected, got {data!r}")
