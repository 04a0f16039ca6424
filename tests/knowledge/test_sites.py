"""The inventory of error sites: every text in it finds its stage, in whatever shape a log shows it, and no other text does."""

from __future__ import annotations

import random
import re
import textwrap
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triage.findings import records_of_text
from triage.knowledge.coverage import error_of, spell
from triage.knowledge.files import rules_root
from triage.knowledge.sites import Pieces, Site, Sites
from triage.knowledge.stages import StageGuess, Stages
from triage.model import ErrorRecord, Frame, Owner
from triage.ownership import owner_by_path
from triage.readers import decisive, read_output

SITES = Sites.load(rules_root() / "reference" / "sites.jsonl")
STAGES = Stages.load(rules_root() / "reference" / "stages.toml")
WITH_TEXT = [site for site in SITES if site.pieces.fixed]
#: the stages in which one and the same fixed text is printed
STAGES_OF_TEXT: dict[Pieces, set[str | None]] = {}
for one in WITH_TEXT:
    STAGES_OF_TEXT.setdefault(one.pieces, set()).add(one.stage)


def bare(site: Site, number: int = 0) -> ErrorRecord:
    """The site as a text without any frame, its operands filled in at random."""
    error = error_of(site, number)
    return ErrorRecord(error.kind, error.type, error.message)


def verdict(site: Site, guess: StageGuess) -> str:
    if guess.stage == site.stage:
        return "right"
    if guess.stage is None and site.stage in guess.candidates:
        return "candidate"
    return "unknown" if guess.stage is None and not guess.candidates else "wrong"


@pytest.mark.parametrize("number", [0, 1])
def test_stage_with_frames(number: int) -> None:
    """With the raising frame, as far as TileLang prints one; the generated checks of a launch have none."""
    verdicts = Counter(verdict(site, STAGES.stage_of(error_of(site, number))) for site in WITH_TEXT if site.stage)
    assert verdicts["right"] / verdicts.total() >= 0.98, verdicts
    assert not verdicts["wrong"], verdicts


@pytest.mark.parametrize("number", [0, 1])
def test_stage_by_text_alone(number: int) -> None:
    """Right where the text belongs to one stage; else the right one is among the candidates; never a wrong one."""
    sites = [site for site in WITH_TEXT if site.stage]
    guesses = [(site, STAGES.stage_of(bare(site, number))) for site in sites]
    wrong = [(site.file, site.line, guess) for site, guess in guesses if verdict(site, guess) == "wrong"]
    assert not wrong
    of_one_stage = [verdict(site, guess) for site, guess in guesses if len(STAGES_OF_TEXT[site.pieces]) == 1]
    assert of_one_stage.count("right") / len(of_one_stage) >= 0.99, Counter(of_one_stage)
    of_several = [verdict(site, guess) for site, guess in guesses if len(STAGES_OF_TEXT[site.pieces]) > 1]
    assert of_several.count("unknown") / len(of_several) <= 0.02, Counter(of_several)


def traceback_of(error: ErrorRecord) -> str:
    prefix = "tvm.error." if error.type == "InternalError" else ""
    return f"Traceback (most recent call last):\n{prefix}{error.type}: {error.message}\n"


def colored(text: str) -> str:
    return "".join(f"\x1b[31m{line}\x1b[0m\n" for line in text.splitlines())


def stamped(text: str) -> str:
    return "".join(f"2026-08-14T09:12:0{n % 10}.1234567Z {line}\n" for n, line in enumerate(text.splitlines()))


def under_pytest(text: str) -> str:
    return "".join(f"E   {line}\n" for line in text.splitlines() if not line.startswith("Traceback"))


def wrapped(text: str) -> str:
    return "\n".join(textwrap.fill(line, 80, break_on_hyphens=False) for line in text.splitlines()) + "\n"


def in_shell(before: str, after: str) -> Callable[[str], str]:
    return lambda text: f"{before}\n{text}{after}\n"


SHAPES: dict[str, Callable[[str], str]] = {
    "plain": lambda text: text,
    "colors": colored,
    "timestamps": stamped,
    "pytest": under_pytest,
    "wrapped": wrapped,
    "german shell": in_shell("$ python kernel.py", "Speicherzugriffsfehler (Speicherabzug geschrieben)"),
    "chinese shell": in_shell("(base) 用户@主机:~$ python kernel.py", "bash: 命令未找到"),
    "french shell": in_shell("+ python kernel.py", "make: *** [Makefile:3 : tout] Erreur 1"),
}


def stages_of(log: str) -> list[StageGuess]:
    return [STAGES.stage_of(decisive(error)) for error in read_output(log, "log", owner_by_path).errors]


@pytest.mark.parametrize("shape", SHAPES)
def test_stage_in_any_log(shape: str) -> None:
    """A sample of all sites, printed as a traceback without frames and shown in the shapes of real logs."""
    sample = random.Random(7).sample([s for s in WITH_TEXT if s.stage and s.type not in ("static_assert", "")], 250)
    verdicts: Counter[str] = Counter()
    wrong = []
    for site in sample:
        guesses = stages_of(SHAPES[shape](traceback_of(bare(site, 1))))
        said = [verdict(site, guess) for guess in guesses] or ["not read"]
        verdicts[said[0]] += 1
        if said[0] == "wrong":
            wrong.append((site.file, site.line, guesses[0]))
    assert not wrong
    assert (verdicts["right"] + verdicts["candidate"]) / len(sample) >= 0.97, verdicts


