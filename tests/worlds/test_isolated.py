"""Worlds in processes of their own: whatever such a world does, the run goes on, and nothing of it stays."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from podium import methods, worlds
from podium.cli import main
from podium.collect.acting import Actor
from podium.core.errors import PodiumError
from podium.protocols.world import Feedback, Task, World
from podium.sandbox import unconfinable
from podium.sessions.train import configure, train
from podium.store.run_directory import RunDirectory

linux = pytest.mark.skipif(sys.platform != "linux" or bool(unconfinable()), reason="no sandbox here")

# What an action does, and the reason for which its episode then fails; empty: it does not.
MISDEEDS = {
    "loops": ("while True: pass", "the world did not answer within 1 s"),
    "computes": ("sum(range(10**12))", "the world did not answer within 1 s"),
    "exits": ("os._exit(3)", "the world's process ended with exit code 3"),
    "ends itself": ("os.kill(os.getpid(), signal.SIGTERM)", "the world's process was ended by SIGTERM"),
    "kills itself": ("os.kill(os.getpid(), signal.SIGKILL)", "the world's process "),
    "sets a timer": ("signal.setitimer(signal.ITIMER_REAL, 0.05); time.sleep(5)", "the world's process was ended by"),
    "closes all files": ("os.closerange(0, 256)", "the world's process "),
    "crashes": ("ctypes.string_at(0)", "the world's process was ended by SIGSEGV"),
    "leaves": ("sys.exit(4)", "the world raised SystemExit: 4"),
    "interrupts": ("raise KeyboardInterrupt", "the world raised KeyboardInterrupt"),
    "says too much": ("return Feedback(1.0, observation='x' * (20 << 20))", "the world answered with 20 MB, more than"),
    "gives no number": ("return Feedback(float('nan'))", "the world's reward is nan"),
    "gives an object": ("return Feedback(1.0, info={'score': object()})", "the world's info['score'] holds a object"),
    "gives nothing": ("return None", "the world answered None, not a Feedback"),
    "moves": ("os.chdir('/')", ""),
    "moves and removes": ("os.mkdir('gone'); os.chdir('gone'); os.rmdir('../gone')", ""),
    "forgets": ("os.environ.clear(); sys.path.clear()", ""),
    "limits itself": ("sys.setrecursionlimit(200)", ""),
    "handles signals": ("signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.alarm(1)", ""),
    "forks": ("os.fork()", ""),
    "starts a program": ("keep(subprocess.Popen(['sleep', '600']).pid)", ""),
    "starts and exits": ("keep(subprocess.Popen(['sleep', '600']).pid); os._exit(0)", "the world's process "),
    "starts a thread": ("threading.Thread(target=time.sleep, args=(600,)).start()", ""),
    "says where it is": ("return str(os.getppid()) + ' ' + os.path.dirname(os.environ['TMPDIR'])", ""),
    "prints": ("print('{' * 9999); os.write(1, b'noise'); sys.stderr.write('noise')", ""),
    "dies loudly": ("Loud()", ""),
}

WORLD = '''
import ctypes, os, signal, subprocess, sys, threading, time
from podium.worlds import Answer, Episode, Feedback, Task, World

STARTED = {started!r}

def keep(pid):
    with open(STARTED, "a") as file:
        print(pid, file=file)

class Loud:
    def __del__(self):
        raise RuntimeError("loud")

class Mine(Answer):
    """What an action does is in the task."""

    name = "mine"
    provides = ("rollout.correct", "rollout.answer", "rollout.score")
    blank = {{"score": 0.0}}
    act_limit_s = 1.0

    def task(self, index, split="train"):
        names = list(DEEDS) if split == "train" else ["good"]
        name = names[index % len(names)]
        data = {{"pair": (1, {{2}})}}
        return Task(f"mine/{{split}}/{{name}}/{{index}}", f"echo: {{index % 7}}", domain=name, data=data)

    def grade(self, task, text):
        assert task.data["pair"] == (1, {{2}})
        found = DEEDS.get(task.domain, good)()
        right = len(text) % 2 == 0
        if isinstance(found, str):
            return Feedback(float(right), info={{"correct": right, "answer": found, "score": len(text) / 7}})
        return found

def good():
    handlers = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGALRM)]
    return repr((os.getcwd(), "HOME" in os.environ, len(sys.path), sys.getrecursionlimit(), handlers))

DEEDS = {{}}
'''


def as_function(number: int, deed: str) -> str:
    """A misdeed as a function of the file; one that returns nothing itself is an answer like any other."""
    return f"def deed_{number}():\n    {deed}\n    return 'did'\n"


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("worlds")
    deeds = [as_function(number, deed) for number, (deed, _) in enumerate(MISDEEDS.values())]
    named = [f"DEEDS[{name!r}] = deed_{number}\n" for number, name in enumerate(MISDEEDS)]
    path = folder / "misdeeds.py"
    path.write_text(WORLD.format(started=str(folder / "started")) + "".join([*deeds, *named]))
    return path


@pytest.fixture(scope="module")
def world(file: Path) -> Iterator[World]:
    opened = worlds.isolated(f"{file}:Mine")
    yield opened
    opened.close()


def played(world: World, domain: str, texts: tuple[str, ...] = ("four",)) -> tuple[Feedback, str]:
    """What the last action in an episode gave, and why it failed."""
    actor, seen = Actor(60.0), [(Feedback(done=False), "")]
    task = Task(f"mine/train/{domain}", "echo: 1", domain=domain, data={"pair": (1, {2})})

    def act(episode: Any, left: tuple[str, ...]) -> None:
        def acted(feedback: Feedback, failure: str) -> None:
            seen.append((feedback, failure))
            act(episode, left[1:])

        if left:
            actor.act(episode, left[0], acted)
        else:
            actor.leave(episode)

    actor.open(world, task, 0, lambda episode: act(episode, texts))
    while actor.busy:
        actor.deliver(block=True)
    actor.close()
    return seen[-1]


@pytest.mark.parametrize("name", MISDEEDS)
def test_what_a_world_does_wrong_ends_only_its_episode(world: World, name: str) -> None:
    before, reason = os.getcwd(), MISDEEDS[name][1]
    usual, _ = played(world, "good")
    feedback, failure = played(world, name)
    assert failure.startswith(reason) if reason else (failure, feedback.reward) == ("", 1.0)
    assert played(world, "good") == (usual, "")  # nothing has changed for the next one
    assert os.getcwd() == before
    assert usual.info["answer"].startswith(f"({before!r}, True, ")


def processes(pids: list[int]) -> list[int]:
    """Those that run."""
    states = {pid: Path(f"/proc/{pid}/stat") for pid in pids}
    return [
        pid for pid, stat in states.items() if stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"
    ]


@linux
def test_nothing_is_left_of_a_closed_world(file: Path) -> None:
    opened: Any = worlds.isolated(f"{file}:Mine")
    for name in ("starts a program", "starts and exits", "loops", "good"):
        played(opened, name)
    feedback, _ = played(opened, "says where it is")
    server, folder = feedback.info["answer"].split()
    started = [int(line) for line in file.with_name("started").read_text().split()]
    assert len(started) >= 2
    opened.close()
    until = time.monotonic() + 5
    while processes([*started, int(server)]) and time.monotonic() < until:
        time.sleep(0.02)
    assert processes([*started, int(server)]) == []
    assert not Path(folder).exists()
    assert played(opened, "good")[1] == ""  # the next use starts them again
    opened.close()


def test_a_run_survives_whatever_its_world_does(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    count = len(MISDEEDS)
    sizes = [f"tasks={count}", "n=2", "eval_tasks=2", "eval_samples=1", "max_tokens=4"]
    small = [part for size in sizes for part in ("--set", size)]
    out = tmp_path / "run"
    assert main(["train", "--world", f"{file}:Mine", "--iterations", "1", *small, "--out", str(out)]) == 0
    assert "noise" not in capsys.readouterr().out
    rows = pq.read_table(out / "rollouts" / "iteration-000001.parquet").to_pylist()
    domains = {name for name in MISDEEDS if any(f"/{name}/" in row["task"] for row in rows)}
    assert domains == set(MISDEEDS)
    for row in rows:
        reason = MISDEEDS[row["task"].split("/")[2]][1]
        assert (row["task"], row["failure"][: len(reason) or None]) == (row["task"], reason)
    failed = sum(bool(reason) for _, reason in MISDEEDS.values())
    assert RunDirectory(out).metrics()[-1]["failures"] == 2 * failed


GOOD = '''
from podium.worlds import Answer, Episode, Feedback, Task, World

class Short(Answer):
    name = "short"

    def task(self, index, split="train"):
        return Task(f"short/{split}/{index}", f"echo: {index % 7}", data={"length": index % 5})

    def grade(self, task, text):
        return Feedback(1 / (1 + len(text)), info={"correct": len(text) == task.data["length"], "answer": text})

class Walks(World):
    """The state is what was written so far."""

    name = "walks"
    max_tokens, max_turns = 4, 3
    provides = (*World.provides, "turn.state", "turn.valid")
    blank = {"valid": False}

    def task(self, index, split="train"):
        return Task(f"walks/{split}/{index}", f"{index} plus 2")

    def reset(self, task, seed=0):
        return Walk(task.prompt, ("start", seed))

    def solve(self, task, style="short", seed=0):
        return f"{style} {seed} {task.key}"

    def close(self):
        with open(__file__ + ".closed", "a") as file:
            file.write("closed ")

class Walk(Episode):
    written = ""

    def act(self, text):
        self.written += text
        self.state, self.recap = (self.written, len(self.written)), self.written[:4]
        info = {"correct": len(self.written) % 2 == 0, "answer": text, "valid": True, "unread": object()}
        return Feedback(len(self.written) / 3, len(self.written) > 6, f"so far {len(self.written)}", self.state, info)
'''


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "good.py"
    path.write_text(GOOD)
    return path


@pytest.mark.parametrize("name", ["Short", "Walks"])
def test_a_run_is_the_same_to_the_bit_however_its_world_runs(good: Path, tmp_path: Path, name: str) -> None:
    sizes: dict[str, Any] = {"tasks": 3, "eval_tasks": 2, "eval_samples": 1, "iterations": 2}
    found = []
    for isolation in ("thread", "process"):
        config = configure(methods.get("grpo", n=4), world=f"{good}:{name}", isolation=isolation, **sizes)
        out = tmp_path / isolation
        train(config, out=out)
        files = [*sorted(out.glob("rollouts/*.parquet")), *sorted(out.glob("checkpoints/*/policy/*.safetensors"))]
        found.append([file.read_bytes() for file in files])
    assert len(found[0]) >= 3
    assert found[0] == found[1]


def test_a_copy_goes_its_own_way(good: Path) -> None:
    world = worlds.isolated(f"{good}:Walks")
    try:
        episode = world.reset(world.task(1), seed=5)
        assert (episode.observation, episode.state) == ("1 plus 2", ("start", 5))
        episode.act("ab")
        twin = episode.copy()
        assert (twin.state, twin.recap) == (("ab", 2), "ab")
        assert twin.act("c").state == ("abc", 3)
        assert episode.act("dd").state == ("abdd", 4)
        assert not any("copy" in finding or "give" in finding for finding in worlds.check_world(world, tasks=1))
        assert world.solve(world.task(1), "long", 3) == "long 3 walks/train/1"
        with pytest.raises(PodiumError, match="has no criteria"):
            world.criteria(world.task(1))
        twin.close()
        episode.close()
    finally:
        world.close()
    assert "closed" in good.with_name("good.py.closed").read_text()


def made(good: Path, changes: Callable[[str], str]) -> str:
    good.write_text(changes(GOOD))
    return f"{good}:Short"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (lambda text: "1 / 0\n" + text, "could not be loaded: ZeroDivisionError"),
        (lambda text: text.replace("class Short", "class Shorter"), "has no part or world named 'Short'"),
        (lambda text: text.replace('name = "short"', 'isolation = "cellar"'), "isolation is 'cellar', but must be one"),
        (lambda text: text.replace('name = "short"', "name = 3"), "could not be opened: its name is 3"),
        (lambda text: "import os\nos._exit(1)\n" + text, "could not be started"),
    ],
)
def test_a_world_that_cannot_be_opened_is_refused_in_one_sentence(
    good: Path, changes: Callable[[str], str], message: str
) -> None:
    with pytest.raises(PodiumError, match=message):
        worlds.isolated(made(good, changes))


def test_a_task_that_cannot_be_made_or_sent_is_an_error_that_says_why(good: Path) -> None:
    world = worlds.isolated(made(good, lambda text: text.replace('{"length": index % 5}', '{"length": object()}')))
    with pytest.raises(
        PodiumError, match=r"could not make its train task 3: the world's task.data\['length'\] holds a"
    ):
        world.task(3)
    with pytest.raises(PodiumError, match="has no setting 'levle'"):
        worlds.isolated(f"{good}:Short", {"levle": 2})
    world.close()


@pytest.mark.parametrize(
    ("world", "isolation", "runs"),
    [
        ("sums", None, "inline"),
        ("sums", "process", "process"),
        ("SHORT", None, "process"),
        ("SHORT", "thread", ""),
        ("THREADED", None, "thread"),
        ("TRUSTED", None, "inline"),
        ("DERIVED", None, "process"),
        ("podium.worlds.sums:Sums", None, "inline"),
    ],
)
def test_the_run_and_then_the_world_decide_how_episodes_run(
    good: Path, world: str, isolation: str | None, runs: str
) -> None:
    said = {"THREADED": 'isolation = "thread"', "TRUSTED": "trusted = True"}.get(world, "")
    if world == "DERIVED":
        good.write_text("from podium.worlds import Sums\nclass Derived(Sums):\n    pass\n")
        name = f"{good}:Derived"
    elif world.isupper():
        name = made(good, lambda text: text.replace('name = "short"', f'name = "short"; {said}'))
    else:
        name = world
    opened = worlds.isolated(name, isolation=isolation)
    assert opened.isolation == (runs if world != "TRUSTED" else "")
    assert opened.reset(opened.task(0)).act("x").done
    opened.close()


def test_a_verdict_that_fails_counts_as_nothing_and_a_warning_says_so(good: Path) -> None:
    verdicts = """
    act_limit_s = 1.0

    def criteria(self, task):
        return (Criterion("short", 2.0), Criterion("long", -1.0))

    def met(self, task, text):
        if text == "hang":
            while True: pass
        return (len(text) < 3, len(text) > 9)

    def step_scores(self, task, text):
        return tuple(1 / len(line) for line in text.splitlines())

    def completed(self, task, beginning):
        import os
        return beginning + "!" if beginning else os._exit(1)
"""
    name = made(
        good,
        lambda text: (
            "from podium.protocols.world import Criterion\n"
            + text.replace('    name = "short"\n', f'    name = "short"\n{verdicts}', 1)
        ),
    )
    world = worlds.isolated(name)
    task = world.task(0)
    try:
        assert [(c.text, c.points) for c in world.criteria(task)] == [("short", 2.0), ("long", -1.0)]
        assert world.met(task, "ab") == (True, False)
        assert world.step_scores(task, "ab\nabcd") == (0.5, 0.25)
        assert world.completed(task, "so") == "so!"
        with pytest.warns(UserWarning, match=r"met\(\) of the world 'short' failed.* did not answer within 1 s"):
            assert world.met(task, "hang") == (False, False)
        with pytest.warns(UserWarning, match=r"step_scores\(\) .* raised ZeroDivisionError"):
            assert world.step_scores(task, "ab\n\nc") == (0.0, 0.0, 0.0)
        with pytest.warns(UserWarning, match=r"completed\(\) .* exit code 1"):
            assert world.completed(task, "") is None
    finally:
        world.close()
