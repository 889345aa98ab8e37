"""Engines outside: what they are asked and answer, weights that are renewed or left stale, and what is refused."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
import torch

from podium import methods
from podium.core.errors import PodiumError
from podium.core.token_sets import set_of
from podium.policy import load
from podium.policy.engine_weights import bit_sums, stale_weights
from podium.protocols.sampling import ALLOWED, Generate, Sampling, Stop, Warmth
from podium.sampler.outside import check_name
from podium.sampler.outside.mapping import EngineAnswer, completion, engine_settings, unmapped
from podium.sampler.outside.server import ServerSampler
from podium.sessions.train import train
from tests.sampler.serving import Engine, serving

END = (2,)
TASK = {"tasks": 4, "eval_tasks": 4, "eval_every": 0, "max_tokens": 16, "level": 1}


def ask(**settings: Any) -> Generate:
    capture = settings.pop("capture", ())
    return Generate((5, 6), 2, Sampling(**settings), (7, 1), capture=capture)


# -- translation -----------------------------------------------------------------------------------------------------


def test_what_plain_sampling_asks_of_an_engine() -> None:
    found = engine_settings(ask(max_tokens=40), 0, 0, 30, END)
    seed = found.pop("seed")
    assert found == {
        "temperature": 1.0,
        "max_tokens": 30,
        "stop_token_ids": [2],
        "skip_special_tokens": False,
        "logprobs": 0,
    }
    assert 0 <= seed < 2**52


def test_each_copy_and_each_continuation_has_a_seed_of_its_own() -> None:
    plain, continued = ask(), Generate((5, 6), 2, Sampling(), (7, 1), prefix=(9,))
    seeds = {engine_settings(r, copy, 0, 30, END)["seed"] for r in (plain, continued) for copy in (0, 1)}
    assert len(seeds) == 4
    later = Generate((5, 6), 1, Sampling(), (7, 1), first=1)
    assert engine_settings(later, 0, 0, 30, END)["seed"] == engine_settings(plain, 1, 0, 30, END)["seed"]


def test_a_greedy_draw_is_not_truncated() -> None:
    found = engine_settings(ask(temperature=0.0, top_p=0.5, top_k=3), 0, 0, 30, END)
    assert not {"top_p", "top_k"} & found.keys()


@pytest.mark.parametrize(
    ("drawn", "room", "stop"),
    [
        (EngineAnswer((4, 2), (-1.0, -1.0), stopped=True), 64, Stop.end),
        (EngineAnswer((4, 3), (-1.0, -1.0), stopped=True), 64, Stop.text),
        (EngineAnswer((4, 3), (-1.0, -1.0)), 64, Stop.length),
        (EngineAnswer((4, 3), (-1.0, -1.0)), 2, Stop.context),
    ],
)
def test_why_a_completion_ended(drawn: EngineAnswer, room: int, stop: Stop) -> None:
    assert completion(ask(max_tokens=8), drawn, room, END).stop == stop


def test_what_top_k_kept_is_what_has_a_probability() -> None:
    drawn = EngineAnswer((4,), (-0.5,), [{4: -0.5, 9: -0.9, 7: -math.inf}])
    assert completion(ask(top_k=3, capture=(ALLOWED,)), drawn, 64, END).captured[ALLOWED] == (set_of([4, 9]),)
    assert completion(ask(capture=(ALLOWED,)), drawn, 64, END).captured[ALLOWED] == (None,)


@pytest.mark.parametrize(
    ("sampling", "capture", "word"),
    [
        (Sampling(warmth=Warmth()), (), "temperature"),
        (Sampling(), ("entropy",), "'entropy'"),
        (Sampling(top_p=0.9), (ALLOWED,), "top_k"),
        (Sampling(top_k=300), (ALLOWED,), "top_k"),
        (Sampling(top_p=0.9, top_k=20), (ALLOWED,), ""),
        (Sampling(top_p=0.9), (), ""),
    ],
)
def test_what_an_engine_has_no_equal_of(sampling: Sampling, capture: tuple[str, ...], word: str) -> None:
    found = unmapped(sampling, capture)
    assert word in found if word else found == ""


# -- weights ---------------------------------------------------------------------------------------------------------


def test_the_fingerprint_of_matrices_in_one_is_the_sum_of_theirs() -> None:
    a, b = torch.randn(3, 4), torch.randn(5, 4)
    whole = bit_sums(torch.cat([b, a]))
    assert whole == [32, *((x + y) % 2**63 for x, y in zip(bit_sums(a)[1:], bit_sums(b)[1:], strict=True))]
    assert bit_sums(torch.tensor([1.0, 2.0])) == [2, 0x3F800000 + 0x40000000, _square(0x3F800000, 0x40000000)]


def _square(*bits: int) -> int:
    return sum((number % 65_521) ** 2 for number in bits)


def test_one_changed_weight_is_found_and_other_layouts_are_passed_over() -> None:
    mine = {"a.q_proj.weight": torch.randn(2, 2), "a.k_proj.weight": torch.randn(2, 2), "head.weight": torch.randn(4)}
    packed = torch.cat([mine["a.q_proj.weight"], mine["a.k_proj.weight"]])

    def said(packed: torch.Tensor) -> dict[str, list[Any]]:
        other = ["torch.float32", *bit_sums(torch.zeros(16))]
        return {"a.qkv_proj.weight": ["torch.float32", *bit_sums(packed)], "head.weight": other}

    assert stale_weights(mine.items(), said(packed)) == []
    packed[3, 1] += 1e-6
    assert stale_weights(mine.items(), said(packed)) == ["a.qkv_proj.weight"]


# -- a server --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "method",
    [
        methods.get("grpo"),
        methods.get("grpo").set("rollout.draw.top_k", 20).set("rollout.draw.top_p", 0.8),
        methods.get("steer"),  # reads entropies, which the trainer computes in the sampler's place
    ],
    ids=["plain", "truncated", "entropies"],
)
def test_training_on_a_server_keeps_to_its_weights(method: Any, tmp_path: Any) -> None:
    engine = Engine(load("podium/tiny"))
    with serving(engine) as url:
        train(method, sampler=f"openai:{url}", iterations=3, out=tmp_path / "run", world="sums", lr=1e-3, **TASK)
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    gaps = [line["sampler_gap"] for line in lines if "sampler_gap" in line]
    assert gaps
    assert max(gaps) < 1e-5
    assert engine.calls.count("/collective_rpc") == 4  # at the start and after each update
    assert all(line["entropy"] > 0 for line in lines if "entropy" in line)


def test_the_same_tokens_in_any_batch() -> None:
    policy = load("podium/tiny")
    with serving(Engine(load("podium/tiny"))) as url:
        sampler = ServerSampler(policy, url)
        requests = [
            Generate(policy.encode([{"role": "user", "content": text}]), 2, Sampling(max_tokens=8), (3, number))
            for number, text in enumerate(("1 + 2", "3 + 4", "5 + 6"))
        ]
        together = sampler.generate(requests)
        alone = [sampler.generate([request])[0] for request in reversed(requests)][::-1]
        sampler.close()
    assert [[c.ids for c in group] for group in together] == [[c.ids for c in group] for group in alone]


GROUPS = ("embed_tokens", "q_proj", "o_proj", "gate_proj", "down_proj", "layernorm")


@pytest.mark.parametrize("group", GROUPS)
def test_weights_that_a_renewal_leaves_stale_are_named(group: str, tmp_path: Any) -> None:
    engine = Engine(load("podium/tiny"), stale=lambda name: group in name)
    with serving(engine) as url, pytest.raises(PodiumError, match="other weights than the trainer"):
        train("grpo", sampler=f"openai:{url}", iterations=2, out=tmp_path / "run", world="sums", lr=1e-3, **TASK)


@pytest.mark.parametrize("group", GROUPS)
def test_the_sentinel_finds_stale_weights_of_an_engine_that_says_otherwise(group: str, tmp_path: Any) -> None:
    engine = Engine(load("podium/tiny"), stale=lambda name: group in name, honest=False)
    with serving(engine) as url, pytest.raises(PodiumError, match="Sampler and trainer disagree"):
        train("grpo", sampler=f"openai:{url}", iterations=3, out=tmp_path / "run", world="sums", lr=1e-3, **TASK)


def test_a_server_of_the_other_kind_is_renewed_by_its_own_call() -> None:
    policy, engine = load("podium/tiny"), Engine(load("podium/tiny"), paths=("/update_weights_from_disk",))
    with serving(engine) as url:
        sampler = ServerSampler(policy, url)
        sampler.generate([Generate(policy.encode([{"role": "user", "content": "1 + 2"}]), 1, Sampling(max_tokens=2))])
        sampler.close()
    assert "/update_weights_from_disk" in engine.calls


# -- refusals --------------------------------------------------------------------------------------------------------


def without_logprobs(path: str, found: dict[str, Any]) -> dict[str, Any]:
    for choice in found.get("choices", ()):
        choice["logprobs"] = None
    return found


def other_tokens(path: str, found: dict[str, Any]) -> dict[str, Any]:
    return {"tokens": [1, 2, 3]} if path == "/tokenize" else found


@pytest.mark.parametrize(
    ("changes", "settings", "match"),
    [
        ({"paths": ("/v1/completions",)}, {}, "no call that gives it new weights"),
        ({"answer": other_tokens}, {}, "another tokenizer than podium/tiny"),
        ({"answer": without_logprobs}, {}, "no token ids with their log-probabilities"),
        ({"answer": lambda path, found: {"results": []} if "rpc" in path else found}, {"model": "x"}, "no model 'x'"),
    ],
)
def test_a_server_that_cannot_serve_is_named(changes: dict[str, Any], settings: Any, match: str, tmp_path: Any) -> None:
    run = {"sampler_settings": settings, "iterations": 1, "out": tmp_path / "run", "world": "sums"}
    with serving(Engine(load("podium/tiny"), **changes)) as url, pytest.raises(PodiumError, match=match):
        train("grpo", sampler=f"openai:{url}", **run, **TASK)


def test_a_server_that_is_not_there_is_named() -> None:
    with pytest.raises(PodiumError, match=r"127\.0\.0\.1:9.*cannot be reached.*--resume"):
        ServerSampler(load("podium/tiny"), "http://127.0.0.1:9/v1", retries=0)


@pytest.mark.parametrize(
    ("url", "match"), [("http://example.org/v1", "not on this machine"), ("localhost:8000", "must look like")]
)
def test_an_address_that_is_no_server_of_this_machine_is_refused(url: str, match: str) -> None:
    with pytest.raises(PodiumError, match=match):
        ServerSampler(load("podium/tiny"), url)


def test_a_misspelt_sampler_is_refused_with_the_list() -> None:
    with pytest.raises(PodiumError, match=r"local .*vllm .*openai:URL"):
        check_name("vlm")


def test_a_method_that_branches_on_what_is_being_sampled_is_refused_before_the_run(tmp_path: Any) -> None:
    with pytest.raises(PodiumError, match="of each token while it is sampled"):
        train("rose", sampler="openai:http://127.0.0.1:9/v1", iterations=1, out=tmp_path / "run", **TASK)
