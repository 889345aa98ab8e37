"""How log-probabilities are computed: shared prefixes."""

from __future__ import annotations

from typing import Any

from tests.conformance.case import Case
from tests.conformance.registry import adapter
from tests.policy.shared_prefixes import packed_row, row_attention


@adapter("prefix-grouper")
def prefix_grouper(case: Case) -> dict[str, Any]:
    rows = case["group_info_prefix_then_suffix_lengths"]
    scale = case.hyper.get("scale")
    packed = [packed_row(lengths) for lengths in rows]
    return {
        "attention_output": row_attention(
            *(case.tensor(name) for name in "qkv"),
            rows,
            heads=case.hyper.get("heads", 1),
            scale=None if isinstance(scale, str) else scale,
        ),
        "position_ids": [row.position[: row.count].tolist() for row in packed],
        "tokens_plain": [row.tokens for row in packed],
        "tokens_grouped": [row.count for row in packed],
    }
