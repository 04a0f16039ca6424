"""What each strategy proposes, on source texts written in different styles. Pure: nothing is run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from triage.fixes.nicknames import NicknameTableError, load_nicknames
from triage.fixes.proposal import Question
from triage.fixes.strategies import STRATEGIES, applicable, propose
from triage.fixes.tree import Sources
from triage.fixes.vocabulary import Parameter, Vocabulary
from triage.knowledge.files import rules_root
from triage.model import Access as Touched
from triage.model import Finding, KernelRecord, Launch, Location, State, Statement

GEMM = tuple(
    Parameter(name, "POSITIONAL_OR_KEYWORD", required)
    for name, required in (("A", True), ("B", True), ("C", True), ("transpose_A", False), ("transpose_B", False))
)
VOCABULARY = Vocabulary(
    names={"tilelang.language": ("alloc_fragment", "alloc_shared", "ceil", "ceildiv", "clear", "copy", "exp", "exp2")},
    parameters={
        "gemm": GEMM,
        "Kernel": (Parameter("blocks", "VAR_POSITIONAL", True), Parameter("threads", "KEYWORD_ONLY", False)),
    },
    dtypes=("float16", "bfloat16", "float32", "int8", "float16x2"),
    options=("tl.disable_wgmma", "tl.disable_tma_lower"),
)

NICKNAMES = load_nicknames(rules_root() / "reference" / "nicknames.toml")


def proposed(strategy: str, text: str, captures: dict | None = None, fields: dict | None = None, **more) -> list[str]:
    """The texts that a strategy proposes for the line that ends in `# HERE`, the mark taken off."""
    lines = text.splitlines()
    line = next(n for n, one in enumerate(lines, 1) if one.endswith("# HERE"))
    clean = text.replace("  # HERE", "")
    sources = Sources({"k.py": clean})
    at = Location("k.py", line)
    finding = Finding(State.LOCALIZED, None, "", "", rule="TLG000", location=at, captures=captures or {})
    question = Question(finding, sources, vocabulary=VOCABULARY, nicknames=NICKNAMES, fields=fields or {}, **more)
    texts = [sources.apply(p.edits)["k.py"] for p in propose([strategy], question)]
    for one in texts:
        compile(one, "k.py", "exec")  # a patch that is no Python is never worth a run
    return texts


def changed(before: str, after: str) -> list[str]:
    """The lines that only the later text has."""
    old = before.replace("  # HERE", "").splitlines()
    return [line.strip() for line in after.splitlines() if line not in old]


MATMUL = """\
import tilelang.language as T
def make(M, N, K, bm=128, bn=64, bk=32):
    @T.prim_func
    def main(A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"), C: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(N, bn), T.ceildiv(M, bm), threads=128) as (bx, by):
            a = T.alloc_shared((bm, bk), "float16")
            b = T.alloc_shared((bn, bk), "float16")
            c = T.alloc_fragment((bm, bn), "float32")
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(K, bk), num_stages=3):
                T.copy(A[by * bm, k * bk], a)
                T.copy(B[k * bk, bx * bn], b)
                T.gemm(a, b, c)  # HERE
            T.copy(c, C[by * bm, bx * bn])
    return main
