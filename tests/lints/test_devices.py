from __future__ import annotations

from pathlib import Path

import pytest

from triage.lints.devices import DeviceTableError, load_devices, normalize

TABLE = Path(__file__).parents[2] / "rules" / "reference" / "devices.toml"
HEAD = 'schema = "triage.devices/1"\n'


def test_suffixes_and_spellings_find_the_row() -> None:
    devices = load_devices(TABLE)
    assert devices["sm_90a"] is devices["SM90"] is devices["compute_90"] is devices["sm_90"]
    assert devices["sm_100f"].arch == "sm_100"
    assert devices["gfx942:sramecc+:xnack-"].arch == "gfx942"


def test_an_unlisted_architecture_is_absent_rather_than_guessed() -> None:
    devices = load_devices(TABLE)
    assert devices.get("sm_50") is None
    assert "sm_999" not in devices
    assert normalize("sm_999a") == "sm_999"


KIB = {"sm_70": 96, "sm_75": 64, "sm_80": 163, "sm_86": 99, "sm_87": 163, "sm_89": 99, "sm_90": 227, "sm_100": 227}
KIB |= {"sm_103": 227, "sm_110": 227, "sm_120": 99, "sm_121": 99, "gfx90a": 64, "gfx942": 64, "gfx950": 160}


@pytest.mark.parametrize("arch", KIB)
def test_shared_memory_a_block_can_opt_into(arch: str) -> None:
    assert load_devices(TABLE)[arch].shared_optin == KIB[arch] * 1024


def test_a_quantity_the_table_leaves_out_is_none() -> None:
    devices = load_devices(TABLE)
    assert devices["sm_80"].cluster is None
    assert devices["sm_120"].tensor_memory is None
    assert devices["gfx942"].grid_y is None
    assert devices["gfx942"].warp == 64


def test_every_row_states_its_source_and_no_limit_is_zero() -> None:
    for device in load_devices(TABLE).values():
        assert device.source and device.name and device.vendor
        limits = [n for f, n in vars(device).items() if f != "shared_reserved" and type(n) is int]
        assert min(limits) > 0


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[arch", "devices.toml"),
        ('schema = "other"', "schema"),
        (HEAD + "arch = 3", "table"),
        (HEAD + '[arch.sm_1]\nlike = "sm_2"', "sm_2"),
        (HEAD + '[arch.sm_1]\nlike = "sm_1"', "itself"),
        (HEAD + "[arch.sm_1]\nwrap = 32", "wrap"),
        (HEAD + '[arch.sm_1]\nwarp = "32"', "warp"),
        (HEAD + "[arch.sm_1]\nwarp = -1", "warp"),
        (HEAD + "[arch.sm_1]\nwarp = true", "warp"),
    ],
)
def test_a_broken_table_says_what_is_wrong(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "devices.toml"
    path.write_text(text)
    with pytest.raises(DeviceTableError, match=complaint):
        load_devices(path)
