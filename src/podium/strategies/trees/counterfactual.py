"""Counterfactual rollouts: in a group that fails entirely, a tool is called where it was most likely to be."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from podium.core.build import Rollout, Turn
from podium.core.columns import Origin, Purpose
from podium.core.errors import PodiumError, within
from podium.core.part import Strategy
from podium.core.schedule import Number
from podium.core.streams import key
from podium.protocols.actions import ToolActions
from podium.protocols.pieces import ModelTokens, Pieces
from podium.strategies.draw import Draw
from podium.strategies.requests import Plan, Read, Resume, Score, SubPlan, TaskRequest, Written, rollouts_of

__all__ = ["Counterfactual", "draw_place"]

Place = tuple[int, int]  # a turn, and the token before which something is inserted


def draw_place(scores: Sequence[float], u: float, top_k: int, top_p: float) -> int:
    """The place that the uniform number u draws from softmax(scores) after top-k and top-p."""
    order = torch.tensor(scores, dtype=torch.float64).sort(descending=True, stable=True)
    chances = order.values[:top_k].softmax(0)
    kept = chances[chances.cumsum(0) - chances < top_p]  # the first that reaches top_p is kept
    drawn = int((kept.cumsum(0) <= u * kept.sum()).sum())
    return int(order.indices[min(drawn, len(kept) - 1)])


class Counterfactual(Strategy):
    """`n` rollouts of each task; where their rewards sum to 0, a call of a tool is inserted into each of them, the rest
    is sampled anew, and the result takes the rollout's place.

    The tool is the one that `ToolGains` recalls. The place is drawn by how likely the tool's opening word is at each
    place, log p / `softness`; where the word is a single token, by that or its own token, whichever is likelier. Places
    inside of a tool are left out; where no other is left, the call is the first thing that is written. What stood
    before it is kept. `rollout.reward_before` is the reward of the rollout as it was, which stays on record.
    """

    reference = "EARL, https://github.com/yue-zhongqi/earl"
    n: int = 8
    softness: float = 10.0  # the temperature of places, above 0
    top_k: int = 10  # likeliest places that are kept, ≥ 1
    top_p: float = 0.9  # the probability mass of the likeliest places that is kept, in (0, 1]
    active: Number = 1.0  # 0: nothing is rewritten
    draw: Draw = Draw(format=ToolActions())

    needs = ("group.tool",)
    provides = ("token.origin", "rollout.purpose", "rollout.rewritten", "rollout.reward_before", "rollout.tool")

    def __post_init__(self) -> None:
        within(self, "n", 1)
        within(self, "softness", 0, open_low=True)
        within(self, "top_k", 1)
        within(self, "top_p", 0, 1, open_low=True)
        if not isinstance(self.draw.format, ToolActions):
            raise PodiumError(
                "Counterfactual inserts calls of tools: set draw.format to ToolActions with their tokens."
            )

    @property
    def spelled(self) -> dict[str, str]:
        """The tools: by the name of its token, the word of each."""
        return {} if self.draw.format is None else dict(self.draw.format.spelled)

    @property
    def neutral(self) -> Counterfactual:
        return self.replace(active=0.0)

    def acted(self, rollouts: Sequence[Any]) -> int:
        return sum(bool(r.columns["rewritten"]) for r in rollouts)

    def fails(self, rewards: Sequence[float]) -> bool:
        """Whether a group with these rewards is rewritten."""
        return sum(rewards) == 0

    def plan(self, task: TaskRequest) -> Plan:
        group = rollouts_of((yield [self.draw.play(task, self.n)]))
        if not self.active or not self.spelled or not self.fails([r.columns["reward"] for r in group]):
            return [_marked(r) for r in group]
        tool = int(task.recalled["group.tool"])
        token, word = list(self.spelled.items())[tool]
        scored = yield from self._scores(group, token, word)
        places = [self._place(task, r, scores) for r, scores in zip(group, scored, strict=True)]
        answers = yield [self._resumed(task, r, place, token) for r, place in zip(group, places, strict=True)]
        pairs = zip(rollouts_of(answers), group, strict=True)
        rewritten = [_marked(new, before=old.columns["reward"], tool=tool) for new, old in pairs]
        return [*rewritten, *(_marked(r, purpose=Purpose.replaced) for r in group)]

    def _scores(self, group: Sequence[Rollout], token: str, word: str) -> SubPlan:
        """For each rollout, by place, the score of a call there."""
        turns = [(member, n, turn) for member, r in enumerate(group) for n, turn in enumerate(r.turns)]
        read = (yield [Read(tuple(turn.ids)) for *_, turn in turns]) if turns else []
        found: list[dict[Place, float]] = [{} for _ in group]
        places = [
            (member, (n, at), (*turn.context, *turn.ids[:at]))
            for (member, n, turn), texts in zip(turns, read, strict=True)
            for at in _outside(texts)
        ]
        if not places:
            return found
        words: list[list[float]] = yield [Score(context, word) for *_, context in places]
        likely = [sum(values) for values in words]
        if len(words[0]) == 1:
            own = yield [Score(context, Pieces(ModelTokens(token))) for *_, context in places]
            likely = [max(x, values[0]) for x, values in zip(likely, own, strict=True)]
        for (member, place, _), x in zip(places, likely, strict=True):
            found[member][place] = x / self.softness
        return found

    def _place(self, task: TaskRequest, rollout: Rollout, scores: Mapping[Place, float]) -> Place:
        """The place that is drawn for a rollout; the first one where there is no other."""
        if not scores:
            return 0, 0
        u = (key(0, (*task.stream, 1, rollout.columns["index"])) >> 11) * 2.0**-53
        return list(scores)[draw_place(list(scores.values()), u, self.top_k, self.top_p)]

    def _resumed(self, task: TaskRequest, rollout: Rollout, place: Place, token: str) -> Resume:
        """A request for the rollout with a call at a place."""
        turn, at = place
        index = rollout.columns["index"]
        begun = Written(tuple(rollout.turns[turn].ids[:at]), text=Pieces(ModelTokens(token)), scored=True)
        play = self.draw.play(task, 1, first=self.n + index, wave=1, begun=begun)
        return Resume(play, tuple(rollout.turns[:turn]), (0, index))


def _outside(texts: Sequence[str]) -> range:
    """The places in a turn that are not inside of a tool: up to the first token without a text."""
    return range(next((at for at, text in enumerate(texts) if not text), len(texts) - 1) + 1)


def _marked(rollout: Rollout, before: float | None = None, tool: int = -1, purpose: Purpose | None = None) -> Rollout:
    """The rollout with the columns of this strategy; `before`: its reward before it was rewritten."""
    old = rollout.columns
    columns = {"rewritten": before is not None, "reward_before": old["reward"] if before is None else before}
    columns |= {"tool": tool, "purpose": old["purpose"] if purpose is None else int(purpose)}
    turns = [_with_origin(turn) for turn in rollout.turns]
    return dataclasses.replace(rollout, turns=turns, columns={**old, **columns})


def _with_origin(turn: Turn) -> Turn:
    return turn if turn.origin is not None else dataclasses.replace(turn, origin=[Origin.policy.name] * len(turn.ids))
