"""`triage run --fix` and `--apply`, as a user calls them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import triage

ROOT = Path(triage.__file__).resolve().parent.parent
RIGHT = """\
import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[-1])
def double(n):
    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(n // 128, threads=128) as bx:
            for i in T.Parallel(128):
                B[bx * 128 + i] = A[bx * 128 + i] * 2

    return main


double(1024)
"""
WRONG = RIGHT.replace("T.Parallel", "T.Paralel")


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1"}
    command = [sys.executable, "-m", "triage", "run", *words]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.tilelang
@pytest.mark.slow
def test_the_patch_is_written_and_the_file_is_not(tmp_path):
    pytest.importorskip("tilelang")
    (tmp_path / "k.py").write_text(WRONG)
    done = run(tmp_path, "--fix", "--json", "report.json", "k.py")
    assert done.returncode == 1, done.stderr
    assert (tmp_path / "k.py").read_text() == WRONG
    verdict = json.loads((tmp_path / "report.json").read_text())["verdict"]
    first = verdict["fixes"][0]
    assert (first["verified"], first["level"]) == ("passed", "builds")
    assert "--step" in first["by"]
    assert "tried on a copy: the script then builds 1 kernel" in done.stdout
    patch = tmp_path / ".triage" / "k.py-1" / "k.triage.patch"
    assert patch.read_text() == first["patch"]
    subprocess.run(["patch", "-s", "-p0", "-i", str(patch)], cwd=tmp_path, check=True)
    assert (tmp_path / "k.py").read_text() == RIGHT


@pytest.mark.tilelang
def test_apply_changes_the_file_and_a_healthy_one_is_refused(tmp_path):
    pytest.importorskip("tilelang")
    (tmp_path / "k.py").write_bytes(WRONG.replace("\n", "\r\n").encode())
    (tmp_path / "k.py").chmod(0o755)
    assert run(tmp_path, "--apply", f"../{tmp_path.name}/k.py").returncode == 1
    assert (tmp_path / "k.py").read_bytes() == RIGHT.replace("\n", "\r\n").encode()
    assert (tmp_path / "k.py").stat().st_mode & 0o777 == 0o755
    again = run(tmp_path, "--apply", "k.py")
    assert again.returncode == 2
    assert "no fault was found" in again.stderr


@pytest.mark.tilelang
@pytest.mark.slow
def test_apply_refuses_where_no_fix_is_verified_and_says_why(tmp_path):
    pytest.importorskip("tilelang")
    text = RIGHT.replace("threads=128", "threads=128, unheard=1")
    (tmp_path / "k.py").write_text(text)
    done = run(tmp_path, "--apply", "k.py")
    assert done.returncode == 2
    assert "no fix is verified" in done.stderr and "is lost" in done.stderr
    assert (tmp_path / "k.py").read_text() == text


def test_an_unknown_cause_is_refused(tmp_path):
    (tmp_path / "k.py").write_text("raise RuntimeError('of its own')\n")
    for option in ("--fix", "--apply"):
        done = run(tmp_path, option, "--budget", "0", "k.py")
        assert done.returncode == 2
        assert "unknown" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [(("--fix", "--no-experiments", "k.py"), "--no-experiments"), (("--apply", "-m", "k"), "name the file")],
)
def test_what_cannot_go_together_is_refused(tmp_path, words, said):
    (tmp_path / "k.py").write_text("")
    done = run(tmp_path, *words)
    assert done.returncode == 2
    assert said in done.stderr