"""


def test_swapping_a_tile_edits_its_allocation():
    lines = [changed(MATMUL, text) for text in proposed("swap-tile-dims", MATMUL)]
    assert ['b = T.alloc_shared((bk, bn), "float16")'] in lines


def test_a_shape_is_followed_to_the_name_that_holds_it():
    text = MATMUL.replace("a = T.alloc_shared((bm, bk)", "shape_a = (bk, bm)\n            a = T.alloc_shared(shape_a")
    assert ["shape_a = (bm, bk)"] in [changed(text, one) for one in proposed("swap-tile-dims", text)]


def test_operands_of_a_macro_are_followed_to_the_call():
    text = MATMUL.replace("                T.gemm(a, b, c)  # HERE\n", "                product(a, b, c)\n").replace(
        "def make(", "@T.macro\ndef product(x, y, z):\n    T.gemm(x, y, z)  # HERE\n\ndef make("
    )
    lines = [changed(text, one) for one in proposed("swap-tile-dims", text)]
    assert ['b = T.alloc_shared((bk, bn), "float16")'] in lines


def test_methods_of_a_class_are_functions_as_well():
    text = (
        "import tilelang.language as T\nclass Op:\n    def build(self, n):\n        @T.prim_func\n"
        "        def main(A: T.Tensor((n, n), 'float16')):\n            with T.Kernel(n) as b:\n"
        "                s = T.alloc_shared((n, 8), 'float16')\n                t = T.alloc_fragment((8, n), 'float16')\n"
        "                T.copy(s, t)  # HERE\n        return main\n"
    )
    assert ["t = T.alloc_fragment((n, 8), 'float16')"] in [changed(text, one) for one in proposed("copy-shape", text)]


def test_a_flag_is_added_and_one_that_is_there_is_turned():
    assert ["T.gemm(a, b, c, transpose_B=True)"] in [changed(MATMUL, t) for t in proposed("transpose-flag", MATMUL)]
    flagged = MATMUL.replace("T.gemm(a, b, c)", "T.gemm(a, b, c, transpose_B=True)")
    assert ["T.gemm(a, b, c, transpose_B=False)"] in [changed(flagged, t) for t in proposed("transpose-flag", flagged)]


def test_an_extent_is_taken_from_the_other_operand():
    text = MATMUL.replace("b = T.alloc_shared((bn, bk)", "b = T.alloc_shared((64, bn)")
    lines = [changed(text, one) for one in proposed("tile-extent", text, {"axis": "K"})]
    assert ['b = T.alloc_shared((bk, bn), "float16")'] in lines
    assert ['a = T.alloc_shared((bm, 64), "float16")'] in lines


@pytest.mark.parametrize(
    ("wrong", "right"), [("T.claer(c)", "T.clear(c)"), ("T.alloc_shred((8,), 'int8')", "T.alloc_shared((8,), 'int8')")]
)
def test_a_misspelt_attribute(wrong, right):
    text = f"import tilelang.language as T\nx = {wrong}  # HERE\n"
    name = wrong.split("(")[0].removeprefix("T.")
    captures = {"module": "tilelang.language", "attribute": name}
    assert changed(text, proposed("nearest-attribute", text, captures)[0]) == [f"x = {right}"]


def test_a_misspelt_import():
    text = "from tilelang.language import copi, clear  # HERE\n"
    captures = {"module": "tilelang.language", "name": "copi"}
    assert proposed("nearest-attribute", text, captures)[0] == "from tilelang.language import copy, clear\n"


def test_a_misspelt_variable_is_the_nearest_that_has_a_value_there():
    text = (
        "limit = 3\ndef f(block_M, block_N):\n    block_X = 1\n    return blok_M  # HERE\ndef g():\n    blok_MM = 1\n"
    )
    first, *_ = proposed("nearest-variable", text, {"name": "blok_M"})
    assert changed(text, first) == ["return block_M"]
    assert all("blok_MM" not in changed(text, one)[0] for one in proposed("nearest-variable", text, {"name": "blok_M"}))


def test_a_missing_import_goes_after_the_others():
    text = '"""About."""\nimport os\n\nx = torch.zeros(3)  # HERE\n'
    first, *_ = proposed("nearest-variable", text, {"name": "torch"})
    assert first == '"""About."""\nimport os\nimport torch\n\nx = torch.zeros(3)\n'


def test_a_keyword_is_the_nearest_that_is_not_given_yet():
    text = "T.gemm(a, b, c, transpose_A=True, trans_B=True)  # HERE\n"
    first, *_ = proposed("nearest-keyword", text, {"keyword": "trans_B", "function": "gemm"})
    assert first == "T.gemm(a, b, c, transpose_A=True, transpose_B=True)\n"


def test_a_keyword_of_a_function_of_the_script():
    text = "def make(rows, block_size=8):\n    pass\nmake(4, blok_size=2)  # HERE\n"
    first, *_ = proposed("nearest-keyword", text, {"keyword": "blok_size"})
    assert first.endswith("make(4, block_size=2)\n")


@pytest.mark.parametrize(
    ("access", "rank", "wanted"),
    [("c[i, j, 0]", 2, "c[i, j]"), ("c[0, i, j]", 2, "c[i, j]"), ("c[i]", 2, "c[i, j]"), ("v[i, j]", 1, "v[i]")],
)
def test_indices_are_dropped_and_added(access, rank, wanted):
    text = (
        "def f():\n    c = T.alloc_fragment((8, 4), 'float32')\n    v = T.alloc_fragment((8,), 'float32')\n"
        f"    for i, j in T.Parallel(8, 4):\n        x = {access}  # HERE\n"
    )
    captures = {"buffer": access[0], "rank": rank}
    assert [f"x = {wanted}"] in [changed(text, one) for one in proposed("index-rank", text, captures)]


def nearest_proposal(strategy: str, text: str, captures: dict) -> list[str]:
    """What the proposals with the least distance write in the marked line."""
    line = next(n for n, one in enumerate(text.splitlines(), 1) if one.endswith("# HERE"))
    sources = Sources({"k.py": text})
    finding = Finding(State.LOCALIZED, None, "", "", location=Location("k.py", line), captures=captures)
    found = list(propose([strategy], Question(finding, sources)))
    least = min(p.distance for p in found)
    return [p.title.split()[1] for p in found if p.distance == least]


@pytest.mark.parametrize(
    ("access", "rank", "nearest"),
    [
        ("x[r, 0, j]", 2, ["x[r,"]),  # no variable is lost
        ("x[r]", 2, ["x[r,"]),  # the loop over `cols` belongs to the dimension `cols`
        ("bias[i, j]", 1, ["bias[j]"]),  # and so here, where one variable has to go
    ],
)
def test_an_index_stands_where_its_loop_fits(access, rank, nearest):
    text = (
        "def f(rows, cols):\n    x = T.alloc_fragment((rows, cols), 'float32')\n"
        "    bias = T.alloc_fragment((cols,), 'float32')\n    r = 1\n    for i, j in T.Parallel(rows, cols):\n"
        f"        y = {access}  # HERE\n"
    )
    if access != "bias[i, j]":
        text = text.replace("for i, j in T.Parallel(rows, cols)", "for j in T.serial(cols)")
    assert nearest_proposal("index-rank", text, {"buffer": access.split("[")[0], "rank": rank}) == nearest


def test_slices_in_the_function_are_no_missing_indices():
    text = "def f(q, h):\n    for i in T.Parallel(8):\n        x = q[i] + h[0:8, i]  # HERE\n"
    texts = proposed("index-rank", text, {"buffer": "q", "rank": 2})
    assert all("q[0:8" not in one for one in texts)
    assert any("q[i, 0]" in one for one in texts)


def test_a_reduction_over_the_other_dimension_or_into_what_stays():
    text = (
        "def f(m, n):\n    x = T.alloc_fragment((m, n), 'float32')\n    y = T.alloc_fragment((n,), 'float32')\n"
        "    T.reduce_sum(x, y, dim=1)  # HERE\n"
    )
    lines = [changed(text, one) for one in proposed("reduce-shape", text)]
    assert ["T.reduce_sum(x, y, dim=0)"] in lines
    assert ["y = T.alloc_fragment((m,), 'float32')"] in lines


def test_types_of_operands_and_accumulators():
    text = MATMUL.replace('b = T.alloc_shared((bn, bk), "float16")', 'b = T.alloc_shared((bn, bk), dtype="bfloat16")')
    lines = [changed(text, one) for one in proposed("operand-dtype", text)]
    assert ['b = T.alloc_shared((bn, bk), dtype="float16")'] in lines
    text = MATMUL.replace('(bm, bn), "float32")', "(bm, bn), 'int8')")
    assert ["c = T.alloc_fragment((bm, bn), 'float32')"] in [
        changed(text, t) for t in proposed("accumulator-dtype", text)
    ]


def test_a_type_that_does_not_exist():
    text = "x = T.alloc_shared((8,), 'float17')  # HERE\ny = T.alloc_shared((8,), dtype=\"half\")\n"
    assert proposed("nearest-word", text, {"dtype": "float17"})[0] == text.replace("float17", "float16").replace(
        "  # HERE", ""
    )
    assert 'dtype="float16"' in proposed("nearest-word", text, {"dtype": "half"})[0]


@pytest.mark.parametrize("threads", ["100", "threads", "n_threads"])
def test_threads_are_set_where_the_number_stands(threads):
    text = f"def make(n_threads=100):\n    threads = 100\n    with T.Kernel(1, threads={threads}) as b:  # HERE\n        pass\n"
    first, *_ = proposed("threads", text)
    assert [line for line in changed(text, first) if "128" in line and "100" not in line]


def test_stages_go_down_and_become_whole_numbers():
    text = "def f(s=9):\n    for k in T.Pipelined(8, num_stages=s):  # HERE\n        pass\n"
    lines = [changed(text, one) for one in proposed("stages", text)]
    assert lines[:2] == [["def f(s=8):"], ["def f(s=7):"]]
    assert lines[-1] == ["def f(s=0):"]
    text = "for k in T.Pipelined(8, num_stages='2'):  # HERE\n    pass\n"
    assert proposed("stages", text)[0].startswith("for k in T.Pipelined(8, num_stages=2):")


def test_a_tile_size_is_changed_wherever_the_number_stands():
    text = MATMUL.replace("(bm, bk)", "(100, bk)").replace("(bm, bn)", "(100, bn)")
    first, *_ = proposed("tile-size", text, {"axis": "M", "extent": 100})
    assert changed(text, first) == [
        'a = T.alloc_shared((128, bk), "float16")', 'c = T.alloc_fragment((128, bn), "float32")'
    ]  # fmt: skip
    text = MATMUL.replace("bm=128", "bm=100")
    first, *_ = proposed("tile-size", text, {"axis": "M", "extent": 100})
    assert changed(text, first) == ["def make(M, N, K, bm=128, bn=64, bk=32):"]


def test_an_architecture_gets_its_letter_once():
    text = "a = '{\"arch\": \"sm_90\"}'  # HERE\nb = 'cuda -arch=sm_90a'\nc = 'sm_900'\n"
    assert proposed("feature-arch", text) == [text.replace('"sm_90"', '"sm_90a"').replace("  # HERE", "")]


ACCUMULATE = """\
def f():
    with T.Kernel(1) as b:
        acc = T.alloc_fragment((8, 8), "float32")
        for k in T.Pipelined(4):
            T.gemm(x, y, acc)  # HERE
        T.copy(acc, out)
