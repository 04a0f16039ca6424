"""The report object keeps the contract: key names, schema, ranking, purity."""

from __future__ import annotations

import copy
import json
from dataclasses import replace

import jsonschema
import pytest
from report_samples import FILE, GEMM, GPU, HEALTHY, LAYOUT, LEFTOVER, STEPS, SUBJECT, UNKNOWN, VIRTUAL, sample

from triage.model import Caliber, Category, Confidence, Fact, Finding, FoundBy, Location, State, Step, StepOutcome
from triage.report import json_report
from triage.report.build import build_report, rank, signature
from triage.report.schema import problems, report_schema

SAMPLES = {
    "localized": sample(GEMM, UNKNOWN, LEFTOVER),
    "classified": sample(LAYOUT),
    "unknown": sample(UNKNOWN),
    "healthy": sample(HEALTHY),
    "empty": build_report({"kind": "log"}, [], [], [], [], [], [], []),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_reports_fit_the_generated_schema(name: str) -> None:
    report = json.loads(json_report.render(SAMPLES[name]))
    schema = report_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.Draft202012Validator(schema).validate(report)
    assert problems(report) == []


def test_the_keys_of_the_contract_are_all_there() -> None:
    report = sample(GEMM)
    top = "schema subject environments verdict other_findings notes walk facts artifacts"
    assert set(top.split()) <= set(report)
    assert report["schema"] == "triage.report/1"
    verdict = (
        "state category stage rule cause title summary location labels quote owner confidence signature "
        "known_issues fixes checked not_checked"
    )
    assert set(verdict.split()) <= set(report["verdict"])
    assert set(report["verdict"]["location"] or {}) == {"file", "line", "column", "snippet", "function", "found_by"}
    walk = "node tool about env status outcome why seconds command elsewhere"
    assert all(set(walk.split()) <= set(step) for step in report["walk"])
    facts = "name about value unit caliber env source"
    assert all(set(facts.split()) <= set(fact) for fact in report["facts"])


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["schema"], "triage.report/2"),
        (["verdict", "state"], "certain"),
        (["verdict", "confidence"], None),
        (["verdict", "location", "line"], 0),
        (["verdict", "location", "line"], "17"),
        (["verdict", "signature"], "xyz"),
        (["verdict", "fixes"], {}),
        (["facts"], [1]),
        (["walk"], None),
        (["subject", "kind"], ["script"]),
    ],
)
def test_own_check_and_jsonschema_refuse_the_same(path: list[str], value: object) -> None:
    report = json.loads(json_report.render(sample(GEMM)))
    at = report
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    assert not jsonschema.Draft202012Validator(report_schema()).is_valid(report)
    assert problems(report)
    with pytest.raises(json_report.ReportError, match=path[-1]):
        json_report.read(json.dumps(report))


def test_a_missing_key_is_named() -> None:
    report = json.loads(json_report.render(sample(GEMM)))
    del report["verdict"]["title"]
    assert problems(report) == ["report.verdict: `title` is missing"]


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "3", '"x"', "[" * 100_000])
def test_what_is_no_report_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(json_report.ReportError) as caught:
        json_report.read(text)
    assert "\n" not in str(caught.value)


def test_additions_are_free() -> None:
    report = json.loads(json_report.render(sample(GEMM)))
    report["verdict"]["later"] = {"x": 1}
    assert json_report.read(json.dumps(report))["verdict"]["title"] == GEMM.title


def test_round_trip_and_determinism() -> None:
    text = json_report.render(sample(GEMM, LAYOUT))
    assert json_report.read(text) == sample(GEMM, LAYOUT)
    assert json_report.render(json_report.read(text)) == text
    assert text.isascii()


def test_no_finding_is_not_health() -> None:
    assert sample()["verdict"]["state"] == "unknown"
    assert sample(LEFTOVER)["verdict"]["state"] == "unknown"


def test_advice_is_a_note_and_never_the_verdict() -> None:
    report = sample(HEALTHY, LEFTOVER)
    assert report["verdict"]["state"] == "healthy"
    assert [note["rule"] for note in report["notes"]] == ["TLP090"]


