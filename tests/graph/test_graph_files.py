"""Loading, checking and drawing: the shipped graph is sound, and a spoiled one says what is wrong with it."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest

from triage.graph.check import check
from triage.graph.draw import FORMATS, draw
from triage.graph.load import GraphError, load, loads
from triage.graph.spec import layer
from triage.knowledge.facts import fact_types
from triage.knowledge.files import rules_root
from triage.tools.registry import SPECS

TEXT = (rules_root() / "graph.toml").read_text(encoding="utf-8")
FACTS = fact_types(rules_root())


def problems(text: str) -> str:
    try:
        graph = loads(text)
    except GraphError as error:
        return "\n".join(error.problems)
    return "\n".join(check(graph, SPECS, FACTS))


def changed(old: str, new: str) -> str:
    assert old in TEXT
    return TEXT.replace(old, new)


def test_the_shipped_graph_is_sound() -> None:
    assert problems(TEXT) == ""


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('tool = "observe-run",      then = "static"', 'tool = "observe-run",      then = "nowhere"', "'nowhere'"),
        ('tool = "static-checks"', 'tool = "dynamic-checks"', "no tool is called 'dynamic-checks'"),
        ('["trace", "kernels.failing > 0"]', '["trace"]', "has no condition"),
        ("kernels.failing > 0", "kernels.falling > 0", "no fact is called 'kernels.falling'"),
        ("kernels.failing > 0", "kernels.failing > many", "'many' is no int"),
        ("kernels.failing > 0", "kernels.failing >> 0", "unknown operator"),
        ("kernels.failing > 0", "error.text > 0", "has no order"),
        ("run.status in failed timed_out killed", "twin.verdict == matched", "nothing before it adds twin.verdict"),
        ("visits = 4", "visits = 0", "at least 1"),
        ('per = "kernel", visits = 2', 'per = "kernels", visits = 2', "expected one of run, kernel, comparison"),
        ('category = "environment"', 'category = "weather"', "category 'weather'"),
        ("report    = {end = true}", 'report    = {end = true, tool = "ncu"}', "an end has no tool"),
        ('schema = "triage.graph/1"', 'schema = "triage.graph/9"', "schema is"),
        ('["trace", "kernels.failing', '["twin", "kernels.failing', "trace: no start leads here"),
        (
            'tool = "add-back",         then = "sanitize"',
            'tool = "add-back",         then = "reference"',
            "returns to a cheaper layer",
        ),
    ],
)
def test_a_spoiled_graph_names_its_fault(old: str, new: str, complaint: str) -> None:
    assert complaint in problems(changed(old, new))


def test_all_mistakes_are_told_at_once() -> None:
    text = TEXT.replace("visits = 4", "visits = 0").replace('["trace", "kernels.failing > 0"]', '["trace"]')
    assert len(problems(text).splitlines()) >= 2


def test_no_toml_and_no_file_are_told(tmp_path) -> None:
    assert "not TOML" in problems("schema = ")
    with pytest.raises(GraphError, match="No such file"):
        load(tmp_path / "absent.toml")


def test_an_endless_loop_without_an_end_is_refused() -> None:
    text = """
    schema = "triage.graph/1"
    start = {script = "a"}
    [nodes]
    a = {tool = "observe-run", then = "b"}
    b = {tool = "static-checks", then = "a"}
    """
    assert "no end can be reached" in problems(text)


@pytest.mark.parametrize(
    ("needs", "expected"),
    [((), "free"), (("tilelang",), "compile"), (("execute", "tilelang"), "run"), (("cuda", "ncu"), "hardware")],
)
def test_the_layer_follows_from_the_needs(needs: tuple[str, ...], expected: str) -> None:
    assert layer(needs) == expected


@pytest.mark.parametrize("form", FORMATS)
def test_every_drawing_shows_every_node(form: str) -> None:
    graph = loads(TEXT)
    picture = draw(graph, SPECS, form)
    for name, node in graph.nodes.items():
        shown = name if form != "mermaid" else "n_" + name.replace("-", "_")
        assert node.end or shown in picture
    if form == "svg":
        ElementTree.fromstring(picture)
    if form == "dot":
        assert picture.count("->") == len(graph.edges())
