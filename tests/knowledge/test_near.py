"""How good near misses are: the decisive lines of all hits, changed as wordings change between versions."""

from __future__ import annotations

import random
import re
import string
from collections.abc import Callable
from functools import cache

import pytest
from rule_samples import ROOT

from triage.findings import records_of_text
from triage.knowledge.fixtures import fixture_paths, read_fixture
from triage.knowledge.load import load_rules
from triage.knowledge.match import search
from triage.knowledge.near import NearRules, stem
from triage.knowledge.stages import Stages

RULES = load_rules(ROOT)
NEAR = NearRules(RULES)
STAGES = Stages.load(ROOT / "reference" / "stages.toml")
#: the share of changed texts for which the rule must be among the first three
GOOD = 0.9
#: … where three changes come together
GOOD_AT_ONCE = 0.8
#: words as another version may have them; not the table of the code, whose words these partly are
OTHER_WORDS = {
    "shape": "dimension", "must": "has to", "failed": "did not pass", "expected": "wanted", "got": "received",
    "buffer": "tensor", "invalid": "illegal", "unsupported": "not handled", "cannot": "could not", "found": "seen",
    "argument": "parameter", "mismatch": "difference", "dtype": "data type", "available": "usable", "undefined": "unknown",
    "error": "problem", "should": "ought to", "requires": "needs", "inside": "within", "loop": "iteration",
    "missing": "absent", "inconsistent": "diverging", "layout": "placement",
}  # fmt: skip
FILLERS = ("currently", "the", "internal", "given", "tile", "specified", "really")

Mutation = Callable[[str, random.Random], str]


def synonyms(text: str, _: random.Random) -> str:
    for word, other in OTHER_WORDS.items():
        text = re.sub(rf"\b{word}\b", other, text, flags=re.IGNORECASE)
    return text


def operator_renamed(text: str, _: random.Random) -> str:
    return re.sub(r"\bT\.(\w+)", r"T.\1_v3", text)


