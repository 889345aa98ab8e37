"""What the reference numbers rest on is said as the vector files say it."""

from __future__ import annotations

import pytest

from podium.docs.evidence import BASES, VECTORS, Evidence, evidence
from podium.docs.method_page import index, method_page
from podium.methods import RECIPES


@pytest.mark.parametrize(
    ("source", "basis"),
    [
        ("reference code volcengine/verl verl/core_algos.py compute_policy_loss_gspo", "code"),
        ("mask: reference code huggingface/trl trl/x.py f; loss: own implementation", "mixed"),
        ("own implementation (transcribed from some-lab/Some-Repo a/b.py f)", "transcribed"),
        ("own implementation of the formula (sigmoid/tanh form as in a port)", "reading"),
        ("own implementation of the paper's formula", "reading"),
    ],
)
def test_the_basis_of_a_source(source: str, basis: str) -> None:
    assert Evidence(1, source).basis == basis


def test_repositories_are_named() -> None:
    source = "reference code NVlabs/DLER verl-dler/verl/core_algos.py f; as in PRIME-RL/PRIME core"
    assert Evidence(2, source).repositories == ("NVlabs/DLER", "PRIME-RL/PRIME")
    assert str(Evidence(2, source)) == "2 reference cases: published code, run (NVlabs/DLER, PRIME-RL/PRIME)"


def test_every_method_says_what_its_numbers_rest_on() -> None:
    counts = dict.fromkeys(BASES, 0)
    for file in VECTORS.glob("*.json"):
        found = evidence(file.stem)
        assert found is not None
        counts[found.basis] += 1
    assert sum(counts.values()) == len(list(VECTORS.glob("*.json")))
    assert all(counts.values())
    assert "Held to " in method_page(RECIPES["gspo"])
    assert "volcengine/verl" in method_page(RECIPES["gspo"])
    assert BASES["reading"] in index()
    assert evidence("no-such-method") is None
