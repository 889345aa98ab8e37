"""Grammars of the package outlines_core: valid JSON, and a sampler and a trainer that agree on it."""

from __future__ import annotations

import json

import pytest

from podium.core.errors import PodiumError
from podium.policy.model.load import load
from podium.protocols.schema_grammar import JsonSchema
from tests.sampler.test_allowed_sets import check_agreement, sampled

CALL = {
    "type": "object",
    "properties": {
        "name": {"enum": ["add", "stop"]},
        "places": {"type": "array", "items": {"enum": [1, 2, 3]}, "minItems": 1, "maxItems": 2},
    },
    "required": ["name", "places"],
}


def test_text_is_no_schema() -> None:
    with pytest.raises(PodiumError, match="not valid JSON"):
        JsonSchema("{name: add}")


@pytest.mark.parametrize("paged", [False, True])
def test_calls_follow_their_schema_and_log_probabilities_agree(paged: bool) -> None:
    pytest.importorskip("outlines_core", reason="outlines_core is not installed")
    policy = load("podium/tiny")
    batch, completions = sampled(policy, paged, grammar=JsonSchema(json.dumps(CALL)))
    check_agreement(policy, batch, 1.0, 5e-5)
    ended = [json.loads(policy.text(c.ids)) for c in completions if c.stop == "end"]
    assert ended
    for call in ended:
        assert call["name"] in ("add", "stop")
        assert 1 <= len(call["places"]) <= 2
        assert set(call["places"]) <= {1, 2, 3}


def test_a_schema_that_says_nothing_usable_is_refused() -> None:
    pytest.importorskip("outlines_core", reason="outlines_core is not installed")
    with pytest.raises(PodiumError, match="No automaton can be made"):
        sampled(load("podium/tiny"), False, grammar=JsonSchema('{"type": "nothing"}'))
