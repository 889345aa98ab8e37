"""Help in the driver: texts after a rollout's own tokens, contexts without room, a second model that writes; state."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from podium import methods, worlds
from podium.collect.driver import Driver
from podium.core.columns import Origin
from podium.core.errors import PodiumError
from podium.protocols.sampling import Sampling
from podium.protocols.scaffold import Scaffold
from podium.sampler.local import LocalSampler
from podium.sessions.train import configure, resume, train
from podium.store.run_directory import RunDirectory
from podium.strategies.requests import Ends, Plan, Play, Recite, TaskRequest, Written
from podium.worlds import Jsonl
from tests.methods.catalogue import small, tiny
from tests.sessions.test_train import numbers, weights

WORLD = worlds.get("sums", level=3)


def driver(**settings: object) -> Driver:
    policy = tiny()
    return Driver(
        LocalSampler(policy), WORLD, follow_up=policy.follow_up, written=policy.written, ends=policy.ends, **settings
    )


def request() -> TaskRequest:
    return TaskRequest(WORLD.task(0), 0, Sampling(max_tokens=8), (0, 0, 0), world=WORLD)


def test_a_recited_end_follows_a_rollouts_own_tokens() -> None:
    task = request()
    first, *rest = WORLD.solve(task.task).splitlines(keepends=True)

    def plan() -> Plan:
        ids = tiny().written(first, False)
        (ends,) = yield [Ends(ids)]
        assert ends[-1] == len(first)
        begun = Written(ids, (0.0,) * len(ids), {"entropy": (0.0,) * len(ids)}, origin=Origin.policy)
        (made,) = yield [Recite(task, ("".join(rest),), begun=begun)]
        return made  # type: ignore[return-value]

    ((rollout,),) = driver().collect([plan()])
    assert rollout.columns["text"] == WORLD.solve(task.task)
    assert rollout.columns["correct"]
    origin = list(rollout.turns[0].origin or ())
    own = len(tiny().written(first, False))
    assert origin == ["policy"] * own + ["expert"] * (len(origin) - own)


def test_a_context_that_leaves_no_room_and_a_text_that_does_not_fit_are_answered_by_nothing() -> None:
    long = "1+1=2\n" * 600

    def plan() -> Plan:
        crowded, told = yield [Play(request(), 3, context=Scaffold(long)), Recite(request(), (long,), optional=True)]
        assert crowded == told == []
        (made,) = yield [Play(request(), 2)]
        return made  # type: ignore[return-value]

    ((*rollouts,),) = driver().collect([plan()])
    assert len(rollouts) == 2


def test_another_role_writes_with_its_own_sampler() -> None:
    def plan(role: str) -> Plan:
        (made,) = yield [Play(request(), 2, role=role)]
        return made  # type: ignore[return-value]

    ((*rollouts,),) = driver(others={"hinter": LocalSampler(tiny().copy())}).collect([plan("hinter")])
    assert len(rollouts) == 2
    with pytest.raises(PodiumError, match="no such role"):
        driver().collect([plan("hinter")])


@pytest.mark.parametrize("slug", ["r3", "sage@light", "seele", "hill", "reg-grpo"])
def test_what_is_remembered_of_tasks_that_come_again_survives_a_kill_to_the_bit(slug: str, tmp_path: Path) -> None:
    source = worlds.get("sums", level=3)
    tasks = [source.task(i) for i in range(3)]
    rows = [
        {"question": t.prompt, "answer": str(t.data["answer"]), "solution": source.solve(t).rpartition("\n")[0]}
        for t in tasks
    ]
    file = tmp_path / "questions.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)))
    world = Jsonl(file=str(file), test_file=str(file), instructions=False, solution_field="solution")
    few = {"tasks": 2, "max_tokens": 32, "eval_tasks": 1, "eval_samples": 1}
    kept = {"checkpoint_every": 1, "keep_checkpoints": 3}
    train(configure(small(slug), world=world, iterations=3, lr=3e-4, **few, **kept), out=tmp_path / "whole")
    shutil.copytree(tmp_path / "whole", tmp_path / "cut")
    for later in RunDirectory(tmp_path / "cut").checkpoints()[2:]:
        shutil.rmtree(later)
    resume(tmp_path / "cut")
    # How much of the prompts a fresh sampler still knows is a matter of time, and of nothing else.
    cut, whole = ([{**line, "tokens.encoded": 0} for line in numbers(tmp_path / name)] for name in ("cut", "whole"))
    assert cut == whole
    before, after = weights(tmp_path / "whole"), weights(tmp_path / "cut")
    assert all((before[k] == after[k]).all() for k in before)


def test_every_method_with_help_names_what_it_does_with_the_scaffold() -> None:
    kept = {
        slug: getattr(methods.get(slug).rollout, "scaffold", None) for slug in ("ghpo", "scaf-grpo", "sage", "hill")
    }
    removed = {slug: getattr(methods.get(slug).rollout, "scaffold", None) for slug in ("icpo", "ruscarl", "rgr-grpo")}
    assert set(kept.values()) == {"kept"}
    assert set(removed.values()) == {"removed"}
