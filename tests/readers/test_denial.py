"""Prose that says of an error that it is not there, and prose and errors that only have a negation."""

from __future__ import annotations

import pytest

from triage.readers.denial import is_denied, quotes_denied

ERROR = "CUDA error: an illegal memory access was encountered"
GONE = [
    'We do not see a "{}" anymore. Question',
    'there is no error "{}" any more since I fixed the layout',
    "there is no {} any more",
    "`{}` is fixed now",
    "`{}` is gone",
    "The `{}` does not happen anymore",
    "it runs without the {}",
    "It no longer fails with {}",
    "I used to get {}",
    "Instead of {} I get zeros",
    "after the fix we don't get the {}",
    'This is not a duplicate of "{}"',
    '"{}", which was fixed in the last release, is another',
    'I expected "{}" and nothing is raised',
    "With the new release there is no `{}` any more",
]
THERE = [
    "{}",
    "RuntimeError: could not load the module: {}",
    "I don't understand why I get {}",
    "It does not work, I get `{}`",
    "Not sure what `{}` means",
    "`{}` is gone when I disable TMA",
    "The `{}` does not happen with num_stages=1",
    "It never prints {} unless I call it twice",
    "I never saw `{}` before today",
    "ERROR no device: {}",
    "We still get {} and cannot train anymore",
    "I do not have a GPU here and get {}",
    "Without TMA there is no `{}`",
    "terminate called without an active exception {}",
]


def denied(template: str, above: str = "") -> bool:
    line = template.format(ERROR)
    start = line.index(ERROR)
    return is_denied(line, start, start + len(ERROR), above)


@pytest.mark.parametrize("template", GONE)
def test_an_error_that_is_said_to_be_gone_is_denied(template: str) -> None:
    assert denied(template)


@pytest.mark.parametrize("template", THERE)
def test_a_negation_about_something_else_denies_nothing(template: str) -> None:
    assert not denied(template)


def test_the_words_of_an_error_may_begin_within_the_quotation() -> None:
    line = f'I expected "ValueError: {ERROR}" and nothing is raised'
    start = line.index(ERROR)
    assert is_denied(line, start, start + len(ERROR))


def test_a_sentence_may_begin_on_the_line_above() -> None:
    assert denied('"{}" appears', "Since the update we do not see the")
    assert not denied('"{}" appears', "We do not see the reason.")
    assert not denied("{}", "we do not see the")


def test_a_line_denies_what_it_quotes() -> None:
    assert quotes_denied(GONE[0].format(ERROR)) and not quotes_denied(THERE[3].format(ERROR))