def words_inserted(text: str, chance: random.Random) -> str:
    words = text.split(" ")
    for _ in range(max(1, len(words) // 5)):
        words.insert(chance.randrange(1, len(words) + 1), chance.choice(FILLERS))
    return " ".join(words)


def words_dropped(text: str, chance: random.Random) -> str:
    words = text.split(" ")
    for _ in range(max(1, len(words) // 6)):
        if len(words) > 2:
            words.pop(chance.randrange(1, len(words)))
    return " ".join(words)


def order_changed(text: str, _: random.Random) -> str:
    clauses = re.split(r"(?<=[,:;.]) ", text)
    if len(clauses) < 2:
        words = text.split(" ")
        return " ".join(words[len(words) // 2 :] + words[: len(words) // 2])
    return " ".join(clauses[1:] + clauses[:1])


def quoted_otherwise(text: str, _: random.Random) -> str:
    return re.sub(r"['\"`]([^'\"`]*)['\"`]", r"<\1>", text)


def numbers_named(text: str, chance: random.Random) -> str:
    return re.sub(r"\b\d+\b", lambda _: chance.choice(["n", "block_M", "extent", "threads"]), text)


def prefix_changed(text: str, _: random.Random) -> str:
    return re.sub(r"^[\w.]+: ", "tilelang.Error [E0042]: ", text).replace("Check failed", "TL_CHECK violated")


def names_split(text: str, _: random.Random) -> str:
    camel = re.sub(r"_([a-z])", lambda found: found[1].upper(), text)
    return re.sub(r"([a-z])([A-Z])", lambda found: f"{found[1]}_{found[2].lower()}", camel)


def punctuated_otherwise(text: str, _: random.Random) -> str:
    return text.replace(" = ", "=").replace(": ", " - ")


def three_at_once(text: str, chance: random.Random) -> str:
    return words_dropped(synonyms(prefix_changed(text, chance), chance), chance)


SINGLE: list[Mutation] = [
    synonyms, operator_renamed, words_inserted, words_dropped, order_changed, quoted_otherwise, numbers_named,
    prefix_changed, names_split, punctuated_otherwise,
]  # fmt: skip


@cache
def decisive_lines() -> tuple[tuple[str, str], ...]:
    """The code of each rule that reads text, with the line of its first hit that matched."""
    found: dict[str, str] = {}
    for rule in RULES:
        logs = [p for p in fixture_paths(rule) if p.name.startswith("hit-") and p.suffix == ".log"]
        for fixture in [read_fixture(p, lambda text, name: records_of_text(text, name, STAGES)) for p in logs[:1]]:
            for record, _ in fixture.trials(rule)[:1]:
                text = record.text or ""
                match = search(rule.match.text or "", text) if rule.match.text else None
                if match:
                    end = text.find("\n", match.end())
                    start = text.rfind("\n", 0, match.start()) + 1
                    found[rule.code] = text[start : end if end >= 0 else len(text)]
    return tuple(found.items())


def among_first_three(mutation: Mutation) -> tuple[int, int]:
    """For how many texts that the rule no longer fits it is among the first three near misses, and of how many."""
    chance, good, tried = random.Random(mutation.__name__), 0, 0
    for code, line in decisive_lines():
        text = mutation(line, chance)
        possible = [rule for code in RULES.scanner.possible(text) if (rule := RULES.get(code))]
        fitting = {rule.code for rule in possible if search(rule.match.text or "", text)}
        if code not in fitting:
            tried += 1
            good += code in [miss.rule.code for miss in NEAR.nearest(text, fitting, most=3)]
    return good, tried


@pytest.mark.parametrize("mutation", SINGLE, ids=lambda mutation: mutation.__name__)
def test_a_rule_is_found_again_when_the_wording_changes(mutation: Mutation) -> None:
    good, tried = among_first_three(mutation)
    print(f"{mutation.__name__}: {good} of {tried}")
    assert tried > 10 and good >= GOOD * tried


def test_a_rule_is_found_again_when_three_things_change() -> None:
    good, tried = among_first_three(three_at_once)
    print(f"three at once: {good} of {tried}")
    assert tried > 100 and good >= GOOD_AT_ONCE * tried


#: errors of other compilers, linkers, runtimes and tools, and prose
OTHERS = """
error[E0382]: borrow of moved value: `tokens`
error[E0277]: the trait bound `Foo: Serialize` is not satisfied
error TS2345: Argument of type 'string' is not assignable to parameter of type 'number'.
java.lang.NullPointerException: Cannot invoke "String.length()" because "name" is null
Exception in thread "main" java.lang.ArrayIndexOutOfBoundsException: Index 5 out of bounds for length 3
ld: symbol(s) not found for architecture arm64
make: *** No rule to make target 'all'.  Stop.
fatal: not a git repository (or any of the parent directories): .git
CMake Error at CMakeLists.txt:12 (find_package): By not providing "FindFoo.cmake" in CMAKE_MODULE_PATH
ERROR 1064 (42000): You have an error in your SQL syntax near 'FROM users' at line 1
E: Unable to locate package libfoo-dev
panic: runtime error: slice bounds out of range [5:3]
npm ERR! code ERESOLVE npm ERR! ERESOLVE unable to resolve dependency tree
pandas.errors.MergeError: No common columns to perform merge on. Merge options: left_on=None
ValueError: operands could not be broadcast together with shapes (3,) (4,)
numpy.linalg.LinAlgError: Singular matrix
loc("a.mlir":3:10): error: 'arith.addi' op requires the same type for all operands and results
triton.compiler.errors.CompilationError: at 12:4: Cannot make_shape_compatible: incompatible dimensions at index 0
jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory allocating 1073741824 bytes.
LLVM ERROR: Cannot select: intrinsic %llvm.x86.sse42.crc32.64.64
Undefined control sequence. l.42 \\foo
docker: Error response from daemon: pull access denied for foo, repository does not exist
PermissionError: [WinError 32] The process cannot access the file because it is being used by another process
slurmstepd: error: Detected 1 oom-kill event(s) in step 123.0
The meeting was moved to Thursday because the room is not available before noon.
We measured the temperature of the lake at five depths, and found no difference between the shores.
A parser must read the whole input before it can tell that a bracket is missing.
"""


@pytest.mark.parametrize("text", OTHERS.strip().splitlines())
def test_what_others_say_is_near_no_rule(text: str) -> None:
    near = NEAR.nearest(text)
    assert not near or near[0].share < 0.7, (near[0].rule.code, near[0].share)


@pytest.mark.parametrize("seed", range(20))
def test_random_words_are_near_nothing(seed: int) -> None:
    chance = random.Random(seed)
    words = ["".join(chance.choices(string.ascii_lowercase, k=chance.randint(2, 9))) for _ in range(300)]
    assert not NEAR.nearest("\n".join(" ".join(words[at : at + 12]) for at in range(0, 300, 12)))


def test_what_is_missing_is_said_in_the_words_of_both() -> None:
    (miss, *_) = NEAR.nearest("AssertionError: T.gemm K dimension check failed: K_A = 32, K_B = 64")
    assert miss.rule.code == "TLG014" and miss.line == 1
    assert str(miss.missing[0]) == (
        "expected `K shape check failed: K_A`, the text has `K dimension check failed: K_A`"
    )


def test_a_choice_of_an_expression_is_made_for_the_text() -> None:
    """Of a rule with many operators, the one that the text has counts, and so its rule is nearer than one of no operator."""
    text = "TypeError: annotate_layout() got unexpected keyword arguments: pad"
    assert [miss.rule.code for miss in NEAR.nearest(text)][:2] == ["TLG004", "TLG137"]


@pytest.mark.parametrize(
    "family", ["infer inferred inference infers", "divide divides divided", "require required requires"]
)
def test_words_of_a_family_have_one_stem(family: str) -> None:
    assert len({stem(word) for word in family.split()}) == 1


def test_the_line_is_told_in_a_long_text() -> None:
    text = "step 1: loss 0.25\n" * 200 + "no layout that is available could be found for acc\n" + "bye\n" * 150
    (miss, *_) = NEAR.nearest(text)
    assert (miss.rule.code, miss.line) == ("TLG001", 201)


K_MISMATCH = "AssertionError: T.gemm K shape check failed: K_A = "


@pytest.mark.parametrize(
    ("text", "differs"),
    [
        (f"{K_MISMATCH}32, K_B = ", "the text breaks off behind `, K_B =`"),
        (f"{K_MISMATCH}\n, K_B = 3", "all its words are there in order, but not what it expects between or behind them"),
        ("AssertionError: , K_B = 3, in T.gemm K shape check failed: K_A = 32", "all its words are there, in another order"),
    ],
)  # fmt: skip
def test_a_text_with_all_words_is_told_how_it_differs(text: str, differs: str) -> None:
    (miss,) = [miss for miss in NEAR.nearest(text) if miss.rule.code == "TLG014"]
    assert (miss.missing, miss.differs) == ((), differs)


def test_words_behind_a_number_without_end_are_read() -> None:
    (miss,) = [m for m in NEAR.nearest(f"{K_MISMATCH}{'9' * 50_000}, K_B = ") if m.rule.code == "TLG014"]
    assert (miss.missing, miss.differs) == ((), "the text breaks off behind `, K_B =`")


def test_a_word_of_any_error_stands_for_no_rare_one() -> None:
    text = 'File "app.py", line 4, in connect\n    raise AssertionError("K_A = 32, K_B = 128")\nAssertionError: K_A = 32, K_B = 128'
    assert "TLE091" not in [miss.rule.code for miss in NEAR.nearest(text)]
