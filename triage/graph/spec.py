"""What the walker and the checks must know about a tool, without knowing the tool."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

#: From cheap to dear. A node's layer is that of the dearest capability it needs.
LAYERS = ("free", "compile", "run", "hardware")
LAYER_OF_NEED = {"tilelang": "compile", "nvcc": "compile", "execute": "run", "cxx": "run", "cuda": "hardware"}


@dataclass(frozen=True)
class ToolSpec:
    """A tool as the graph sees it.

    `adds` names the facts it may add, `seconds` estimates its cost from the facts known so far. A tool with `built =
    False` is planned only: its node is walked as skipped, so that the graph can already show the way.
    """

    name: str
    title: str
    adds: tuple[str, ...] = ()
    seconds: Callable[[Mapping[str, Any]], float] = lambda facts: 0.0
    built: bool = True
    #: the command that runs this step on a machine that can
    elsewhere: str | None = None
    #: steps the budget never skips: without them there is no verdict at all
    essential: bool = False


def layer(needs: tuple[str, ...]) -> str:
    """The layer of a node with these needs; an unknown need counts as hardware (`ncu`, `compute-sanitizer`…)."""
    ranks = [LAYERS.index(LAYER_OF_NEED.get(need, "hardware")) for need in needs]
    return LAYERS[max(ranks, default=0)]
