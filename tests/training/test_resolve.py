"""What a configuration leaves open is filled in from the method's protocol, and only there."""

from __future__ import annotations

from pathlib import Path

import pytest

from podium import worlds
from podium.core.errors import PodiumError
from podium.core.schedule import Linear
from podium.core.shares import ShareOfRun
from podium.memories import PassRates
from podium.method import Method, Phases, Protocol, Role
from podium.methods import get
from podium.parts.objective import KL
from podium.sessions.train import train
from podium.training.config import Config, Optimizer
from podium.training.learning_rates import learning_rate
from podium.training.resolve import check_context, fill_in, fill_in_learning_rate, phase_rate

AUTHORS = Protocol(
    lr=1e-6, betas=(0.9, 0.999), weight_decay=0.1, warmup=10, iterations=100, tasks=512, max_tokens=8192, clip=0.5
)


def filled(method: Method, **settings: object) -> Config:
    config = fill_in(Config(method, **settings), worlds.get("sums"))  # type: ignore[arg-type]
    return fill_in_learning_rate(config, 1_000_000)


def test_a_method_without_a_protocol_has_the_usual_settings() -> None:
    config = filled(get("grpo").replace(protocol=None))
    assert (config.iterations, config.tasks, config.max_tokens, config.pool) == (
        60,
        16,
        worlds.get("sums").max_tokens,
        None,
    )
    assert config.optimizer == Optimizer(1e-4, (0.9, 0.99), 0.0, 0, "constant", 0.0, 1.0)


def test_a_protocol_gives_its_structure_and_an_exact_one_its_numbers() -> None:
    method = get("grpo").set("updates.mini_batches", 4).replace(protocol=AUTHORS)
    plain, exact = filled(method), filled(method.replace(protocol=AUTHORS.replace(exact=True)))
    assert (plain.tasks, plain.iterations, plain.optimizer.lr) == (16, 60, learning_rate(1_000_000, 4))
    assert plain.optimizer.warmup == 6  # 10 of 400 updates, so 6 of 240
    assert (plain.optimizer.betas, plain.optimizer.weight_decay, plain.optimizer.clip) == ((0.9, 0.999), 0.1, 0.5)
    assert (exact.tasks, exact.iterations, exact.max_tokens) == (512, 100, 8192)
    assert (exact.optimizer.lr, exact.optimizer.warmup) == (1e-6, 10)


def test_what_is_given_overrides_the_protocol() -> None:
    method = get("grpo").replace(protocol=AUTHORS.replace(exact=True))
    config = filled(method, tasks=3, iterations=2, max_tokens=9, optimizer=Optimizer(lr=0.5, weight_decay=0.0))
    assert (config.tasks, config.iterations, config.max_tokens) == (3, 2, 9)
    assert (config.optimizer.lr, config.optimizer.weight_decay, config.optimizer.clip) == (0.5, 0.0, 0.5)


def test_shares_become_numbers_of_the_run() -> None:
    method = get("grpo") | KL("k3", coefficient=Linear(0.1, 0.0, over=ShareOfRun(0.5)))
    terms = {type(term).__name__: term for term in filled(method, iterations=10).method.objective}
    assert terms["KL"].coefficient == Linear(0.1, 0.0, over=5)


def test_tasks_come_back_where_a_method_remembers_them() -> None:
    remembering = get("grpo").replace(protocol=AUTHORS) | PassRates()
    assert filled(remembering, tasks=8).pool == 32
    assert filled(remembering, tasks=8, pool=5).pool == 5
    assert filled(remembering.replace(protocol=None), tasks=8).pool is None  # as such a method always was
    assert filled(get("grpo").replace(protocol=AUTHORS)).pool is None


def test_answers_that_the_context_cannot_hold_are_refused() -> None:
    exact = filled(get("grpo").replace(name="grpo@paper", protocol=AUTHORS.replace(exact=True)))
    with pytest.raises(PodiumError, match=r"^grpo@paper samples answers of 8192 tokens.*max_tokens=256"):
        check_context(exact, 512)
    check_context(filled(get("grpo").replace(protocol=AUTHORS)), 512)


def test_phases_and_roles_keep_the_ratios_of_their_learning_rates(tmp_path: Path) -> None:
    imitate = get("grpo").replace(name="imitate", protocol=Protocol(lr=1e-5))
    improve = get("grpo").replace(name="improve", protocol=Protocol(lr=1e-6))
    both = Phases(imitate.until(1), improve)
    assert (phase_rate(both, imitate), phase_rate(both, improve)) == (pytest.approx(10), 1.0)
    assert phase_rate(get("grpo"), get("grpo")) == 1.0
    small = {"world": "sums", "tasks": 2, "eval_tasks": 2, "eval_samples": 1, "checkpoint_every": 0, "eval_every": 0}
    ppo = get("ppo").replace(roles=(Role("critic", lr_ratio=5.0),))
    rates: dict[str, float] = {}

    def watch(run: object, _: object) -> None:
        for name, learner in run.trainer.learners.items():  # type: ignore[attr-defined]
            rates[name] = learner.optimizer.param_groups[0]["lr"]

    train(ppo, out=tmp_path / "run", iterations=1, lr=1e-5, progress=watch, **small)
    assert rates == {"policy": pytest.approx(1e-5), "critic": pytest.approx(5e-5)}
    seen = []
    train(
        both,
        out=tmp_path / "phases",
        iterations=2,
        lr=1e-5,
        progress=lambda run, _: seen.append(run.trainer.learners["policy"].optimizer.param_groups[0]["lr"]),
        **small,
    )
    assert seen[1:] == [pytest.approx(1e-4), pytest.approx(1e-5)]


def test_a_pool_brings_tasks_back(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    small = {"world": "sums", "eval_tasks": 2, "eval_samples": 1, "checkpoint_every": 0, "eval_every": 0}
    result = train(get("grpo", n=2), out=tmp_path / "run", iterations=4, tasks=2, pool=4, **small)
    files = sorted((result.path / "rollouts").glob("*.parquet"))
    tasks = [set(pq.read_table(file)["task"].to_pylist()) for file in files]
    assert len(set().union(*tasks)) == 4
    assert tasks[0] | tasks[1] == tasks[2] | tasks[3]
