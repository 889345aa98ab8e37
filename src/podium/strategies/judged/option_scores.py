"""What a model would answer after the reasoning of a rollout: the probabilities of given options."""

from __future__ import annotations

from collections.abc import Sequence

from podium.core.build import Rollout
from podium.core.part import Need
from podium.protocols.answer_text import ANSWER_MARK, answer_place
from podium.strategies.judged.of_rollouts import OfRollouts, with_columns
from podium.strategies.requests import Ends, Score, SubPlan, TaskRequest, Wave

__all__ = ["OptionScores"]


class OptionScores(OfRollouts):
    """The rollouts of another strategy; after the reasoning of each, its answer cut off, a model is asked to answer.

    `rollout.options` has for each answer that the task leaves a choice of its log-probability after the question and
    the reasoning; nothing is sampled. It is empty for a task without a choice. `rollout.decided` says whether the
    rollout gives an answer itself, `rollout.explained` whether there is reasoning before it, `rollout.reference_answer`
    what the world answers. A rollout without an answer is asked about after the question alone. The role's model must
    have the policy's tokenizer.
    """

    asks: bool = True  # False: only `decided` and `explained`
    role: str = "policy"  # the model that is asked

    @property
    def needs(self) -> tuple[Need, ...]:
        return (*self.strategy.needs, *(("task.choices", "task.solution") if self.asks else ()))

    @property
    def provides(self) -> tuple[str, ...]:
        asked = ("rollout.options", "rollout.reference_answer") if self.asks else ()
        return (*self.strategy.provides, *asked, "rollout.decided", "rollout.explained")

    @property
    def roles_asked(self) -> tuple[str, ...]:
        own = (self.role,) if self.asks and self.role != "policy" else ()
        return (*self.strategy.roles_asked, *own)

    def asked(self, task: TaskRequest, rollouts: Sequence[Rollout]) -> SubPlan:
        texts = [str(rollout.columns["text"]) for rollout in rollouts]
        places = [answer_place(text) for text in texts]
        choices: tuple[str, ...] = tuple(task.task.data.get("choices", ())) if self.asks else ()
        result = []
        for rollout, text, place in zip(rollouts, texts, places, strict=True):
            decided = place is not None and bool(choices or not self.asks)
            columns = {"decided": decided, "explained": bool(place and text[:place].strip())}
            result.append(with_columns(rollout, columns))
        if not self.asks:
            return result
        ends = (yield [Ends(tuple(rollout.turns[-1].ids)) for rollout in rollouts]) if choices else [()] * len(rollouts)
        wave: Wave = []
        for rollout, text, place, own in zip(rollouts, texts, places, ends, strict=True):
            turn, place = rollout.turns[-1], place or 0
            kept = sum(end <= place for end in own)  # tokens of the reasoning
            begin = text[own[kept - 1] if kept else 0 : place] + ("\n" if place else "")
            context = (*turn.context, *turn.ids[:kept])
            wave += [Score(context, f"{begin}{ANSWER_MARK} {choice}", role=self.role) for choice in choices]
        scores = iter((yield wave) if wave else ())
        assert task.world is not None
        right = task.world.reference(task.task)
        return [
            with_columns(r, {"options": tuple((c, sum(next(scores))) for c in choices), "reference_answer": right})
            for r in result
        ]
