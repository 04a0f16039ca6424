from __future__ import annotations

from pathlib import Path

import pytest

from triage.knowledge.files import rules_root
from triage.knowledge.switches import NO_PASSES, Effect, SwitchTableError, load_switches

TABLE = rules_root() / "reference" / "switches.toml"
HEAD = 'schema = "triage.switches/1"\n'
ROW = '[[switch]]\nname = "a"\nkind = "pass-config"\nkey = "tl.a"\neffect = "preserves"\npasses = []\ncost = "none"\n'


def test_the_table_can_be_read_and_says_what_each_switch_costs() -> None:
    switches = load_switches(TABLE)
    assert len(switches) > 30
    assert all(switch.cost for switch in switches)
    assert {switch.effect for switch in switches} == set(Effect)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("schema = 1", "schema is 1"),
        ("schema =", "Invalid"),
        (HEAD + "switch = [1]", r"\[\[switch\]\] table"),
        (HEAD + ROW.replace('cost = "none"\n', ""), "lacks 'cost'"),
        (HEAD + ROW.replace('key = "tl.a"\n', ""), "lacks 'key'"),
        (HEAD + ROW.replace('name = "a"', "name = {a = 1}"), "'name' that is no string"),
        (HEAD + ROW.replace("pass-config", "knob"), "kind 'knob'"),
        (HEAD + ROW.replace("preserves", "harmless"), "effect 'harmless'"),
        (HEAD + ROW + "default = 1\n", "unknown key 'default'"),
        (HEAD + ROW + ROW, "named twice: a"),
    ],
)
def test_a_table_that_is_wrong_is_refused_with_the_place(text: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "switches.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SwitchTableError, match=told) as raised:
        load_switches(path)
    assert str(path) in str(raised.value)


@pytest.mark.tilelang
def test_every_pass_config_is_one_that_tilelang_has() -> None:
    pytest.importorskip("tilelang")
    from tilelang import tvm

    registered = {str(key) for key in tvm.ir.transform.PassContext.list_configs()}
    assert {s.key for s in load_switches(TABLE) if s.kind == "pass-config"} <= registered


def test_what_is_no_pass_is_named_as_such() -> None:
    named = {name for switch in load_switches(TABLE) for name in switch.passes}
    assert {name for name in named if "." not in name} <= set(NO_PASSES)
