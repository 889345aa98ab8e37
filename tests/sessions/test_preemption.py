"""SIGTERM and SIGUSR1: a run stops wherever it is, with a checkpoint, and goes on to the bit."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from podium import methods
from podium.cli import main
from podium.collect.driver import Driver
from podium.core.errors import Unfinished
from podium.protocols.world import Answer, Feedback, Task
from podium.sampler.local import LocalSampler
from podium.sessions import compare, train
from podium.sessions.train import Result, configure, resume
from podium.store import run_directory
from podium.store.run_directory import RunDirectory
from podium.training import loop, preemption
from podium.training.preemption import StopRequest
from podium.training.trainer import Trainer
from tests.sessions.test_train import numbers, small, weights

CONFIG = small(methods.get("grpo", n=4, mini_batches=1), iterations=3, eval_every=1, checkpoint_every=0)
HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "run"
    train.train(CONFIG, out=path)
    return path


@pytest.fixture(autouse=True)
def handlers_are_put_back() -> Iterator[None]:
    before = [signal.getsignal(number) for number in HANDLED]
    yield
    assert [signal.getsignal(number) for number in HANDLED] == before


def signalled(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, call: int, *numbers: int, then_s: float = 0.0
) -> None:
    """Send signals to this process when owner.name is called for the `call`-th time."""
    inner, calls = getattr(owner, name), iter(range(1, 1_000_000))

    def counted(*args: Any, **kwargs: Any) -> Any:
        if next(calls) == call:
            for number in numbers or (signal.SIGTERM,):
                signal.raise_signal(number)
            time.sleep(then_s)
        return inner(*args, **kwargs)

    monkeypatch.setattr(owner, name, counted)


def finished_as(whole: Path, path: Path) -> bool:
    assert resume(path).finished
    same = all((weights(path)[k] == w).all() for k, w in weights(whole).items())
    return same and numbers(path) == numbers(whole)


@pytest.mark.parametrize(
    ("owner", "name", "call", "saved"),
    [
        (train, "_evaluation", 1, 0),  # before training
        (Driver, "collect", 2, 0),  # the first iteration: the evaluation before it is one collection
        (LocalSampler, "poll", 9, None),
        (Driver, "collect", 4, 1),  # the second iteration
        (loop, "keep_groups", 2, 1),  # sampled, but not trained
        (StopRequest, "forbid", 7, 2),  # the last moment before the updates of the third
        (Trainer, "step", 2, 2),  # an update: the iteration ends first
        (Driver, "collect", 5, 2),  # the evaluation after the second iteration
        (RunDirectory, "write_rollouts", 2, 2),
        (RunDirectory, "append_metrics", 3, 2),
    ],
)
def test_a_run_stops_wherever_it_is_and_goes_on_to_the_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: Path, owner: Any, name: str, call: int, saved: int | None
) -> None:
    with monkeypatch.context() as patched:
        signalled(patched, owner, name, call)
        result = train.train(CONFIG, out=tmp_path / "run")
    assert (result.finished, result.preempted, result.lost) == (False, "SIGTERM", 0)
    assert result.saved == saved or saved is None
    assert finished_as(whole, tmp_path / "run")


def test_groups_that_an_abandoned_iteration_has_carried_over_are_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    method = methods.get("ngrpo", n=4, mini_batches=1)
    config = small(method, world="sums", level=2, tasks=3, lr=3e-4, iterations=4, eval_every=0, checkpoint_every=0)
    train.train(config, out=tmp_path / "whole")
    assert any(line["groups.waiting"] for line in numbers(tmp_path / "whole")[3:])
    with monkeypatch.context() as patched:
        signalled(patched, StopRequest, "forbid", 5)  # in the third iteration, after its groups were carried over
        train.train(config, out=tmp_path / "run")
    assert finished_as(tmp_path / "whole", tmp_path / "run")


def test_a_run_stopped_while_it_loads_has_written_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    signalled(monkeypatch, train, "build_run", 1, signal.SIGUSR1)
    result = train.train(CONFIG, out=tmp_path / "run")
    assert (result.preempted, result.metrics) == ("SIGUSR1", [])
    assert not (tmp_path / "run").exists()


def stopped_before_an_evaluation(path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    with monkeypatch.context() as patched:
        signalled(patched, Driver, "collect", 5)
        train.train(CONFIG, out=path)
    return path


def test_a_run_is_stopped_twice_during_the_same_evaluation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: Path
) -> None:
    path = stopped_before_an_evaluation(tmp_path / "run", monkeypatch)
    assert [line["iteration"] for line in RunDirectory(path).metrics()] == [0, 1]  # the second is not evaluated
    with monkeypatch.context() as patched:
        signalled(patched, Driver, "collect", 1)
        assert resume(path).saved == 2
    with monkeypatch.context() as patched:  # evaluated, and stopped while sampling the third
        signalled(patched, Driver, "collect", 2)
        assert resume(path).saved == 2
    assert finished_as(whole, path)


def test_a_run_killed_after_a_postponed_evaluation_does_not_write_its_metrics_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: Path
) -> None:
    path = stopped_before_an_evaluation(tmp_path / "run", monkeypatch)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(loop, "collect_round", killed)
        with pytest.raises(KeyboardInterrupt):
            resume(path)
    assert [line["iteration"] for line in RunDirectory(path).metrics()] == [0, 1, 2]
    assert finished_as(whole, path)


def test_an_update_longer_than_the_grace_period_is_left_and_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: Path
) -> None:
    path, told = tmp_path / "run", list[str]()
    with monkeypatch.context() as patched:
        signalled(patched, Trainer, "step", 3, then_s=9.0)
        begun = time.monotonic()
        result = train.train(CONFIG.replace(grace_s=0.3, checkpoint_every=1), out=path, tell=told.append)
        assert time.monotonic() - begun < 6
    assert (result.preempted, result.saved, result.lost) == ("SIGTERM", 2, 0)
    assert told[-1] == "SIGTERM: checkpointing after this iteration, if it ends within 0.3 s …"
    assert finished_as(whole, path)


def test_what_no_checkpoint_holds_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: Path) -> None:
    with monkeypatch.context() as patched:
        signalled(patched, Trainer, "step", 3, then_s=9.0)
        result = train.train(CONFIG.replace(grace_s=0.3), out=tmp_path / "run")
    assert (result.saved, result.lost) == (0, 2)
    assert finished_as(whole, tmp_path / "run")


def test_a_second_signal_ends_the_run_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: Path) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(preemption, "SAME_S", 0.0)
        signalled(patched, Trainer, "step", 2, signal.SIGUSR1, signal.SIGTERM)
        result = train.train(CONFIG, out=tmp_path / "run")
    assert (result.preempted, result.saved, result.lost) == ("SIGUSR1", 0, 1)
    assert finished_as(whole, tmp_path / "run")


def test_a_second_signal_ends_the_writing_of_a_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: Path
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(preemption, "SAME_S", 0.0)
        signalled(patched, Trainer, "step", 2)
        signalled(patched, run_directory, "atomic_directory", 1, signal.SIGTERM)
        result = train.train(CONFIG, out=tmp_path / "run")
    assert (result.saved, result.lost) == (0, 2)
    assert finished_as(whole, tmp_path / "run")


def test_signals_in_quick_succession_are_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    signalled(monkeypatch, Trainer, "step", 2, signal.SIGTERM, signal.SIGTERM, signal.SIGUSR1)
    assert train.train(CONFIG, out=tmp_path / "run").saved == 2


def test_a_run_that_ends_before_its_checkpoint_is_due_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    signalled(monkeypatch, RunDirectory, "append_metrics", 4)  # the last iteration's
    result = train.train(CONFIG, out=tmp_path / "run")
    assert (result.finished, result.preempted) == (True, "")


class Slow(Answer):
    """A world that is waited for, and that catches whatever it can."""

    name = "slow"

    def task(self, index: int, split: str = "train") -> Task:
        return Task(f"{split}/{index}", f"echo: {index}")

    def grade(self, task: Task, text: str) -> Feedback:
        time.sleep(30)
        return Feedback()


def test_a_run_that_waits_for_its_world_stops_within_seconds(tmp_path: Path) -> None:
    timer = threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGTERM))
    config = configure(methods.get("grpo", n=2), world=Slow(), tasks=2, eval_tasks=1, eval_samples=1, act_limit_s=60)
    timer.start()
    begun = time.monotonic()
    result = train.train(config, out=tmp_path / "run")
    assert result.preempted == "SIGTERM"
    assert time.monotonic() - begun < 15


def test_a_run_in_another_thread_handles_no_signals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen, results = list[Any](), list[Result]()

    def noted(run: object) -> str:
        seen.append(signal.getsignal(signal.SIGTERM))
        return ""

    monkeypatch.setattr(train, "_first_evaluation", noted)
    work = threading.Thread(target=lambda: results.append(train.train(small(iterations=1), out=tmp_path / "run")))
    before = signal.getsignal(signal.SIGTERM)
    work.start()
    work.join()
    assert seen == [before]
    assert results[0].finished


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # it has threads and forks, as a world may
def test_a_forked_child_ends_by_the_signal(tmp_path: Path) -> None:
    stop, told = StopRequest(grace_s=60.0), list[str]()
    stop.tell = told.append
    with stop.on_preemption():
        child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,))
        child.start()
        child.terminate()
        child.join(10)
        assert child.exitcode == -signal.SIGTERM
    assert not stop.preempted


def test_the_command_ends_with_a_code_of_its_own_and_says_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run"
    small_run = [
        "--iterations",
        "3",
        *(x for s in ("tasks=2", "eval_tasks=2", "n=2", "mini_batches=1") for x in ("--set", s)),
    ]
    with monkeypatch.context() as patched:
        signalled(patched, Trainer, "step", 2)
        assert main(["train", "--out", str(path), "--grace", "40", *small_run]) == 75
    out, err = capsys.readouterr()
    assert "SIGTERM: checkpointing after this iteration, if it ends within 40 s …" in out
    assert err.strip() == (
        f"Error: Stopped by SIGTERM with a checkpoint of iteration 2. To continue: podium train --resume {path}"
    )
    assert main(["train", "--quiet", "--resume", str(path), "--grace", "10"]) == 0
    with monkeypatch.context() as patched:
        signalled(patched, train, "build_run", 1)
        assert main(["train", "--quiet", "--out", str(tmp_path / "other"), *small_run]) == 75
    assert "before the run began. The same command starts it." in capsys.readouterr().err


def test_a_comparison_is_resumed_by_the_same_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few: dict[str, Any] = {"iterations": 2, "tasks": 2, "eval_tasks": 2, "world": "echo", "level": 1}
    run: Callable[[], Any] = lambda: compare.compare(["grpo", "rloo"], seeds=1, n=2, out=tmp_path, **few)  # noqa: E731
    with monkeypatch.context() as patched:
        signalled(patched, Trainer, "step", 3)
        with pytest.raises(Unfinished, match="The same command goes on from there"):
            run()
    assert Unfinished.exit_code == 75
    assert len(run().rows) == 2
