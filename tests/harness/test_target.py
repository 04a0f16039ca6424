"""Which architecture a script asks for, read without running it."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(
    ("text", "arch"),
    [
        ("f(target={'kind': 'cuda', 'arch': 'sm_80'})", "sm_80"),
        ("@jit(out_idx=[-1], target='cuda -arch=sm_89')\ndef f(): ...", "sm_89"),
        ("TARGET = {'kind': 'cuda', 'arch': 'sm_100a'}\nf(target=TARGET)", "sm_100a"),
        ("f(target=dict(kind='cuda', arch='sm_75'))", "sm_75"),
        ('import os\nos.environ[\'TILELANG_DEFAULT_TARGET\'] = \'{"kind": "cuda", "arch": "sm_120a"}\'', "sm_120a"),
        ("import os\nos.environ.setdefault('TILELANG_DEFAULT_TARGET', 'sm_86')", "sm_86"),
        ("f(target={'arch': 'sm_80'})\ng(target={'arch': 'sm_90a'})", None),
        ("f(target='cuda')", None),
        ("f(target=compute())", None),
        ("print('sm_80')  # target='sm_80'", None),
        ("T.alloc_tmem((128, 128), 'float32')", "sm_100a"),
        ("T.tcgen05_gemm(a, b, c)", "sm_100a"),
        ("T.wgmma_gemm(a, b, c)\nT.tcgen05_gemm(a, b, c)", None),
        ("T.alloc_tmem((1,))\nf(target={'arch': 'sm_103a'})", "sm_103a"),
        ("def broken(:", None),
    ],
)
def test_the_named_architecture(harness, tmp_path, text, arch):
    script = tmp_path / "kernel.py"
    script.write_text(text)
    named = harness("target").named_by_script(str(script))
    assert (named and named[0]) == arch
    assert named is None or "line" in named[1]


def test_a_script_that_is_not_there(harness):
    assert harness("target").named_by_script("/nonexistent.py") is None
    assert harness("target").named_by_script(None) is None


@pytest.mark.parametrize(
    ("wanted", "open_"),
    [
        (None, True),
        ("auto", True),
        ("cuda", True),
        ({"kind": "cuda"}, True),
        ('{"kind": "cuda"}', True),
        ({"kind": "cuda", "arch": "sm_80"}, False),
        ("hip", False),
        ("c", False),
        ("{broken", False),
    ],
)
def test_which_targets_leave_the_architecture_open(harness, wanted, open_):
    assert harness("target").is_open(wanted) is open_


def test_what_else_an_open_target_asks_for_stays(harness):
    class Context:
        target = {"kind": "cuda", "arch": "sm_90a"}  # noqa: RUF012

    completed = harness("target").completed
    assert completed({"kind": "cuda", "archs": "sm_80"}, Context) == {
        "kind": "cuda",
        "archs": "sm_80",
        "arch": "sm_90a",
    }
    assert completed("auto", Context) == completed(None, Context) == Context.target


def test_plain_targets(harness):
    plain = harness("target").plain
    assert plain("cuda") == "cuda"
    assert plain('{"kind": "cuda", "arch": "sm_80"}') == {"kind": "cuda", "arch": "sm_80"}
    assert plain(None) is None


@pytest.mark.parametrize(
    ("asked", "wanted", "resolved"),
    [
        ("default", "cuda", {"kind": "cuda", "arch": "sm_90a"}),
        ("default", {"kind": "cuda", "arch": "sm_80"}, {"kind": "cuda", "arch": "sm_80"}),
        ("argument", {"kind": "cuda", "arch": "sm_80"}, {"kind": "cuda", "arch": "sm_90a"}),
        ("argument", "c", "c"),
    ],
)
def test_an_asked_for_architecture_beats_the_scripts(harness, context, asked, wanted, resolved):
    context.spec["arch_source"] = asked
    assert harness("target").resolve(wanted, context) == resolved
