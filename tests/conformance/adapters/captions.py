"""Rewards from captions that an annotator has labelled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from podium import methods
from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from podium.memories.caption_network import ranking_loss
from podium.memories.captions import Captions, KnownCaptions
from podium.method import Method
from podium.protocols.sampling import Sampling
from podium.protocols.world import Task
from podium.strategies import LabelCaptions
from podium.strategies.judged.label_captions import caption_of
from podium.strategies.requests import TaskRequest
from tests.conformance.case import Case
from tests.conformance.registry import adapter


def memory_of(method: Method) -> Captions:
    (memory,) = method.memories
    assert isinstance(memory, Captions)
    return memory


def scored(method: Method, columns: Mapping[str, Any], statistics: Any = None) -> dict[str, Any]:
    """What the reward part makes of one rollout with these columns of turns."""
    count = len(columns["caption"])
    batch = Batch({("turn", "rollout"): torch.zeros(count).long(), ("rollout", "group"): torch.zeros(1).long()})
    batch = batch.with_columns({f"turn.{name}": x for name, x in columns.items()})
    if statistics is not None:
        batch = batch.with_columns({"batch.caption.statistics": statistics})
    return method.reward[0](batch)


def table(case: Case) -> dict[str, Any]:
    """One episode through the strategy, which scores its captions and queues those without a label."""
    weights = {"extrinsic": "extrinsic_coeff", "intrinsic": "llm_coeff", "exponent": "count_exponent"}
    method = methods.oni(**case.given(**weights)).set("memories.Captions.unlabelled", case.hyper["unlabelled_reward"])
    memory, strategy = memory_of(method), method.rollout
    assert isinstance(strategy, LabelCaptions)
    message_of = {caption_of("", message): message for message in case["messages"]}
    labels = {(caption_of("", message),): label for message, label in case["labelled"].items()}
    seen = {caption: 0.0 for (caption,) in labels}
    known = KnownCaptions(memory, {**memory.initial(), "labels": labels, "seen": seen})
    turns = [
        Turn([0], columns={"action": "", "observation": message, "reward": reward, "progress": 0.0})
        for message, reward in zip(case["messages"], case["extrinsic_rewards"], strict=True)
    ]
    request = TaskRequest(Task("one", ""), 0, Sampling(), (0, 0, 0), {"group.captions": known})
    (plan,) = strategy.plans([request])
    next(plan)
    try:
        plan.send([[Rollout("one", turns, columns={"reward": 0.0, "index": 0})]])
    except StopIteration as end:
        rollouts = end.value
    batch = Batch.from_rollouts(rollouts, dtype=torch.float64)
    rewards = method.reward[0](batch)
    queued = [message_of[caption] for _, (caption,) in batch["rollout.caption.queued"][0]]
    return {
        "counts": rewards["turn.caption.count"],
        "intrinsic": batch["turn.caption.score"],
        "rewards": rewards["turn.reward"],
        "to_annotate": queued,
    }


def ranked(case: Case) -> dict[str, Any]:
    """Scores normalised batch by batch, by moments that the memory carries on."""
    method = methods.oni(form="ranking", extrinsic=0.0, intrinsic=1.0, threshold=case.hyper["threshold"])
    memory, each = memory_of(method), []
    state = memory.initial()
    for scores in case["reward_model_scores_per_batch"]:
        names = [str(place) for place in range(len(scores))]
        columns = {"caption": names, "caption.score": torch.tensor(scores, dtype=torch.float64)}
        columns["reward"] = torch.zeros(len(scores), dtype=torch.float64)
        statistics = memory.recall(state, ["one"])["batch.caption.statistics"]
        each.append(scored(method, columns, statistics)["turn.reward.intrinsic"])
        turns = [Turn([0], columns={"caption.score": score}) for score in scores]
        nothing = {"caption.found": (), "caption.queued": (), "caption.labels": ()}
        rollout = Rollout("one", turns, columns={"reward": 0.0, "index": 0, **nothing})
        state = memory.observe(state, Batch.from_rollouts([rollout], dtype=torch.float64))
    count, mean, variance = state["statistics"]
    return {
        "intrinsic_per_batch": each,
        "running_mean": mean,
        "running_var": variance,
        "running_count": count,
    }


@adapter("oni")
def oni(case: Case) -> dict[str, Any]:
    if "messages" in case:
        return table(case)
    if "reward_model_scores_per_batch" in case:
        return ranked(case)
    if "pair_scores" in case:
        return {"loss": ranking_loss(case.tensor("pair_scores"), case.tensor("labels"))}
    method = methods.oni(
        form="classification", extrinsic=0.0, intrinsic=1.0, threshold=case.hyper["classification_threshold"]
    )
    probability = case.tensor("positive_probability")
    columns = {"caption": [str(place) for place in range(len(probability))], "caption.score": probability}
    return {"intrinsic": scored(method, {**columns, "reward": torch.zeros_like(probability)})["turn.reward.intrinsic"]}
