"""The hashes of claims, committed before their runs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from podium.claims.claim import MethodClaim, frozen_problems
from podium.core.errors import PodiumError

__all__ = ["FROZEN", "check_frozen", "read_frozen"]

FROZEN = Path(__file__).with_name("frozen.json")


def read_frozen() -> dict[str, list[dict[str, Any]]]:
    return json.loads(FROZEN.read_text("utf-8")) if FROZEN.is_file() else {}


def check_frozen(
    claims: Sequence[MethodClaim], frozen: Mapping[str, Sequence[Mapping[str, Any]]] | None = None
) -> None:
    """Refuse to measure what was not frozen."""
    known = read_frozen() if frozen is None else frozen
    slugs = {claim.slug for claim in claims}
    problems = frozen_problems(claims, {slug: entries for slug, entries in known.items() if slug in slugs})
    if problems:
        raise PodiumError(f"{problems[0]} Freeze claims before they are measured: python -m tools.freeze_claims")