def test_rank_by_state_then_category_then_confidence() -> None:
    likely = replace(GEMM, confidence=Confidence.LIKELY)
    environment = replace(likely, category=Category.ENVIRONMENT)
    assert rank([HEALTHY, UNKNOWN, LAYOUT, likely, GEMM, environment]) == [
        environment,
        GEMM,
        likely,
        LAYOUT,
        UNKNOWN,
        HEALTHY,
    ]


@pytest.mark.parametrize("change", [{"location": None}, {"confidence": Confidence.POSSIBLE}])
def test_localized_needs_a_place_and_confidence(change: dict) -> None:
    assert sample(GEMM)["verdict"]["state"] == "localized"
    assert sample(replace(GEMM, **change))["verdict"]["state"] == "classified"


def test_what_another_finding_explains_comes_after_it() -> None:
    cause = replace(GEMM, rule="TLG030", confidence=Confidence.LIKELY, explains=("TLG014",))
    report = sample(GEMM, cause)
    assert report["verdict"]["rule"] == "TLG030"
    assert [(f["rule"], f.get("explained_by")) for f in report["other_findings"]] == [("TLG014", "TLG030")]


def test_healthy_parts_are_not_listed_beside_a_fault() -> None:
    assert sample(GEMM, HEALTHY)["other_findings"] == []


def test_excerpts_hold_the_lines_around_the_places() -> None:
    excerpts = sample(GEMM)["verdict"].get("excerpts", [])
    lines = {e["first"] + n: line for e in excerpts for n, line in enumerate(e["lines"])}
    assert "T.gemm(A_shared" in lines[17]
    assert "B_shared = T.alloc_shared" in lines[11]


def test_a_location_past_the_end_of_the_text_gives_no_excerpt() -> None:
    assert sample(replace(GEMM, location=Location(FILE, 999), labels=()))["verdict"].get("excerpts") == []
    assert sample(GEMM, sources={})["verdict"].get("excerpts") == []


@pytest.mark.parametrize(
    ("found_by", "kind", "environments", "env", "expected"),
    [
        (FoundBy.FRAME, "script", [VIRTUAL], "e1", "measured here"),
        (FoundBy.LINT, "script", [VIRTUAL], "e1", "static"),
        (FoundBy.FRAME, "log", [VIRTUAL], "e1", "not run"),
        (FoundBy.EXPERIMENT, "script", [VIRTUAL, GPU], "e2", "measured on NVIDIA H200"),
        (FoundBy.EXPERIMENT, "script", [VIRTUAL, GPU], "e1", "measured here"),
    ],
)
def test_basis(found_by: FoundBy, kind: str, environments: list, env: str, expected: str) -> None:
    finding = replace(GEMM, location=Location(FILE, 17, found_by=found_by))
    report = sample(
        finding,
        subject={**SUBJECT, "kind": kind},
        environments=environments,
        steps=(*STEPS, Step("x", "x", env=env, outcome=StepOutcome.FINDING)),
    )
    assert report["verdict"].get("basis") == expected


def test_signature_has_no_operands_and_no_places() -> None:
    moved = replace(GEMM, summary="K_A = 64", location=Location("other.py", 3), captures={"k_a": 64})
    assert signature(moved) == signature(GEMM)
    assert signature(replace(GEMM, rule="TLG015")) != signature(GEMM)
    assert sample(replace(GEMM, signature="0123456789abcdef"))["verdict"]["signature"] == "0123456789abcdef"


def test_values_that_json_lacks_become_text() -> None:
    facts = [Fact("a", float("nan")), Fact("b", float("inf"), caliber=Caliber.STATIC), Fact("c", {1: object})]
    report = json.loads(json_report.render(sample(GEMM, facts=facts)))
    assert [f["value"] for f in report["facts"][:2]] == ["nan", "inf"]


def test_arguments_are_not_changed() -> None:
    subject = copy.deepcopy(SUBJECT)
    findings = [UNKNOWN, GEMM]
    build_report(subject, [VIRTUAL], findings, STEPS, [], [], [], [])
    assert (subject, findings) == (SUBJECT, [UNKNOWN, GEMM])


def test_a_finding_without_category_is_ranked() -> None:
    assert rank([Finding(State.UNKNOWN, None, "t", "s")])[0].title == "t"
