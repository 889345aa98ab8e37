"""Recipes on preference pairs: their limits, their labels, and exact resumption."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from podium import methods
from podium.cli import main
from podium.core.batch import Batch
from podium.core.errors import PodiumError
from podium.core.memory import Table
from podium.memories import PairLabels
from podium.method import Phases
from podium.parts.metric import LabelAUC
from podium.parts.objective import Likelihood, Preference
from podium.parts.shape import MarkWinners
from podium.sessions.train import configure, resume, train
from podium.store.run_directory import RunDirectory

SMALL: dict[str, Any] = {"world": "sums", "level": 2, "tasks": 4, "eval_tasks": 2, "eval_samples": 1, "eval_every": 0}


def pair(label: float | None = None) -> Batch:
    """The pair of the worked example: means −0.3 and −0.55."""
    logp = torch.tensor([[-0.2, -0.4, -0.3], [-0.5, -0.6, 0.0]], dtype=torch.float64)
    columns = {"token.now.logp": logp, "token.old.logp": logp, "rollout.reward": torch.tensor([1.0, 0.0])}
    batch = Batch.from_padded(torch.tensor([[1, 1, 1], [1, 1, 0]]), ["a", "a"], columns)
    return batch if label is None else batch.with_columns({"group.label": torch.tensor([label]).double()})


def test_power_dl_has_the_worked_example() -> None:
    method = methods.power_dl()
    batch = pair(1.0)
    batch = batch.with_columns(MarkWinners()(batch))
    preference, anchor = method.objective
    assert float(preference(batch)) == pytest.approx(0.6132821, abs=1e-7)
    assert float(anchor(batch)) == pytest.approx(0.06)
    (memory,) = method.memories
    state = memory.observe(memory.initial(), batch)
    assert state["labels"].read(["a"])[0, 0].item() == pytest.approx(0.9541570, abs=1e-6)


@pytest.mark.parametrize(("strength", "end"), [(0.01, 0.512), (0.1, 0.599), (1.0, 0.837), (4.0, 0.934)])
def test_a_rare_pair_is_relabelled_and_a_frequent_one_is_fitted(strength: float, end: float) -> None:
    """A scalar pair that moves by strength · (l − σ(d)) a visit; 2000 visits from d = 0, l = 1."""
    memory, d = PairLabels(rate=0.1, temperature=1.0, score="sum", brevity=0.0), 0.0
    state = memory.initial()
    batch = Batch.from_padded(torch.ones(2, 1), ["a", "a"], {"rollout.reward": torch.tensor([1.0, 0.0])})
    for _ in range(2000):
        label = state["labels"].rows.get("a", (1.0,))[0]
        state = memory.observe(state, batch.with_columns({"token.old.logp": torch.tensor([d, 0.0]).double()}))
        d += strength * (label - 1 / (1 + math.exp(-d)))
    assert 1 / (1 + math.exp(-d)) == pytest.approx(end, abs=6e-4)


def test_labels_stay_in_range_and_of_a_task_seen_twice_the_mean_counts() -> None:
    memory = PairLabels(rate=1.0, temperature=1.0, score="sum", brevity=0.0)
    logp = torch.tensor([[80.0], [0.0], [0.0], [0.0]]).double()
    columns = {"rollout.reward": torch.tensor([1.0, 0.0, 1.0, 0.0]), "token.old.logp": logp}
    batch = Batch.from_padded(torch.ones(4, 1), ["a", "a", "b", "b"], columns).with_columns({"group.task": ["t", "t"]})
    state = memory.observe({"labels": Table(default=(1.0,))}, batch)
    assert state["labels"].rows["t"][0] == pytest.approx(0.75)  # σ(80) and σ(0)
    assert memory.scalars(state) == {"pair_label": pytest.approx(0.75)}
    for rate in (-0.1, 1.1):
        with pytest.raises(PodiumError, match=r"PairLabels\.rate"):
            PairLabels(rate=rate)


def test_the_auc_of_labels_by_hand() -> None:
    flipped = torch.tensor([False, False, True, True, False, False])
    batch = Batch.from_rewards(torch.zeros(6), [0, 0, 1, 1, 2, 2]).with_columns({"rollout.flipped": flipped})
    labels = torch.tensor([0.9, 0.5, 0.5])
    assert LabelAUC()(batch.with_columns({"group.label": labels}))["batch.label_auc"].tolist() == [0.75]
    clean = batch.with_columns({"group.label": labels, "rollout.flipped": torch.zeros(6, dtype=torch.bool)})
    assert LabelAUC()(clean)["batch.label_auc"].tolist() == [0.5]


def test_winners_are_the_best_of_groups_that_differ() -> None:
    batch = Batch.from_rewards(torch.tensor([1.0, 0.0, 0.5, 0.5]), [0, 0, 1, 1])
    assert MarkWinners()(batch)["rollout.winner"].tolist() == [True, False, False, False]


def test_power_without_anchor_is_simpo_with_a_margin_by_length() -> None:
    power = methods.power_dl(eta=0.0, rate=0.0).objective[0]
    margin = 2 * (1 / 2 - 1 / 3)
    simpo = methods.simpo().objective[0].replace(margin=margin)
    assert float(power(pair())) == pytest.approx(float(simpo(pair())))


def test_the_six_published_settings_of_simpo() -> None:
    found = {name: methods.get(f"simpo@{name}").objective[0] for name in ("mistral-base", "gemma2", "llama3-instruct")}
    numbers = {name: (1 / term.temperature, term.margin) for name, term in found.items()}
    assert numbers == {
        "mistral-base": pytest.approx((2.0, 1.6)),
        "gemma2": pytest.approx((10.0, 5.0)),
        "llama3-instruct": pytest.approx((2.5, 1.375)),
    }


def test_cpl_kl_on_one_turn_is_dpo() -> None:
    cpl = methods.cpl(first=0, alpha=0.1, bias=1.0, against="ref").objective[0]
    assert cpl == methods.dpo().objective[0]


def test_cpl_imitates_first_and_begins_anew() -> None:
    method = methods.get("cpl@kl")
    assert isinstance(method, Phases)
    first, second = method.phases
    assert (first.fresh, second.fresh) == (False, True)
    assert isinstance(first.method.objective[0], Likelihood)
    assert isinstance(second.method.objective[0], Preference)
    assert [role.source for role in method.roles] == ["phase"]
    assert len(methods.get("cpl@bc").phases[1].method.objective) == 2


@pytest.mark.parametrize(
    ("slug", "settings", "message"),
    [
        ("simpo", {"sft": -1.0}, "sft = -1.0 must be at least 0"),
        ("power-dl", {"weight": "two"}, "weight = 'two' is not 'length' or 'one'"),
        ("cpl", {"labels": "taste"}, "labels = 'taste' is not 'regret' or 'return'"),
    ],
)
def test_settings_that_make_no_sense_are_refused(slug: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(PodiumError, match=message):
        methods.get(slug, **settings)


@pytest.mark.parametrize(
    ("slug", "settings"),
    [("power-dl", {"pool": 8}), ("cpl", {"world": "keydoor", "level": 1})],
)
def test_runs_resume_to_the_bit(slug: str, settings: dict[str, Any], tmp_path: Path) -> None:
    config = configure(slug, iterations=4, checkpoint_every=1, keep_checkpoints=9, **{**SMALL, **settings})
    train(config, out=tmp_path / "whole")
    shutil.copytree(tmp_path / "whole", tmp_path / "cut")
    for later in RunDirectory(tmp_path / "cut").checkpoints()[2:]:
        shutil.rmtree(later)
    resume(tmp_path / "cut")

    def numbers(run: Path) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        return [{k: v for k, v in line.items() if k not in ("seconds", "check")} for line in lines]

    assert numbers(tmp_path / "cut") == numbers(tmp_path / "whole")


def test_a_file_of_pairs_trains_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"prompt": f"{i} + 1", "chosen": f"answer: {i + 1}", "rejected": "answer: 0"} for i in range(4)]
    (tmp_path / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    small = [word for name, x in (("tasks", 2), ("eval_tasks", 1)) for word in ("--set", f"{name}={x}")]
    command = ["train", "dpo", "--set", f"source={tmp_path / 'pairs.jsonl'}", "--iterations", "2", *small]
    assert main([*command, "--out", str(tmp_path / "run")]) == 0
    assert "All 2 parts of the method acted" in capsys.readouterr().out
    (tmp_path / "pairs.jsonl").write_text('{"prompt": "a", "chosen": "b", "rejected": "b"}\n')
    assert main([*command, "--out", str(tmp_path / "bad")]) != 0
    assert "the same text" in "".join(capsys.readouterr())
