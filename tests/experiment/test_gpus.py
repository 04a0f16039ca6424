"""Which GPUs a process sees, and that two holders of one follow each other."""

from __future__ import annotations

import select
import subprocess
import sys
from pathlib import Path

import pytest

from triage.experiment import gpus

INFORMATION = """Model: \t\t NVIDIA H200
IRQ:   \t\t 100
GPU UUID: \t {uuid}
Bus Location: \t 0000:{bus}:00.0
Device Minor: \t {minor}
"""
ONE, TWO, THREE = (f"GPU-{digit * 8}-0000-0000-0000-000000000000" for digit in "123")


@pytest.fixture
def machine(tmp_path: Path):
    """`machine(uuids, nodes)`: the folders of a machine with GPUs of these UUIDs, and device nodes of these numbers."""

    def make(uuids: list[str], nodes: list[int]) -> dict[str, Path]:
        for minor, uuid in enumerate(uuids):
            folder = tmp_path / "gpus" / f"0000:{minor:02x}:00.0"
            folder.mkdir(parents=True)
            (folder / "information").write_text(INFORMATION.format(uuid=uuid, bus=f"{minor:02x}", minor=minor))
        for node in nodes:
            (tmp_path / f"nvidia{node}").touch()
        return {"driver": tmp_path / "gpus", "devices": tmp_path}

    return make


@pytest.mark.parametrize(
    ("asked", "seen"),
    [
        (None, [ONE, TWO, THREE]),
        ("1", [TWO]),
        ("2,0", [THREE, ONE]),
        ("0,0", [ONE]),
        ("GPU-2222", [TWO]),
        ("7", ["index-7"]),
        ("MIG-abc", ["MIG-abc"]),
        ("", []),
        ("-1", []),
        ("1,-1,0", [TWO]),
        ("NoDevFiles", []),
    ],
)
def test_the_variable_says_which_gpus_are_seen(asked: str | None, seen: list[str], machine) -> None:
    environ = {} if asked is None else {"CUDA_VISIBLE_DEVICES": asked}
    assert gpus.visible(environ, **machine([ONE, TWO, THREE], [0, 1, 2])) == seen


def test_a_container_sees_the_gpus_whose_nodes_it_has(machine) -> None:
    where = machine([ONE, TWO, THREE], [2])
    assert gpus.visible({}, **where) == [THREE]
    assert gpus.visible({"CUDA_VISIBLE_DEVICES": "0"}, **where) == [THREE]


def test_without_a_uuid_a_gpu_is_known_by_its_index(machine, tmp_path: Path) -> None:
    assert gpus.visible({}, **machine(["GPU-????????-????"], [0])) == ["index-0"]
    assert gpus.visible({}, tmp_path / "none", tmp_path) == ["index-0"]
    assert gpus.visible({"CUDA_VISIBLE_DEVICES": "3"}, tmp_path / "none", tmp_path) == ["index-3"]


HOLDER = """
import sys, time
from pathlib import Path
from triage.experiment import gpus
with gpus.held(sys.argv[2:], Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.readline()
"""


def test_who_holds_a_gpu_keeps_others_waiting_and_other_gpus_free(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    root = Path(__file__).resolve().parents[2]
    with subprocess.Popen(
        [*command, ONE, TWO], cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as first:
        assert first.stdin is not None and first.stdout is not None
        assert first.stdout.readline() == "held\n"
        with gpus.held([THREE], tmp_path):
            pass
        second = subprocess.Popen(
            [*command, TWO, THREE], cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert second.stdout is not None
        assert not select.select([second.stdout], [], [], 2.0)[0]
        first.stdin.write("\n")
        first.stdin.flush()
        assert second.stdout.readline() == "held\n"
        second.communicate("\n")
    assert second.returncode == 0 and sorted(p.name for p in tmp_path.iterdir()) == [
        f"triage-{name}.lock" for name in (ONE, TWO, THREE)
    ]


def test_a_killed_holder_holds_no_longer(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDER, str(tmp_path), ONE]
    root = Path(__file__).resolve().parents[2]
    with subprocess.Popen(command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        holder.kill()
    with gpus.held([ONE], tmp_path):
        pass


def test_a_folder_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    with gpus.held([ONE], tmp_path / "missing"):
        pass
