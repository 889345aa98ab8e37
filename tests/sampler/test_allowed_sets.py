"""Sampler and trainer agree on what could be drawn."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch

from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from podium.core.errors import PodiumError
from podium.core.signal import Signal
from podium.core.token_sets import TokenSets
from podium.policy import Policy
from podium.policy.model.load import load
from podium.protocols.grammar import Pattern, Routed, json_pattern
from podium.protocols.sampling import ALLOWED, Completion, Generate, Sampling
from podium.sampler.local import LocalSampler

LOGP, ENTROPY = Signal("logp", of="now"), Signal("entropy", of="now")
CALL = Pattern(json_pattern({"add": {"a": "integer", "b": "integer"}, "stop": {}}))
DRAWS: dict[str, dict[str, Any]] = {
    "all": {},
    "top-k and top-p": {"top_k": 20, "top_p": 0.8},
    "min-p": {"min_p": 0.1, "temperature": 1.3},
    "greedy": {"temperature": 0.0},
    "pattern": {"grammar": Pattern(r"[1-9][0-9]{0,2}(\+[1-9][0-9]?)?")},
    "pattern and top-p": {"grammar": Pattern("(answer|calc): [0-9+]+"), "top_p": 0.7, "temperature": 1.5},
    "json": {"grammar": CALL},
    "device": {"grammar": Routed((("<|reserved_28|>", " [1-9]"),)), "temperature": 2.0},
}


def sampled(
    policy: Policy, paged: bool | None, prefix: tuple[int, ...] = (), **draw: Any
) -> tuple[Batch, list[Completion]]:
    context = policy.encode([{"role": "user", "content": "12+34"}])
    sampling = Sampling(max_tokens=40, **draw)
    request = Generate(context, 12, sampling, prefix=prefix, capture=("entropy", ALLOWED))
    (completions,) = LocalSampler(policy, slots=5, paged=paged).generate([request])
    rollouts = []
    for c in completions:
        values = {"logp": c.logp, **c.captured}
        tokens: dict[str, Any] = {f"sampler.{name}": values[name] for name in values}
        rollouts.append(Rollout("task", [Turn(c.ids, (*context, *prefix), tokens=tokens)]))
    return Batch.from_rollouts(rollouts), completions


def check_agreement(policy: Policy, batch: Batch, temperature: float, close: float) -> None:
    with torch.no_grad():
        scored = policy.signals(batch, [LOGP, ENTROPY], temperature=temperature or 1.0)
    assert float((scored[LOGP] - batch["token.sampler.logp"]).abs().max()) < close
    assert float((scored[ENTROPY] - batch["token.sampler.entropy"]).abs().max()) < close
    sets, numbers = TokenSets.of(batch, torch.device("cpu"))
    assert sets.mask(numbers, policy.vocabulary).gather(1, batch["token.id"][:, None]).all()


@pytest.mark.parametrize("name", DRAWS)
def test_masked_log_probabilities_agree_on_both_paths(name: str) -> None:
    policy, draw = load("podium/tiny"), DRAWS[name]
    texts = []
    for paged in (False, True):
        batch, completions = sampled(policy, paged, **draw)
        check_agreement(policy, batch, draw.get("temperature", 1.0), 5e-5)
        texts.append([policy.text(c.ids) for c in completions])
    assert texts[0] == texts[1]


def test_tokens_outside_a_set_have_a_probability_of_exactly_zero() -> None:
    policy = load("podium/tiny")
    batch, _ = sampled(policy, False, top_k=2)
    everything = Signal("top", of="now", k=policy.vocabulary)
    with torch.no_grad():
        top = policy.signals(batch, [everything])[everything]
    assert ((top[..., 1].exp() > 0).sum(1) == 2).all()


def test_calls_that_have_ended_are_valid_json() -> None:
    policy = load("podium/tiny")
    _, completions = sampled(policy, False, grammar=CALL)
    ended = [policy.text(c.ids) for c in completions if c.stop == "end"]
    assert ended
    assert {json.loads(text)["name"] for text in ended} <= {"add", "stop"}


def test_a_turn_that_has_begun_is_continued_within_its_grammar() -> None:
    policy = load("podium/tiny")
    begun = policy.written("1", False)
    batch, completions = sampled(policy, False, begun, grammar=Pattern("1[2-3]"))
    assert {policy.text(c.ids) for c in completions} <= {"2", "3"}
    check_agreement(policy, batch, 1.0, 5e-5)
    with pytest.raises(PodiumError, match="which its grammar does not allow"):
        sampled(policy, False, begun, grammar=Pattern("[2-3]+"))


def test_gradients_do_not_reach_tokens_that_could_not_be_drawn() -> None:
    policy = load("podium/tiny")
    batch, _ = sampled(policy, False, grammar=Pattern("7"))
    grad = Signal("logp", of="now", grad=True)
    logp = policy.signals(batch, [grad], grad=True)[grad]
    assert logp.abs().max() < 1e-6  # one token at a time is left
    logp.sum().backward()
    assert all(p.grad is None or float(p.grad.abs().max()) < 1e-5 for p in policy.parameters())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("name", DRAWS)
def test_a_gpu_records_what_could_be_drawn(name: str) -> None:
    policy, draw = load("podium/tiny"), DRAWS[name]
    policy.model.to("cuda")
    policy.bump()
    batch, _ = sampled(policy, None, **draw)
    check_agreement(policy, batch, draw.get("temperature", 1.0), 1e-2)
