"""The operators of PyTorch, as far as their shadows are not just the same operator in float64."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from .values import Unknown, is_float, plain, tensors

#: operators that draw their results: what they are given is no value that they compute with
RANDOM = frozenset(
    {"bernoulli", "normal", "uniform", "random", "exponential", "cauchy", "log_normal", "geometric", "poisson"}
)
#: operators that only move, repeat or choose values; of leaves they make leaves
MOVES = frozenset(
    {"clone", "_to_copy", "copy", "cat", "stack", "index", "index_select", "index_put", "_index_put_impl", "gather", "scatter"}
    | {"repeat", "flip", "roll", "constant_pad_nd", "masked_fill", "masked_scatter", "masked_select", "where", "tril", "triu"}
    | {"fill", "zero", "embedding", "take", "slice_scatter", "select_scatter", "index_copy", "index_fill", "_pin_memory"}
    | {"diag_embed", "diagonal_scatter", "as_strided_scatter", "block_diag", "unfold_copy", "repeat_interleave"}
)  # fmt: skip
#: operators that choose elements along an axis, (values, indices), and the position of `dim`
CHOOSING = {"sort": 1, "topk": 2, "max": 1, "min": 1, "median": 1, "nanmedian": 1, "kthvalue": 2, "mode": 1}
CHOOSING |= {"cummax": 1, "cummin": 1}
#: what fused attention is called; in float64 it is computed by its formula
ATTENTION = frozenset(
    {"_scaled_dot_product_flash_attention", "_scaled_dot_product_flash_attention_for_cpu"}
    | {"_scaled_dot_product_efficient_attention", "_scaled_dot_product_cudnn_attention"}
)  # fmt: skip
#: of these, those with a bias and a switch before the rate of dropout
WITH_BIAS = frozenset({"_scaled_dot_product_efficient_attention", "_scaled_dot_product_cudnn_attention"})
#: their third argument asks for a wider result of halves
OF_HALVES = frozenset({"_softmax", "_log_softmax"})


class Operator:
    """What the schema of an operator says about it."""

    def __init__(self, func: Any) -> None:
        schema = func._schema
        namespace, _, name = schema.name.partition("::")
        self.name = name.rstrip("_")
        self.is_known = namespace in ("aten", "prims")
        self.writes = tuple(
            (i, a.name, a.kwarg_only)
            for i, a in enumerate(schema.arguments)
            if a.alias_info is not None and a.alias_info.is_write
        )
        self.is_view = any(r.alias_info is not None and not r.alias_info.is_write for r in schema.returns)
        self.reshapes = torch.Tag.inplace_view in func.tags
        self.is_random = self.name in RANDOM
        self.draws = torch.Tag.nondeterministic_seeded in func.tags and self.name not in ATTENTION
        self.moves = self.name in MOVES
        self.casts = self.name in ("_to_copy", "copy")
        self.is_fresh = self.name.startswith(("new_", "empty")) or self.name.endswith("_like")

    def written(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[torch.Tensor, ...]:
        """The tensors that it writes."""
        found: list[torch.Tensor] = []
        for index, name, keyword in self.writes:
            found += tensors(kwargs.get(name) if keyword or index >= len(args) else args[index])
        return tuple(found)


describe: Callable[[Any], Operator] = functools.cache(Operator)


def compute(
    func: Any, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any
) -> list[torch.Tensor]:
    """The new floating-point results of an operator on shadows. Raises what it raises, `Unknown` where its results hang on more
    than their values. `result` is what the script got."""
    if operator.name in ATTENTION:
        return [_attention(operator.name, args, kwargs)]
    seen = list(tensors(result))
    indices = [t for t in seen if not is_float(t)]
    if indices and not operator.writes:
        if operator.name not in CHOOSING or len(seen) != 2:
            raise Unknown(f"{operator.name} chooses by values")
        return [_chosen(operator.name, args, kwargs, plain(indices[0]))]
    if operator.name in OF_HALVES and len(args) > 2:
        args = (*args[:2], False)
    written = {id(t) for t in tensors((args, kwargs)) if operator.writes}
    return [t for t in tensors(func(*args, **kwargs)) if is_float(t) and id(t) not in written]


def _chosen(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], indices: torch.Tensor) -> torch.Tensor:
    """The elements that the script's operator chose."""
    at, values = CHOOSING[name], args[0]
    dim = kwargs["dim"] if "dim" in kwargs else args[at] if len(args) > at else -1
    if not values.dim():
        return values.clone()
    if indices.dim() == values.dim():
        return values.gather(dim, indices)
    return values.gather(dim, indices.unsqueeze(dim)).squeeze(dim)


def _attention(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor:
    """Attention by its formula: the fused operators have none in float64."""
    rest = [*args[3:], None, None, None, None][:4]
    bias = rest[0] if name in WITH_BIAS else kwargs.get("attn_mask")
    dropout, causal = rest[2:] if name in WITH_BIAS else rest[:2]
    if dropout or kwargs.get("dropout_p"):
        raise Unknown(f"{name} draws random numbers")
    causal = bool(causal or kwargs.get("is_causal"))
    formula = torch.ops.aten._scaled_dot_product_attention_math
    return formula(*args[:3], bias, 0.0, causal, scale=kwargs.get("scale"))[0]  # type: ignore[no-any-return]
