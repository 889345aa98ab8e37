"""Runs that go on: more iterations, another run's weights as a start, and a model for other tools."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from podium.cli.app import main
from podium.core.errors import PodiumError
from podium.evaluation.passk import share_interval
from podium.policy import load
from podium.sessions.evaluate import evaluate
from podium.sessions.export_run import export_run
from podium.sessions.train import resume, starting_weights, train
from podium.store.run_directory import RunDirectory
from podium.training.config import Config
from tests.sessions.test_train import numbers, small, weights


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "first"
    train(small(iterations=2, schedule="constant", warmup=0), out=path)
    return path


def test_a_finished_run_goes_on_as_if_it_had_been_longer(run: Path, tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    train(small(iterations=4, schedule="constant", warmup=0), out=whole)
    short = tmp_path / "short"
    train(small(iterations=2, schedule="constant", warmup=0), out=short)
    assert main(["train", "--resume", str(short), "--iterations", "4", "--quiet"]) == 0
    assert numbers(short)[-1]["iteration"] == 4
    assert all(torch.equal(tensor, weights(whole)[name]) for name, tensor in weights(short).items())
    assert Config.from_yaml((short / "config.yaml").read_text()).iterations == 4
    with pytest.raises(PodiumError, match="has done 4 iterations already: 3 in all would be fewer"):
        resume(short, iterations=3)
    assert resume(short).finished  # the number is kept


def test_a_run_starts_from_the_newest_starting_weights_another(run: Path, tmp_path: Path) -> None:
    second = tmp_path / "second"
    train(small(iterations=1, model=str(run)), out=second)
    start = load(Config.from_yaml((second / "config.yaml").read_text()).model)
    assert start.name.endswith("first/checkpoints/iteration-000002/policy")
    stored = weights(run)
    assert all(torch.equal(p, stored[name]) for name, p in start.named_parameters() if name in stored)
    assert starting_weights("podium/tiny") == "podium/tiny"


def test_transformers_reads_an_exported_model(run: Path, tmp_path: Path) -> None:
    assert main(["export", str(run), str(tmp_path / "model")]) == 0
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "model")
    stored = weights(run)
    assert all(torch.equal(p, stored[name]) for name, p in model.named_parameters())
    assert AutoTokenizer.from_pretrained(tmp_path / "model").chat_template
    card = (tmp_path / "model" / "README.md").read_text()
    assert card.startswith("---\nlibrary_name: transformers")
    for fact in ("| method | grpo: ", "| base model | podium/tiny |", "| 0 | 0.", "| 2 | 0.", "95 % interval"):
        assert fact in card
    with pytest.raises(PodiumError, match="exists already"):
        export_run(run, tmp_path / "model")
    with pytest.raises(PodiumError, match="has no adapters"):
        export_run(run, tmp_path / "adapters", adapters=True)
    assert not (tmp_path / "adapters").exists()


def test_peft_reads_exported_adapters(tmp_path: Path) -> None:
    peft = pytest.importorskip("peft")
    train(small(iterations=1, lora=4), out=tmp_path / "run")
    export_run(tmp_path / "run", tmp_path / "adapters", adapters=True)
    base = AutoModelForCausalLM.from_pretrained(Path(load.__code__.co_filename).parents[2] / "models" / "tiny")
    adapted = peft.PeftModel.from_pretrained(base, tmp_path / "adapters").merge_and_unload()
    export_run(tmp_path / "run", tmp_path / "merged")
    merged = AutoModelForCausalLM.from_pretrained(tmp_path / "merged")
    for (name, one), (_, other) in zip(adapted.named_parameters(), merged.named_parameters(), strict=True):
        assert torch.allclose(one, other, atol=1e-6), name


def test_an_embedded_model_is_found_beside_a_folder_of_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "podium" / "tiny").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert 0 <= evaluate("podium/tiny", world="sums", tasks=2, ks=[1])["pass@1"].mean <= 1


def test_intervals_of_shares_stay_possible_and_never_claim_certainty() -> None:
    for shares in ([0.0] * 4, [1.0] * 4, [1.0], [0.5] * 3, [0.0, 1.0], [0.0, 0.0, 0.1], [1.0] * 1000):
        low, high = share_interval(shares)
        assert 0 <= low <= sum(shares) / len(shares) <= high <= 1
        assert low < high
    low, high = share_interval([0.0] * 4)
    assert (low, high) == pytest.approx((0.0, 0.490), abs=1e-3)  # Wilson's interval of 0 of 4


def test_a_directory_that_is_no_run_yet_is_refused_as_a_model(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(json.dumps({}))
    assert RunDirectory(tmp_path).checkpoints() == []
    with pytest.raises(PodiumError, match="has no checkpoint yet"):
        starting_weights(str(tmp_path))
