"""vLLM samples with the trainer's weights: in this process and behind its own server, renewed after each update."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("vllm")

from podium import methods, policy
from podium.protocols.sampling import Generate, Sampling
from podium.sampler.outside.in_process import VLLMSampler
from podium.sessions.train import train

os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", "nobind")
TINY = Path(policy.__file__).parents[1] / "models" / "tiny"
SMALL = {"enforce_eager": True, "max_num_seqs": 64}
RUN = {"tasks": 4, "iterations": 3, "eval_every": 0, "eval_tasks": 4, "max_tokens": 24, "lr": 1e-3}
CASES: dict[str, dict[str, Any]] = {
    "plain": {"method": "grpo", "world": "sums", "level": 1},
    "several turns": {"method": "gigpo", "world": "keydoor", "level": 1},
    "truncated": {
        "method": methods.get("grpo").set("rollout.draw.top_k", 20).set("rollout.draw.top_p", 0.8),
        "world": "sums",
        "level": 1,
    },
}


@pytest.fixture(scope="module")
def sampler() -> VLLMSampler:
    return VLLMSampler(policy.load("podium/tiny"), **SMALL)


def prompts(sampler: VLLMSampler) -> list[Generate]:
    texts = [f"{a} + {b} =" for a in range(2, 10) for b in range(2, 6)]
    asked = [sampler.encode([{"role": "user", "content": text}]) for text in texts]
    return [Generate(ids, 2, Sampling(max_tokens=16), (5, number)) for number, ids in enumerate(asked)]


def gap(sampler: VLLMSampler) -> float:
    requests = prompts(sampler)
    rows = [
        (request.context, done)
        for request, group in zip(requests, sampler.generate(requests), strict=True)
        for done in group
    ]
    expected = sampler.policy.score([context for context, _ in rows], [done.ids for _, done in rows])
    return float((torch.cat([torch.tensor(done.logp) for _, done in rows]) - torch.cat(expected)).abs().mean())


@pytest.mark.parametrize(
    "group", ["embed_tokens", "norm", "q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj", "."]
)
def test_every_group_of_weights_is_renewed(sampler: VLLMSampler, group: str) -> None:
    """Among them the head, which shares the embedding's weights and has a packed copy of them on a CPU."""
    with torch.no_grad():
        for name, p in sampler.policy.model.named_parameters():
            if group in name:
                p.add_(0.02 * float(p.std()) * torch.randn(p.shape, generator=torch.Generator().manual_seed(1)))
    sampler.policy.bump()
    assert gap(sampler) < 1e-5


def test_the_same_seeds_give_the_same_tokens_in_any_batch(sampler: VLLMSampler) -> None:
    requests = prompts(sampler)
    together = sampler.generate(requests)
    assert [c.ids for c in sampler.generate(requests[3:4])[0]] == [c.ids for c in together[3]]


@pytest.mark.parametrize("case", CASES)
def test_training_in_this_process(case: str, tmp_path: Path) -> None:
    trained(CASES[case], {"sampler": "vllm", "sampler_settings": SMALL}, tmp_path)


@pytest.mark.parametrize("case", CASES)
def test_training_on_a_server(server: str, case: str, tmp_path: Path) -> None:
    trained(CASES[case], {"sampler": f"openai:{server}"}, tmp_path)


def trained(case: dict[str, Any], settings: dict[str, Any], folder: Path) -> None:
    method, world = case["method"], {name: value for name, value in case.items() if name != "method"}
    train(method, out=folder / "run", **world, **RUN, **settings)
    lines = [json.loads(line) for line in (folder / "run" / "metrics.jsonl").read_text("utf-8").splitlines()]
    gaps = [line["sampler_gap"] for line in lines if "sampler_gap" in line]
    assert gaps
    assert max(gaps) < 1e-5


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(TINY), "--host", "127.0.0.1"]
    command += ["--port", str(port), "--dtype", "float32", "--enforce-eager", "--max-model-len", "512"]
    command += ["--no-enable-chunked-prefill", "--logprobs-mode", "processed_logprobs", "--max-logprobs", "256"]
    command += ["--worker-extension-cls", "podium.policy.engine_weights.RenewsWeights"]
    process = subprocess.Popen(command, env={**os.environ, "VLLM_SERVER_DEV_MODE": "1", "VLLM_NO_USAGE_STATS": "1"})
    try:
        for _ in range(600):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5)
                break
            except (urllib.error.URLError, OSError):
                assert process.poll() is None, "the server ended while it was starting"
                time.sleep(0.5)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()
        process.wait(30)
