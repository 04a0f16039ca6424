from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from triage.experiment.minimal import OutOfBudget, minimize

ITEMS = list(range(24))
subsets = st.sets(st.sampled_from(ITEMS), max_size=6)


@given(st.lists(subsets, min_size=1, max_size=4))
def test_what_is_left_holds_and_nothing_of_it_can_go(causes: list[set[int]]) -> None:
    def holds(some: list[int]) -> bool:
        return any(cause <= set(some) for cause in causes)

    kept, minimal = minimize(ITEMS, holds)
    assert minimal
    assert holds(kept)
    assert kept == sorted(kept)
    assert all(not holds([item for item in kept if item != gone]) for gone in kept)


@given(st.frozensets(st.frozensets(st.sampled_from(range(6)), max_size=6)))
def test_a_fault_that_comes_and_goes_with_more_statements_still_ends_1_minimal(
    failing: frozenset[frozenset[int]],
) -> None:
    items = list(range(6))
    failing = failing | {frozenset(items)}

    def holds(some: list[int]) -> bool:
        return frozenset(some) in failing

    kept, minimal = minimize(items, holds)
    assert minimal
    assert holds(kept)
    assert all(not holds([item for item in kept if item != gone]) for gone in kept)


@given(subsets, subsets)
def test_a_guess_decides_how_long_it_takes_and_not_what_is_found(cause: set[int], guess: set[int]) -> None:
    def holds(some: list[int]) -> bool:
        return cause <= set(some)

    assert set(minimize(ITEMS, holds, [sorted(guess)])[0]) == cause


def test_a_right_guess_saves_trials() -> None:
    trials = []

    def holds(some: list[int]) -> bool:
        trials.append(some)
        return 17 in some

    assert minimize(ITEMS, holds, [[17]]) == ([17], True)
    assert len(trials) == 2  # the guess, and that it cannot go either


def test_a_single_cause_is_found_in_logarithmically_many_trials() -> None:
    trials = []

    def holds(some: list[int]) -> bool:
        trials.append(some)
        return 700 in some

    assert minimize(list(range(1024)), holds) == ([700], True)
    assert len(trials) <= 4 * 10 + 1


def test_without_budget_it_keeps_what_is_known_to_hold() -> None:
    left = 3

    def holds(some: list[int]) -> bool:
        nonlocal left
        left -= 1
        if left < 0:
            raise OutOfBudget
        return 5 in some

    kept, minimal = minimize(ITEMS, holds)
    assert not minimal
    assert 5 in kept
    assert len(kept) < len(ITEMS)


def test_nothing_needed_leaves_nothing() -> None:
    assert minimize([1, 2, 3], lambda some: True) == ([], True)
    assert minimize([], lambda some: True) == ([], True)
