"""T-PPO: rollouts written, and trained, in windows."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

from podium import methods
from podium.core.batch import Batch
from podium.core.errors import PodiumError
from podium.parts.advantage import GAE
from podium.sessions.train import configure
from podium.training.build import build_run
from podium.training.loop import iterate
from podium.worlds import World
from tests.conformance.helpers import credited
from tests.methods.support import short_run


def batch_of(finished: bool, values: list[float], new: int = 0) -> Batch:
    n = len(values)
    columns = {
        "token.old.value": torch.tensor([values], dtype=torch.float64),
        "token.new": torch.arange(n)[None] >= new,
        "rollout.reward": torch.ones(1, dtype=torch.float64),
        "rollout.finished": torch.tensor([finished]),
    }
    return Batch.from_padded(torch.ones(1, n), [0], columns)


def test_tppo_worked_example() -> None:
    cut, whole = (credited(methods.tppo(), batch_of(done, [0.2, 0.5, 0.4])) for done in (False, True))
    assert cut["token.advantage"].tolist() == pytest.approx([0.205, -0.1, 0.0])
    assert whole["token.advantage"].tolist() == pytest.approx([0.7465, 0.47, 0.6])


def test_finished_rollouts_have_the_advantages_of_gae() -> None:
    batch = batch_of(True, [0.2, 0.5, 0.4])
    found = credited(methods.tppo(), batch)
    plain = GAE(lam=0.95)(found)
    assert_close(found["token.advantage"], plain["token.advantage"])
    assert found["token.return"].tolist() == pytest.approx([1.0] * 3)  # Monte Carlo


def test_an_unfinished_rollout_with_lam_one_is_worth_its_last_value() -> None:
    values = [0.2, 0.5, 0.4]
    found = credited(methods.tppo(lam=1.0), batch_of(False, values))["token.advantage"]
    assert found.tolist() == pytest.approx([0.4 - v for v in values])


def test_while_the_critic_says_nothing_an_unfinished_rollout_has_no_signal() -> None:
    assert float(credited(methods.tppo(), batch_of(False, [0.0] * 3))["token.advantage"].abs().max()) == 0


def test_policy_and_critic_are_trained_on_different_tokens() -> None:
    policy, value = methods.tppo().objective
    cut = credited(methods.tppo(), batch_of(False, [0.2, 0.5, 0.4], new=2))
    assert policy.members(cut).tolist() == [False, False, True]
    assert value.members(cut).tolist() == [False] * 3
    whole = credited(methods.tppo(), batch_of(True, [0.2, 0.5, 0.4], new=2))
    assert value.members(whole).tolist() == [True] * 3


def windows(window: int, iterations: int, **settings: object) -> list[Batch]:
    method = methods.tppo(n=1, window=window, warmup=0, mini_batches=1)
    run = build_run(configure(method, world="sums", tasks=4, iterations=iterations, **settings))
    return [iterate(run)[0] for _ in range(iterations)]


def test_every_token_is_trained_once_and_the_critic_sees_it_when_the_rollout_is_done() -> None:
    trained: dict[str, int] = {}
    for batch in windows(window=6, iterations=6):
        new = batch.reduce(batch["token.new"].double(), "token", "rollout", "sum").tolist()
        length = batch["rollout.length"].tolist()
        for row, task in enumerate(batch["group.task"]):
            trained[task] = trained.get(task, 0) + int(new[row])
            assert trained[task] == length[row]  # each iteration trains what it wrote, and nothing twice
            assert new[row] <= 6
            if bool(batch["rollout.finished"][row]):
                trained.pop(task)


def test_a_window_as_long_as_the_limit_finishes_every_rollout_at_once() -> None:
    for batch in windows(window=1000, iterations=2):
        assert bool(batch["rollout.finished"].all())
        assert bool(batch["token.new"].all())


def test_every_place_is_taken_in_every_iteration() -> None:
    assert [len(batch) for batch in windows(window=5, iterations=6)] == [4] * 6


def test_an_answer_written_in_windows_and_cut_at_the_limit_counts_as_finished() -> None:
    last = windows(window=4, iterations=2, max_tokens=8)[-1]
    assert bool(last["rollout.finished"].all())
    assert int(last["rollout.length"].max()) <= 8


def test_tppo_trains(tmp_path: Path) -> None:
    last = short_run(methods.tppo(window=8, warmup=1), tmp_path / "run", iterations=4).metrics[-1]
    assert last["grad_norm.policy"] >= 0
    assert "watched.finished" in last


def test_windows_refuse_worlds_of_several_turns_before_anything_is_sampled() -> None:
    run = build_run(configure("tppo", world="sums", tasks=1))
    run.driver.world = World()  # whose episodes may have any number of turns
    with pytest.raises(PodiumError, match="several turns"):
        iterate(run)
