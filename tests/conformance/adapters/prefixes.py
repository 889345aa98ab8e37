"""How log-probabilities are computed: shared prefixes."""

from __future__ import annotations

from typing import Any

from podium.policy.forward.grouped import grouped_attention, grouped_positions, tokens_grouped, tokens_plain
from tests.conformance.case import Case
from tests.conformance.registry import adapter


@adapter("prefix-grouper")
def prefix_grouper(case: Case) -> dict[str, Any]:
    rows = case["group_info_prefix_then_suffix_lengths"]
    scale = case.hyper.get("scale")
    return {
        "attention_output": grouped_attention(
            *(case.tensor(name) for name in "qkv"),
            rows,
            heads=case.hyper.get("heads", 1),
            scale=None if isinstance(scale, str) else scale,
        ),
        "position_ids": [grouped_positions(lengths) for lengths in rows],
        "tokens_plain": [tokens_plain(lengths) for lengths in rows],
        "tokens_grouped": [tokens_grouped(lengths) for lengths in rows],
    }
