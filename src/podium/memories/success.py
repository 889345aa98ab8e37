"""Persistent success rates of tasks, which forget as the policy moves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from podium.core.errors import PodiumError, within
from podium.core.memory import Memory, State, Table, keys
from podium.core.part import Columns, Need
from podium.core.signal import Signal

__all__ = ["StoredResponses", "SuccessPrior", "SuccessTracker", "policy_shift"]

NOW = Signal("logp")


def policy_shift(batch: Batch, stored: str = "stored") -> Tensor:
    """[rollout] D, the mean |log π_stored − log π| over the tokens of a response stored at an earlier visit."""
    difference = batch[Signal("logp", of=stored)] - batch[NOW]
    return batch.reduce(difference.abs(), "token", "rollout", "mean")


class SuccessTracker(Memory):
    """A Bayesian tracker of each task's success rate v = alpha / (alpha + beta), which forgets as the policy moves.

        alpha ← rho · alpha + r,  beta ← rho · beta + 1 − r,  rho = clip(2^(−D / half_life), rho_min, rho_max)

    D is the policy's shift on the task's last stored response (`policy_shift`, from `StoredResponses`). A group that is
    not trained only measures: it sets the counts of its task (`prior`). Rewards must lie in [0, 1].
    """

    reference = "Single-stream Policy Optimization, https://arxiv.org/abs/2509.13232"
    half_life: float = 0.06  # of the counts, in units of D, > 0
    rho_min: float = 0.875  # in [0, 1]
    rho_max: float = 0.96  # in [rho_min, 1]

    needs = ("rollout.reward", "group.policy_shift")
    provides = ("group.tracker.alpha", "group.tracker.beta", "group.tracker.value")

    def __post_init__(self) -> None:
        within(self, "half_life", 0, open_low=True)
        within(self, "rho_min", 0, 1)
        within(self, "rho_max", self.rho_min, 1)

    def initial(self) -> State:
        return {"counts": Table(default=(0.5, 0.5))}

    def prior(self, successes: Tensor, samples: Tensor | int) -> tuple[Tensor, Tensor]:
        """Initial counts from offline samples, with the weight of 1 / (1 − rho_min) samples in all."""
        size = 1.0 / (1.0 - self.rho_min)
        return size * (successes + 0.5) / (samples + 1), size * (samples - successes + 0.5) / (samples + 1)

    def keep_rate(self, shift: Tensor) -> Tensor:
        """rho, the share of the counts that is kept after the policy has moved by `shift`."""
        return torch.exp2(-shift / self.half_life).clamp(self.rho_min, self.rho_max)

    def recall(self, state: State, tasks: Sequence[Any]) -> Columns:
        alpha, beta = state["counts"].read(tasks, torch.float64).unbind(1)
        return {"group.tracker.alpha": alpha, "group.tracker.beta": beta, "group.tracker.value": alpha / (alpha + beta)}

    def observe(self, state: State, batch: Batch) -> State:
        tasks, reward = batch["group.task"], batch["rollout.reward"].double()
        if bool(((reward < 0) | (reward > 1)).any()):
            raise PodiumError("SuccessTracker counts successes: rewards must lie in [0, 1].")
        # Two groups of one task are one observation of it; a task without a rollout that counts was not observed.
        rollouts, groups = batch.by("rollout", "group.task"), batch.partition("rollout", "group").agg
        success = groups.max(rollouts.mean(reward)).cpu()
        observed = groups.any(rollouts.count() > 0).cpu()
        counts = state["counts"].read(tasks, torch.float64)
        shift = batch.by("group", "group.task").mean(batch["group.policy_shift"].double())
        seen = torch.stack([success, 1 - success], dim=1)
        after = self.keep_rate(shift)[:, None].cpu() * counts + seen
        samples = groups.max(rollouts.count().double()).clamp(min=1).cpu()
        measured = torch.stack(self.prior(success * samples, samples), dim=1)
        after = torch.where(batch.trained("group", empty=True)[:, None].cpu(), after, measured)
        return {"counts": state["counts"].write(tasks, torch.where(observed[:, None], after, counts))}

    def scalars(self, state: State) -> dict[str, float]:
        return {"tracked_tasks": float(len(state["counts"]))}


class StoredResponses(Memory):
    """Stores the last response to each task that was trained, with its log-probabilities right after that.

    At the task's next visit `group.policy_shift` is how far the policy has moved on those tokens since
    (`policy_shift`); 0 at the first visit.
    """

    reference = "Single-stream Policy Optimization, https://arxiv.org/abs/2509.13232"

    provides = ("group.policy_shift",)

    @property
    def needs(self) -> tuple[Need, ...]:
        return ("token.id", "turn.train_context", NOW)

    def initial(self) -> State:
        return {"responses": {}}

    def recall(self, state: State, tasks: Sequence[Any]) -> Columns:
        """No shift is known before the policy has scored the responses again."""
        return {"group.policy_shift": torch.zeros(len(tasks))}

    def revisit(self, state: State, batch: Batch) -> Batch | None:
        stored = {task: state["responses"][task] for task in keys(batch["group.task"]) if task in state["responses"]}
        if not stored:
            return None
        rollouts = [
            Rollout(task, [Turn(ids, context=context, tokens={"stored.logp": logp}) for context, ids, logp in turns])
            for task, turns in stored.items()
        ]
        return Batch.from_rollouts(rollouts, dtype=batch.dtype).to(device=batch.device)

    def revisited(self, batch: Batch, scored: Batch) -> Columns:
        shift = dict(zip(keys(scored["group.task"]), policy_shift(scored).tolist(), strict=True))
        shifts = [shift.get(task, 0.0) for task in keys(batch["group.task"])]
        return {"group.policy_shift": torch.tensor(shifts, dtype=batch.dtype, device=batch.device)}

    def observe(self, state: State, batch: Batch) -> State:
        # Of several rollouts of a task the one with the largest identity is stored, whatever the order of rows.
        trained = batch.trained("rollout", empty=True)
        last = batch.by("rollout", "group.task").argmax(batch.identity("rollout"), trained)
        group, names = batch.link("rollout", "group"), keys(batch["group.task"])
        turns, tokens = batch.partition("turn", "rollout"), batch.partition("token", "turn")
        ids, logp, contexts = batch["token.id"], batch[NOW], batch["turn.train_context"]
        new = {}
        for rollout in last.nonzero().reshape(-1).tolist():
            members = turns.members(torch.tensor([rollout], device=batch.device)).tolist()
            rows = [tokens.members(torch.tensor([turn], device=batch.device)) for turn in members]
            new[names[int(group[rollout])]] = [
                (tuple(contexts[turn]), tuple(ids[at].tolist()), tuple(logp[at].tolist()))
                for turn, at in zip(members, rows, strict=True)
            ]
        return {"responses": state["responses"] | new}

    def scalars(self, state: State) -> dict[str, float]:
        return {"stored_responses": float(len(state["responses"]))}


class SuccessPrior(Memory):
    """A prior of each task's value, `group.prior` = 2p − 1 in [−1, 1], p its success rate shrunk to that of all tasks.

        p = (successes + weight · overall rate) / (rollouts + weight)

    The overall rate is ½ before anything was observed.
    """

    sees_dropped = True
    weight: float = 2.0  # weight of the overall rate, in rollouts, > 0

    needs = ("rollout.correct",)
    provides = ("group.prior",)

    def __post_init__(self) -> None:
        within(self, "weight", 0, open_low=True)

    def initial(self) -> State:
        return {"counts": Table(default=(0.0, 0.0)), "all": torch.zeros(2, dtype=torch.float64)}

    def recall(self, state: State, tasks: Sequence[Any]) -> Columns:
        right, rollouts = state["counts"].read(tasks, torch.float64).unbind(1)
        overall = (state["all"][0] + 1) / (state["all"][1] + 2)
        return {"group.prior": 2 * (right + self.weight * overall) / (rollouts + self.weight) - 1}

    def observe(self, state: State, batch: Batch) -> State:
        # Two groups of one task are one observation of it.
        rollouts, groups = batch.by("rollout", "group.task"), batch.partition("rollout", "group").agg
        correct = batch["rollout.correct"].double()
        seen = torch.stack([groups.max(rollouts.sum(correct)), groups.max(rollouts.count().double())], dim=1).cpu()
        tasks = batch["group.task"]
        counts = state["counts"].read(tasks, torch.float64) + seen.clamp(min=0)
        total = torch.stack([batch.by("rollout").agg.sum(correct), batch.by("rollout").agg.count().double()])
        return {"counts": state["counts"].write(tasks, counts), "all": state["all"] + total.reshape(2).cpu()}
