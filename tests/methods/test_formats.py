"""Methods that teach a format first: the stage of imitation, the reference after it, and evaluation in the format."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

import podium
from podium import methods, worlds
from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from podium.methods.catalogue import home_of
from podium.parts.annotate import FormsUsed
from podium.parts.reward import PlanPenalties, ToolUse
from podium.policy import load
from podium.protocols.answer_text import word_f1
from podium.sessions.train import configure, resume, train
from podium.store.run_directory import RunDirectory
from podium.strategies import Branching
from podium.training.config import Config
from tests.sessions.test_train import numbers, weights

SLUGS = ("hiper", "rlvmr", "himac", "iterresearch-eapo", "arpo", "spae", "pear", "gcpo-geometryzero")


@pytest.mark.parametrize("slug", SLUGS)
def test_a_method_asks_for_its_format_and_teaches_it_first(slug: str) -> None:
    imitate, *rest = methods.get(slug).leaves()
    assert rest
    asked = rest[-1].rollout
    assert imitate.rollout is not None
    assert asked is not None
    assert type(imitate.rollout.format) is type(asked.format)
    assert not methods.get(slug, imitate=0).check(worlds.get(home_of(slug).world).provides)


def test_a_run_teaches_then_reinforces_and_is_measured_in_the_format(tmp_path: Path) -> None:
    method = methods.rlvmr(n=2, imitate=1, mini_batches=1)
    config = configure(
        method,
        world="keydoor",
        world_settings={"level": 1},
        iterations=3,
        tasks=2,
        max_tokens=24,
        eval_tasks=2,
        eval_samples=1,
        max_turns=4,
        checkpoint_every=1,
        keep_checkpoints=9,
    )
    result = train(config, out=tmp_path / "run")
    assert [line.get("phase") for line in result.metrics] == [None, 0, 1, 1]
    assert result.metrics[1]["well_formed"] == 1.0  # demonstrations are
    assert all("eval.well_formed" in line for line in (result.metrics[0], result.metrics[-1]))
    # The reference is the policy after the imitation, in every later checkpoint.
    first, *later = RunDirectory(tmp_path / "run").checkpoints()
    start, taught = load("podium/tiny"), load(str(first / "policy"))
    for checkpoint in (first, *later):
        reference = load(str(checkpoint / "ref"))
        pairs = zip(reference.parameters(), taught.parameters(), start.parameters(), strict=True)
        same = [(torch.equal(a, b), torch.equal(a, c)) for a, b, c in pairs]
        assert all(equal for equal, _ in same)
        assert not all(unchanged for _, unchanged in same)
    # A run that goes on after the imitation goes on to the bit.
    shutil.copytree(tmp_path / "run", tmp_path / "cut")
    for checkpoint in RunDirectory(tmp_path / "cut").checkpoints()[1:]:
        shutil.rmtree(checkpoint)
    resume(tmp_path / "cut")
    assert numbers(tmp_path / "cut") == numbers(tmp_path / "run")
    whole, cut = weights(tmp_path / "run"), weights(tmp_path / "cut")
    assert all((whole[name] == cut[name]).all() for name in whole)
    # `podium eval` asks for the same format, without reading anything else of the method.
    found = podium.evaluate(tmp_path / "run", tasks=2, ks=(1,))
    assert "well_formed" in found
    stored = Config.of_run(RunDirectory(tmp_path / "run"), leave_out=("method",)).method
    assert stored.rollout is not None
    assert stored.rollout.format == list(method.leaves())[-1].rollout.format  # type: ignore[union-attr]
    assert not stored.objective


# -- the parts that read a format --------------------------------------------------------------------------------------


def turns(**columns: list[object]) -> Batch:
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    made = [Turn((1,), columns=row) for row in rows]
    return Batch.from_rollouts([Rollout(0, made, columns={"reward": 1.0})], dtype=torch.float64)


def test_the_price_of_a_kept_subgoal_in_other_words() -> None:
    batch = turns(
        reward=[0.0, 0.0, 1.0], switch=[True, False, False], valid=[True, True, False], reworded=[False, False, True]
    )
    found = PlanPenalties(keep=-0.3, mode="normalized", invalid=0.1, reworded=-0.3, scale=10.0)(batch)
    # keep: −0.3 / 3 turns = −0.1; the last turn: 10 − 0.1 (kept) − 0.1 (invalid) − 0.3 (reworded)
    assert found["turn.reward.plan"].tolist() == [0.0, pytest.approx(-0.1), pytest.approx(9.5)]


@pytest.mark.parametrize(
    ("forms", "formed", "all_tools", "complete"),
    [
        (["search", "python", "answer"], True, True, True),
        (["search", "answer"], True, False, True),
        (["search", "python"], True, True, False),  # no answer
        (["answer", "answer"], True, False, False),  # two
        (["search", "python", "answer"], False, True, False),
    ],
)
def test_which_tools_a_rollout_used_and_whether_it_answered(
    forms: list[str], formed: bool, all_tools: bool, complete: bool
) -> None:
    made = [Turn((1,), columns={"form": form}) for form in forms]
    batch = Batch.from_rollouts([Rollout(0, made, columns={"reward": 1.0, "well_formed": formed})])
    found = FormsUsed()(batch)
    assert (bool(found["rollout.all_tools"]), bool(found["rollout.complete"])) == (all_tools, complete)


def test_arpo_is_paid_for_the_answer_the_tools_and_the_format() -> None:
    columns = {
        "rollout.answer_f1": torch.tensor([0.5, 0.5, 0.0, 1.0], dtype=torch.float64),
        "rollout.all_tools": torch.tensor([True, False, True, True]),
        "rollout.complete": torch.tensor([True, True, True, False]),
    }
    batch = Batch.from_rewards(torch.zeros(4, dtype=torch.float64), [0] * 4, columns)
    part = ToolUse(score="rollout.answer_f1", formed="rollout.complete")
    assert part(batch)["rollout.reward"].tolist() == [pytest.approx(0.6), 0.5, 0.0, -1.0]


def test_words_in_common() -> None:
    # 2 shared of 2 and 3 words: precision 1, recall 2/3, F1 = 0.8
    assert word_f1("The old town", "old town hall") == pytest.approx(0.8)
    assert word_f1("a Gus.", "gus") == 1.0
    assert word_f1("gus", "kim") == 0.0
    assert word_f1("", "kim") == 0.0


def test_entropies_are_relative_to_the_vocabulary_of_the_model() -> None:
    turn = Turn((1, 2), tokens={"sampler.entropy": [1.0, 3.0]})
    assert Branching().entropy(turn, 1024) == pytest.approx(4 / 6.931472)  # log 1024
    assert Branching(log_vocabulary=2.0).entropy(turn, 1024) == 2.0
    with pytest.raises(podium.PodiumError, match="vocabulary is not known"):
        Branching().entropy(turn)