OTHER_TEXTS = [
    ("ValueError", "expected 3 values, got 4"),
    ("AssertionError", ""),
    ("AttributeError", "'Var' object has no attribute 'scope'"),
    ("TypeError", "f() got multiple values for argument 'x'"),
    ("RuntimeError", "stack expects each tensor to be equal size, but got [2] at entry 0 and [3] at entry 1"),
    ("KeyError", "'A_shared'"),
    ("TypeError", "unsupported operand type(s) for +: 'int' and 'str'"),
    ("InternalError", "Check failed: (my_own_invariant > 3) is false: "),
    ("RuntimeError", "Triton Error [CUDA]: invalid argument"),
    ("OSError", "[Errno 28] No space left on device"),
    ("", "make: *** [all] Error 2"),
]


@pytest.mark.parametrize(("type_", "message"), OTHER_TEXTS)
def test_other_texts_are_of_no_site(type_: str, message: str) -> None:
    assert not SITES.find(type_, message).sites


def test_a_short_sentence_tells_its_site_only_where_a_text_begins_with_it() -> None:
    quoted = SITES.find("", "condition is not a boolean: T.Ramp(t - 2, 1, 4) >= T.Broadcast(0, 4)")
    assert quoted.stages == ("tile-op",)
    assert not SITES.find("", "the reviewer says that the condition is not a boolean: x").sites


@settings(max_examples=200, deadline=None)
@given(st.text(st.characters(codec="utf-8"), max_size=200))
def test_random_texts_are_of_no_site(message: str) -> None:
    assert not SITES.find("ValueError", message).sites


def test_the_owner_follows_from_the_site() -> None:
    """What speaks about the program is the kernel's, what the compiler asks of itself the compiler's; else nobody's."""
    author = next(s for s in WITH_TEXT if s.author and s.file == "src/op/gemm.cc")
    internal = next(
        s
        for s in WITH_TEXT
        if not s.author and s.check and s.file.startswith("src/transform/") and len(STAGES_OF_TEXT[s.pieces]) == 1
    )
    assert STAGES.stage_of(error_of(author, 1)).owner_hint is Owner.KERNEL
    assert STAGES.stage_of(error_of(internal, 1)).owner_hint is Owner.COMPILER
    frame = Frame("/home/user/venv/lib/python3.11/site-packages/tilelang/language/copy_op.py", 3, "f", user=False)
    assert (
        STAGES.stage_of(ErrorRecord("exception", "ValueError", "no such words", frames=(frame,))).owner_hint
        is Owner.UNKNOWN
    )


def test_a_raising_frame_elsewhere_rules_the_site_out() -> None:
    """The same words raised by the user's own line, or by another library, are not TileLang's."""
    site = next(s for s in WITH_TEXT if s.file == "tilelang/language/copy_op.py" and len(s.pieces.fixed) > 1)
    text = spell(site.template, random.Random(1), by_name=True)
    for frame in (
        Frame("kernel.py", 3, "f", "f()", user=True),
        Frame("/v/lib/python3.11/site-packages/torch/x.py", 3, "f", user=False),
    ):
        guess = STAGES.stage_of(ErrorRecord("exception", site.type, text, frames=(frame,)))
        assert (guess.stage, guess.candidates) == (None, ())


def test_a_function_of_a_frame_without_file_chooses_among_sites() -> None:
    by_pieces: dict[Pieces, list[Site]] = {}
    for site in WITH_TEXT:
        by_pieces.setdefault(site.pieces, []).append(site)
    several = [
        sites for sites in by_pieces.values()
        if len({s.stage for s in sites}) == len(sites) > 1 and len({s.function for s in sites}) == len(sites)
        and all(s.file.startswith("src/") and s.function and s.type == "InternalError" for s in sites)
    ]  # fmt: skip
    assert several
    for site in several[0]:
        error = bare(site, 1)
        frame = Frame("<unknown>", 0, f"tvm::tl::{site.function}(tvm::tirx::Stmt)", lang="cxx", user=False)
        assert not STAGES.stage_of(error).stage
        assert STAGES.stage_of(ErrorRecord(error.kind, error.type, error.message, frames=(frame,))).stage == site.stage


def test_records_of_a_bare_text_say_their_stage() -> None:
    site = next(s for s in WITH_TEXT if s.file == "src/cuda/op/copy.cc" and s.author)
    (record,) = [r for r in records_of_text(traceback_of(bare(site, 1)), "text", STAGES) if r.error]
    assert record.fields["error.stage"] == "tile-op"


def test_the_inventory_is_whole() -> None:
    assert len(SITES.all) == 4597
    assert sum(site.author for site in SITES) == 2603
    assert not [site for site in SITES if re.search(r"/home/(?!user)|/opt/", site.template)]
