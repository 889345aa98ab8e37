"""Three judges of pairs whose lengths are crossed with rightness: one that reasons, one that does not, and a reward
model. Each learns from as many pairs, judges the same held-out ones, and trains a policy on puzzles of that kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from podium import policy as policies
from podium.evaluation.judge_quality import JudgedPair, judge_quality, known_pairs
from podium.labs.findings import Claim, StudySize
from podium.labs.trial import Quantity, Trial
from podium.method import Method, Role
from podium.methods import get
from podium.parts.reward import ModelReward
from podium.sessions.reward_data import JudgedAnswer, RewardData
from podium.sessions.reward_model import fit_reward
from podium.sessions.train import train
from podium.sessions.try_judge import try_judge
from podium.strategies import Sample
from podium.strategies.requests import JudgeScores
from podium.worlds import Verdicts
from podium.worlds.texts.verdicts import AttemptPair

__all__ = ["STUDY"]

MODEL = "podium/tiny2"
# Of the kinds of puzzle this is the one whose checks the model learns within minutes; on the others all stay at chance.
KIND, LEVEL = "lamps", 1
N = 4  # rollouts of a task of the policies: 6 pairs
ACCURACY = Quantity("accuracy", "held-out accuracy", (0.0, 1.0))
LONGER = Quantity("longer", "gain where the longer is right", (-1.0, 1.0))
TRAINED = Quantity("policy", "pass@1 of the policy it trains", (0.0, 1.0))


class JudgeTrialSize(StudySize):
    """How long judges and policies are trained, and on how many pairs judges are tried."""

    seeds: int = 5
    iterations: int = 260  # of a judge
    tasks: int = 32
    held_out: int = 256
    policy: int = 16  # iterations of the policies, with half as many tasks


def _generative(preset: str, seed: int, size: JudgeTrialSize) -> Mapping[str, float]:
    with _folder() as folder:
        train(
            get(f"think-rm@{preset}"),
            world="verdicts",
            world_settings={"level": LEVEL, "kind": KIND},
            model=MODEL,
            seed=seed,
            iterations=size.iterations,
            tasks=size.tasks,
            eval_every=0,
            eval_tasks=1,
            out=folder / "judge",
        )
        tried = try_judge(folder / "judge", way="written", tasks=size.held_out, seed=seed, level=LEVEL, kind=KIND)
        by_pairs = get("think-rm", n=N, judge=str(folder / "judge"), scaled=False, judge_tokens=240)
        passed = _policy(by_pairs, folder, seed, size)
    return {"policy": passed, **{name: tried[name].mean for name in ("accuracy", "longer")}}


def _policy(method: Method, folder: Path, seed: int, size: JudgeTrialSize) -> float:
    """What a policy that is trained by a judge comes to, by the truth."""
    result = train(
        method,
        world="rules",
        world_settings={"level": LEVEL, "domain": KIND},
        model=MODEL,
        seed=seed,
        iterations=size.policy,
        tasks=max(size.tasks // 2, 1),
        eval_every=0,
        eval_tasks=size.held_out,
        out=folder / "policy",
    )
    return float(result.evaluations[-1]["eval.pass@1"])


@contextmanager
def _folder() -> Iterator[Path]:
    with TemporaryDirectory() as folder:
        yield Path(folder)


def long_judge(seed: int, size: JudgeTrialSize) -> Mapping[str, float]:
    """Imitates checks of both answers, then learns by GRPO from its verdicts."""
    return _generative("judge", seed, size)


def short_judge(seed: int, size: JudgeTrialSize) -> Mapping[str, float]:
    """The same with verdicts alone."""
    return _generative("short", seed, size)


def bradley_terry(seed: int, size: JudgeTrialSize) -> Mapping[str, float]:
    """A reward model of the same start, fitted to as many pairs, each seen once."""
    world = Verdicts(level=LEVEL, kind=KIND)
    count = size.iterations * size.tasks
    pairs = [world.pair(world.task(seed * count + index)) for index in range(count)]
    answers = [_answer(pair, text) for pair in pairs for text in _ordered(pair)]
    data = RewardData("verdicts", tuple(answers), tuple((2 * i, 2 * i + 1) for i in range(count)))
    with _folder() as folder:
        steps = max(count // 32, 1)
        fit_reward(data, folder / "rm", estimator="bt", model=MODEL, steps=steps, batch=32, held_out=0.05, seed=seed)
        reader = policies.read_critic(str(folder / "rm"), dtype="float32", device="cpu")
        found = judge_quality([_scored(reader, pair) for pair in known_pairs(world, size.held_out)])
        by_points = get("think-rm", n=N, credit="points").replace(
            rollout=Sample(n=N), reward=(ModelReward(),), roles=(Role("ref"), Role("rm", source=str(folder / "rm")))
        )
        passed = _policy(by_points, folder, seed, size)
    return {"policy": passed, **{name: found[name].mean for name in ("accuracy", "longer")}}


def _ordered(pair: AttemptPair) -> tuple[str, str]:
    """The better text first."""
    return pair.texts if pair.better == "A" else (pair.texts[1], pair.texts[0])


def _answer(pair: AttemptPair, text: str) -> JudgedAnswer:
    return JudgedAnswer((("user", str(pair.task.prompt)),), text)


def _scored(reader: policies.Critic, pair: AttemptPair) -> JudgedPair:
    """What a reward model says of a pair: the probability of the better text, in either order."""
    question = reader.encode([{"role": "user", "content": str(pair.task.prompt)}])
    better, worse = _ordered(pair)
    high, low = policies.scores_of(reader, [(*question, *reader.written(text, False)) for text in (better, worse)])
    p = float(torch.sigmoid(high - low))
    sign = (len(better) > len(worse)) - (len(better) < len(worse))
    return JudgedPair(JudgeScores((p, 1 - p), 1), JudgeScores((1 - p, p), 1), sign)


STUDY = Trial(
    "think-rm",
    "Does a judge that reasons at length tell right from wrong better than a short one, and than a reward model?",
    arms={"long judge": long_judge, "short judge": short_judge, "Bradley–Terry": bradley_terry},
    claims=(
        Claim("a judge that checks at length is more accurate than a short one", ACCURACY, "long judge", "short judge"),
        Claim("a short judge is more accurate than Bradley–Terry", ACCURACY, "short judge", "Bradley–Terry"),
        Claim("a long judge is more accurate than Bradley–Terry", ACCURACY, "long judge", "Bradley–Terry"),
        Claim("a long judge trains a better policy than a short one", TRAINED, "long judge", "short judge"),
        Claim("a long judge trains a better policy than Bradley–Terry", TRAINED, "long judge", "Bradley–Terry"),
    ),
    readings=(ACCURACY, LONGER, TRAINED),
    size=JudgeTrialSize(),
    quick=JudgeTrialSize(seeds=2, iterations=20, tasks=16, held_out=32, policy=2),
)