"""


def test_an_accumulator_is_cleared_before_the_loop_that_adds_to_it():
    (text,) = proposed("clear-accumulator", ACCUMULATE, fields={"hazard.buffer": "acc"})
    assert text.splitlines()[3:5] == ["        T.clear(acc)", "        for k in T.Pipelined(4):"]


def test_one_that_is_used_up_in_each_iteration_is_cleared_in_each():
    inside = ACCUMULATE.replace("        T.copy(acc, out)", "            T.copy(acc, out)")
    (text,) = proposed("clear-accumulator", inside, fields={"hazard.buffer": "acc"})
    assert text.splitlines()[4:6] == ["            T.clear(acc)", "            T.gemm(x, y, acc)"]


def test_a_persistent_loop_around_both_is_left_around_the_clear():
    rows = ACCUMULATE.splitlines()
    outer = [*rows[:3], "        for t in T.serial(3):", *("    " + row for row in rows[3:])]
    (text,) = proposed("clear-accumulator", "\n".join(outer) + "\n", fields={"hazard.buffer": "acc"})
    assert text.splitlines()[3:6] == [
        "        for t in T.serial(3):",
        "            T.clear(acc)",
        "            for k in T.Pipelined(4):",
    ]


def test_a_running_maximum_starts_at_minus_infinity():
    text = ACCUMULATE.replace("T.gemm(x, y, acc)", "T.reduce_max(x, acc, dim=1, clear=False)")
    (found,) = proposed("clear-accumulator", text, fields={"hazard.buffer": "acc"})
    assert '        T.fill(acc, -T.infinity("float32"))' in found.splitlines()


def test_a_buffer_that_nothing_accumulates_into_is_not_cleared():
    text = ACCUMULATE.replace("T.gemm(x, y, acc)", "T.copy(acc, y)")
    assert proposed("clear-accumulator", text, fields={"hazard.buffer": "acc"}) == []


def test_the_kernel_that_a_factory_forgot_to_return():
    text = "def make(n):  # HERE\n    @T.prim_func\n    def main():\n        pass\n\nk = make(3)\n"
    (found,) = proposed("return-kernel", text)
    assert found == "def make(n):\n    @T.prim_func\n    def main():\n        pass\n    return main\n\nk = make(3)\n"


WRITES_LAST = KernelRecord(
    "main",
    params=({"name": "A"}, {"name": "B"}, {"name": "C"}),
    statements=(Statement("0", "store", accesses=(Touched("C", ("0",), (1,), (0,), (0,), mode="write"),)),),
    out_idx=(-1,),
)


def test_out_idx_names_what_the_kernel_writes():
    text = "@tilelang.jit(out_idx=[7])  # HERE\ndef f():\n    pass\n"
    assert proposed("out-idx", text, {"index": 7, "count": 3}, records=(WRITES_LAST,)) == [
        "@tilelang.jit(out_idx=[-1])\ndef f():\n    pass\n"
    ]


def test_an_output_that_tilelang_allocates_is_not_passed():
    text = "c = kernel(a, b, c)  # HERE\n"
    captures = {"expected": 2, "given": 3}
    assert proposed("argument-count", text, captures, records=(WRITES_LAST,)) == ["c = kernel(a, b)\n"]


@pytest.mark.parametrize(
    ("decorator", "wanted"),
    [
        ("tilelang.jit", "@tilelang.jit(out_idx=[-1])"),
        ("tilelang.jit(target=t)", "@tilelang.jit(target=t, out_idx=[-1])"),
    ],
)
def test_out_idx_is_given_where_only_the_output_is_not_passed(decorator, wanted):
    text = f"@{decorator}\ndef f():\n    pass\nc = f()(a, b)  # HERE\n"
    records = (replace(WRITES_LAST, out_idx=()),)
    assert [changed(text, one) for one in proposed("add-out-idx", text, records=records)] == [[wanted]]
    assert proposed("add-out-idx", text.replace("(a, b)", "(a)"), records=records) == []


def test_a_tensor_that_is_left_out_is_passed_where_its_name_tells_the_place():
    text = "a = 1\nb = 2\nkernel(b)  # HERE\n"
    captures = {"expected": 2, "given": 1}
    assert proposed("argument-count", text, captures, records=(WRITES_LAST,)) == ["a = 1\nb = 2\nkernel(a, b)\n"]


def test_a_tensor_of_the_host_gets_the_type_and_the_extents_of_the_parameter():
    text = "m, k = 64, 32\na = torch.randn(k, m, device='cuda', dtype=torch.float32)\nkernel(a, b)  # HERE\n"
    wanted = {"parameter": "A", "expected": "float16"}
    assert "dtype=torch.float16" in proposed("host-dtype", text, wanted, records=(WRITES_LAST,))[0]
    wanted = {"parameter": "A", "axis": 0}  # some errors name no extents; the captured kernel has them
    built = replace(WRITES_LAST, params=({"name": "A", "shape": [16, 64]}, {"name": "B"}, {"name": "C"}))
    assert "torch.randn(16, m, " in "".join(proposed("host-shape", text, wanted, records=(built,)))
    wanted = {"parameter": "A", "expected": 64, "axis": 0}
    assert "torch.randn(m, k, " in proposed("host-shape", text, wanted, records=(WRITES_LAST,))[0]


def test_a_factory_without_a_decorator_is_compiled_with_its_output_or_without():
    text = "import tilelang\ndef make(n):\n    @T.prim_func\n    def main():\n        pass\n    return main\nmake(3)(a)  # HERE\n"
    lines = [changed(text, one) for one in proposed("compile-kernel", text)]
    assert lines == [["@tilelang.jit(out_idx=[-1])"], ["@tilelang.jit"]]


def test_a_view_is_copied_and_a_tensor_is_made_on_the_device():
    text = "a = torch.randn(8, 8)\nkernel(a.T, b)  # HERE\n"
    wanted = {"parameter": "A", "expected": 1, "axis": 1}
    assert "kernel(a.T.contiguous(), b)" in proposed("contiguous", text, wanted, records=(WRITES_LAST,))[0]
    text = text.replace("a.T", "a")
    assert changed(text, proposed("host-device", text)[0]) == ['a = torch.randn(8, 8, device="cuda")']


def test_whole_numbers_are_divided_as_such():
    text = "with T.Kernel(M / bm) as b:  # HERE\n    pass\n"
    lines = [changed(text, one) for one in proposed("floor-division", text)]
    assert lines == [["with T.Kernel(M // bm) as b:"], ["with T.Kernel(T.ceildiv(M, bm)) as b:"]]


def test_every_strategy_is_silent_where_it_finds_nothing():
    for name in STRATEGIES:
        assert proposed(name, "x = 1  # HERE\n") == [], name


@pytest.mark.parametrize(
    ("word", "names"),
    [("half_t", ["float16"]), ("BF16", ["bfloat16"]), ("float_16", ["float16"]), ("fp8", ["float8_e4m3fn", "float8_e5m2"])],
)  # fmt: skip
def test_the_nickname_of_a_data_type_is_what_it_stands_for(word, names):
    text = f'x = T.alloc_shared((8, 8), "{word}")  # HERE\n'
    lines = [changed(text, one) for one in proposed("nearest-word", text, {"dtype": word})]
    assert [[f'x = T.alloc_shared((8, 8), "{name}")'] for name in names] == lines[: len(names)]


def test_a_nickname_that_is_looked_up_in_the_language():
    known = Vocabulary(names={"tilelang.language": ("float16", "bfloat16")})
    text = "x = T.alloc_shared((8, 8), T.half_t)  # HERE\n"
    sources = Sources({"k.py": text.replace("  # HERE", "")})
    finding = Finding(State.LOCALIZED, None, "", "", location=Location("k.py", 1), captures={"attribute": "half_t"})
    question = Question(finding, sources, vocabulary=known, nicknames=NICKNAMES)
    assert [p.title for p in propose(["nearest-attribute"], question)] == ["Write float16 instead of half_t"]


@pytest.mark.parametrize(
    ("text", "said"),
    [("dtypes = 3", "schema"), ('schema = "triage.nicknames/1"\n[dtypes]\nhalf = "float16"', r"\[dtypes\]"), ("=", "")],
)
def test_a_table_of_nicknames_that_is_none_says_what_is_wrong(tmp_path, text, said):
    path = tmp_path / "nicknames.toml"
    path.write_text(text)
    with pytest.raises(NicknameTableError, match=f"nicknames.toml: .*{said}"):
        load_nicknames(path)


@pytest.mark.parametrize(
    ("call", "named", "wanted"),
    [
        ("make(n)", "k", ["make(n, k=k)"]),
        ("make(k)", "k", ["make(n, k)"]),  # Python names the last one, and the first was forgotten
        ("make(256)", "k", ["make(n, 256)", "make(256, k=k)"]),  # nothing shows which
    ],
)
def test_a_forgotten_argument_is_a_variable_of_that_name(call, named, wanted):
    text = f"def make(n, k):\n    pass\nn = 256\nk = 512\n{call}  # HERE\n"
    assert [changed(text, one) for one in proposed("missing-argument", text, {"argument": named})] == [
        [one] for one in wanted
    ]


def test_the_forgotten_argument_is_the_one_without_which_named_ones_stand_at_the_wrong_place():
    text = "def make(B, M, K, split, config):\n    pass\nm, k, split, C = 1, 2, 3, {}\nmake(4, m, split, C)  # HERE\n"
    lines = [changed(text, one) for one in proposed("missing-argument", text, {"argument": "config"})]
    assert lines == [["make(4, m, k, split, C)"]]


def test_a_variable_that_has_no_value_yet_is_not_passed():
    text = "def make(n, k):\n    pass\nn = 256\nmake(n)  # HERE\nk = 512\n"
    assert proposed("missing-argument", text, {"argument": "k"}) == []


def test_an_allocation_without_a_type_is_tried_with_those_of_the_kernel():
    text = MATMUL.replace("  # HERE", "").replace('alloc_shared((bm, bk), "float16")', "alloc_shared((bm, bk))  # HERE")
    lines = [changed(text, one) for one in proposed("operand", text, {"missing": 1, "function": "alloc_shared"})]
    types = ("float16", "float32", "int32")
    assert lines == [[f'a = T.alloc_shared((bm, bk), "{dtype}")'] for dtype in types]


def test_a_missing_slice_is_taken_from_another_access():
    text = "def f():\n    x = A[b, by * 64 : (by + 1) * 64]  # HERE\n    y = B[b, s : s + 32, bx]\n"
    lines = [changed(text, one) for one in proposed("index-rank", text, {"buffer": "A", "rank": 3})]
    assert ["x = A[b, by * 64 : (by + 1) * 64, s : s + 32]"] in lines


@pytest.mark.parametrize(
    ("use", "imported"), [("argparse.Namespace()", True), ("argparse", False), ("argpars.x", False)]
)
def test_a_module_of_the_standard_library_is_imported_where_it_is_used_as_one(use, imported):
    text = f"import torch\nprint({use})  # HERE\n"
    name = use.partition(".")[0]
    lines = [changed(text, one) for one in proposed("nearest-variable", text, {"name": name})]
    assert lines == ([["import argparse"]] if imported else [])


def test_two_names_on_the_host_never_count_as_the_same():
    sources = Sources({"k.py": "xa = 1\nxb = 2\nprint(xab)\n"})
    finding = Finding(State.LOCALIZED, None, "", "", location=Location("k.py", 3), captures={"name": "xab"})
    found = list(propose(["nearest-variable"], Question(finding, sources)))
    assert [(p.title, p.host) for p in found] == [
        ("Write xa instead of xab", True), ("Write xb instead of xab", True)
    ]  # fmt: skip


def with_threads(count: int) -> KernelRecord:
    return KernelRecord("main", launch=Launch((1,), (count, 1, 1)))


@pytest.mark.parametrize(("count", "wanted"), [(48, [64, 32, 128]), (96, [128, 64]), (100, [128, 64]), (384, [512, 256, 128])])  # fmt: skip
def test_the_usual_numbers_of_threads_nearest_to_an_unusual_one(count, wanted):
    text = f"with T.Kernel(1, threads={count}) as b:  # HERE\n    pass\n"
    lines = [changed(text, one) for one in proposed("usual-threads", text, records=(with_threads(count),))]
    assert lines == [[f"with T.Kernel(1, threads={n}) as b:"] for n in wanted]
    assert proposed("usual-threads", text, records=(with_threads(128),)) == []


def test_other_numbers_of_threads_are_tried_for_every_fault_of_the_compiler_and_for_no_other():
    odd, half = [with_threads(48)], [with_threads(96)]
    assert applicable((), "thread-sync", odd) == ("usual-threads",)
    assert applicable(("swap-tile-dims",), "layout", odd) == ("usual-threads", "swap-tile-dims")
    assert applicable(("swap-tile-dims",), "layout", half) == ("swap-tile-dims", "usual-threads")
    assert applicable(("threads",), "layout", odd) == ("threads",)
    assert applicable(("host-shape",), "call", odd) == ("host-shape",)
    assert applicable((), "layout", [with_threads(256)]) == ()
