"""Versions are compared as packaging does it; packaging itself is the oracle."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from triage.versions import VersionError, key, requirement, satisfies

NUMBER = st.integers(0, 14)
RELEASE = st.lists(NUMBER, min_size=1, max_size=4).map(lambda parts: ".".join(map(str, parts)))
PRE = st.sampled_from(["", "", "a1", "b2", "rc1", ".dev3", "rc1.dev2"])
POST = st.sampled_from(["", "", ".post1", ".post2", ".post1.dev4"])
VERSION = st.one_of(st.tuples(RELEASE, PRE).map("".join), st.tuples(RELEASE, POST).map("".join))
OP = st.sampled_from(["==", "!=", "<", "<=", ">", ">="])


@given(VERSION, VERSION)
def test_the_order_is_that_of_packaging(one: str, other: str) -> None:
    assert (key(one) < key(other)) == (Version(one) < Version(other))
    assert (key(one) == key(other)) == (Version(one) == Version(other))


@settings(max_examples=2000)
@given(VERSION, st.lists(st.tuples(OP, VERSION).map("".join), max_size=3))
def test_specifiers_mean_what_they_mean_to_packaging(version: str, clauses: list[str]) -> None:
    specifier = ",".join(clauses)
    assert satisfies(version, specifier) == SpecifierSet(specifier).contains(version, prereleases=True)


@given(VERSION, st.lists(NUMBER, min_size=2, max_size=4).map(lambda parts: ".".join(map(str, parts))))
def test_compatible_releases_and_prefixes(version: str, wanted: str) -> None:
    for specifier in (f"~={wanted}", f"=={wanted}.*", f"!={wanted}.*"):
        assert satisfies(version, specifier) == SpecifierSet(specifier).contains(version, prereleases=True)


@pytest.mark.parametrize(
    ("version", "specifier", "met"),
    [
        ("2.13.0+cpu", "==2.13.0", True),
        ("2.13.0+cu130", ">=2.4", True),
        ("0.1.12", "<0.1.13,>=0.1.11", True),
        ("0.1.10", "<0.1.13,>=0.1.11", False),
        ("0.1.8.post1", "==0.1.8", False),
        ("13.0", ">=12", True),
        ("0.2a1", "<0.2", False),
        ("0.2a1", "<0.2.post1", True),
        ("0.2.post1.dev4", "<0.2.post1", False),
        ("0.2rc1.dev2", "<0.2rc1", True),
        ("1", "", True),
    ],
)
def test_examples(version: str, specifier: str, met: bool) -> None:
    assert satisfies(version, specifier) is met


@pytest.mark.parametrize("text", ["", "x", "1.2.x", "unknown", "1..2"])
def test_what_is_no_version_is_refused(text: str) -> None:
    with pytest.raises(VersionError):
        key(text)


@pytest.mark.parametrize("specifier", [">=", "1.2", "=> 1", "~=1", ">=1 2"])
def test_what_is_no_specifier_is_refused(specifier: str) -> None:
    with pytest.raises(VersionError):
        satisfies("1.0", specifier)


@pytest.mark.parametrize(
    ("text", "name", "specifier", "marker"),
    [
        ("apache-tvm-ffi<0.1.13,>=0.1.11", "apache-tvm-ffi", "<0.1.13,>=0.1.11", ""),
        ("Typing_Extensions>=4.10.0", "typing-extensions", ">=4.10.0", ""),
        ('torch>=2.4; platform_system == "Darwin"', "torch", ">=2.4", 'platform_system == "Darwin"'),
        ("jinja2 (>=2.11)", "jinja2", ">=2.11", ""),
        ("numpy", "numpy", "", ""),
        ("pkg[extra,more]>=1", "pkg", ">=1", ""),
    ],
)
def test_requirements(text: str, name: str, specifier: str, marker: str) -> None:
    found = requirement(text)
    assert found is not None
    assert (found.name, found.specifier, found.marker) == (name, specifier, marker)


def test_a_requirement_by_url_is_left_alone() -> None:
    assert requirement("pkg @ https://example.com/pkg.whl") is None
