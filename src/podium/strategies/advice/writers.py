"""Who writes advice: rules that compare the answers of a group, or a model that is asked in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from podium.core.errors import PodiumError, within
from podium.core.streams import key
from podium.core.value import Value
from podium.memories.text_edits import Edit, Experience, read_edits
from podium.protocols.answer_text import enclosed
from podium.protocols.sampling import Sampling
from podium.strategies.ask import Ask, ChatServer
from podium.strategies.requests import SubPlan, Wave

__all__ = ["AdviceWriter", "Compared", "ModelWriter", "RuleMiner"]

Library = Mapping[str, Experience]


@dataclass(frozen=True)
class Compared:
    """The answers of one group, to be compared in words."""

    question: str
    texts: tuple[str, ...]
    rewards: tuple[float, ...]
    answer: str = ""  # the right one; empty: not to be shown
    shown: tuple[tuple[str, ...], ...] = ()  # the texts in the prompt of each


class AdviceWriter(Value):
    """Turns groups of answers into a plan of edits for a library of texts; its methods are plans that may ask."""

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles that it asks."""
        return ()

    def tried(self, library: Library, n: int, stream: tuple[int, ...]) -> list[tuple[str, ...]]:
        """The texts that each of the `n` rollouts of a group sees: by default all the library's."""
        return [tuple(experience.text for experience in library.values())] * n

    def revise(self, library: Library, groups: Sequence[Compared], stream: tuple[int, ...]) -> SubPlan:
        """Returns the edits that follow from all groups of a batch, merged into one plan."""
        raise NotImplementedError


class RuleMiner(AdviceWriter):
    """Rules in place of a model: which lines of advice stand in the prompts of the good rollouts of a group, and not in
    those of the bad ones.

    The first rollout of a group sees the list as it is, the others a variant of it: one of `lines` added (in place of
    the last text where there are `most`), or the last text left out. A variant's votes are the sum, over its rollouts
    in all compared groups, of the reward less the mean reward of the group's other variants. The variant of most votes
    becomes the list if it has at least `least`, and more than the text that it replaces had when it won.
    """

    lines: tuple[str, ...] = (
        *("take small steps", "be careful", "check each step", "be quick", "try another way", "do not think"),
        *("keep it neat", "write the answer last"),
    )
    least: float = 3.0  # votes, above 0
    most: int = 1  # texts in the list

    def __post_init__(self) -> None:
        within(self, "least", 0, open_low=True)
        within(self, "most", 1)
        if not all(line.strip() for line in self.lines) or len(set(self.lines)) < len(self.lines) or not self.lines:
            raise PodiumError(f"RuleMiner.lines = {self.lines!r}: give lines of advice, none empty and none twice.")

    def variants(self, texts: tuple[str, ...]) -> list[tuple[str, ...]]:
        """The lists that differ from these texts by one line."""
        kept = texts[:-1] if len(texts) >= self.most else texts
        changed = [(*kept, line) for line in self.lines if line not in texts]
        return [*changed, texts[:-1]] if texts else changed

    def tried(self, library: Library, n: int, stream: tuple[int, ...]) -> list[tuple[str, ...]]:
        texts = tuple(experience.text for experience in library.values())
        variants = self.variants(texts)
        order = np.random.default_rng(key(0, (*stream, 3))).permutation(len(variants)).tolist()
        return [texts, *(variants[order[i % len(order)]] for i in range(n - 1))]

    def revise(self, library: Library, groups: Sequence[Compared], stream: tuple[int, ...]) -> SubPlan:
        yield from ()
        texts = tuple(experience.text for experience in library.values())
        votes = {variant: sum(_votes(group, variant) for group in groups) for variant in self.variants(texts)}
        best = max(votes, key=lambda variant: (votes[variant], variant))
        if len(best) > len(texts):
            return [Edit("ADD", best[-1], votes=votes[best])] if votes[best] >= self.least else []
        name, held = list(library.items())[-1]
        if votes[best] < self.least or votes[best] <= held.weight:
            return []
        if len(best) < len(texts):
            return [Edit("DELETE", held.text, name)]
        return [Edit("UPDATE", best[-1], name, votes[best])]


def _votes(group: Compared, variant: tuple[str, ...]) -> float:
    """Σ (r − mean of the others) over the rollouts of a group that saw this variant."""
    those = [r for r, shown in zip(group.rewards, group.shown, strict=True) if shown == variant]
    others = [r for r, shown in zip(group.rewards, group.shown, strict=True) if shown != variant]
    return sum(those) - len(those) * sum(others) / len(others) if those and others else 0.0


SUMMARY = "A question:\n{question}\nAn answer (reward {reward}):\n{text}\nSay step by step what this answer does."
COMPARE = (
    "A question:\n{question}\nThe right answer: {answer}\nSeveral attempts, each with its reward:\n{attempts}\n"
    "What separates the good attempts from the bad ones? Write at most {count} short pieces of advice for other "
    "questions of this kind, one per line, between <Experiences> and </Experiences>."
)
REVISE = (
    "A list of advice:\n{library}\nNew advice:\n{new}\nRevise the list. Answer with a JSON list of objects with the "
    'keys "operation" (ADD, UPDATE or DELETE), "id" (of the advice that is updated or deleted) and "content".'
)
MERGE = (
    "A list of advice:\n{library}\nProposed changes:\n{new}\nMerge them into one plan without repetitions or "
    'contradictions. Answer with a JSON list of objects with the keys "operation" (ADD, UPDATE or DELETE), "id" and '
    '"content".'
)


class ModelWriter(AdviceWriter):
    """A model that compares answers in words: a role of the method, or a server on this machine.

    Each answer is summarised; for each group the summaries with their rewards are compared, which gives at most `count`
    pieces of advice; for each group a list of edits follows; all lists are merged into one. A reply that cannot be read
    drops its group; a merged plan is asked for `tries` times, after which nothing changes.
    """

    of: str | ChatServer = "critic"  # a role, or a server
    count: int = 2  # pieces of advice per group
    tries: int = 3
    tokens: int = 512  # of each reply
    temperature: float = 0.7
    summarise: str = SUMMARY  # prompts; those of your own may name the same fields
    compare: str = COMPARE
    revision: str = REVISE
    merge: str = MERGE

    def __post_init__(self) -> None:
        for name in ("count", "tries", "tokens"):
            within(self, name, 1)
        empty = Compared("", ("",), (0.0,))
        for template, fields in (
            (self.summarise, {"question": "", "reward": "", "text": ""}),
            (self.compare, _fields(empty, ("",), self.count)),
            (self.revision, {"library": "", "new": ""}),
            (self.merge, {"library": "", "new": ""}),
        ):
            _filled(template, fields)

    @property
    def roles(self) -> tuple[str, ...]:
        return (self.of,) if isinstance(self.of, str) else ()

    def _asked(self, prompts: Sequence[str], stream: tuple[int, ...]) -> SubPlan:
        """The replies to several questions, empty where one failed."""
        if not prompts:
            return []
        sampling = Sampling(max_tokens=self.tokens, temperature=self.temperature)
        asked: Wave = [Ask(prompt, self.of, sampling, (*stream, number)) for number, prompt in enumerate(prompts)]
        return [reply.text for (reply,) in (yield asked)]

    def revise(self, library: Library, groups: Sequence[Compared], stream: tuple[int, ...]) -> SubPlan:
        places = [(group, i) for group in groups for i in range(len(group.texts))]
        told = yield from self._asked([self._summary(group, i) for group, i in places], (*stream, 0))
        summaries: dict[int, list[str]] = {}
        for (group, _), summary in zip(places, told, strict=True):
            summaries.setdefault(id(group), []).append(summary)
        prompts = [_filled(self.compare, _fields(g, summaries[id(g)], self.count)) for g in groups]
        found = [_advice(reply)[: self.count] for reply in (yield from self._asked(prompts, (*stream, 1)))]
        listed = _listed(library)
        prompts = [_filled(self.revision, {"library": listed, "new": "\n".join(new)}) for new in found if new]
        plans = [read_edits(reply) for reply in (yield from self._asked(prompts, (*stream, 2)))]
        proposed = [edit for plan in plans for edit in plan or ()]
        if not proposed:
            return []
        lines = "\n".join(f"{e.operation} {e.id} {e.content}".replace("  ", " ") for e in proposed)
        for attempt in range(self.tries):
            prompt = _filled(self.merge, {"library": listed, "new": lines})
            (reply,) = yield from self._asked([prompt], (*stream, 3, attempt))
            merged = read_edits(reply)
            if merged is not None:
                return merged
        return []

    def _summary(self, group: Compared, index: int) -> str:
        fields = {"question": group.question, "reward": f"{group.rewards[index]:g}", "text": group.texts[index]}
        return _filled(self.summarise, fields)


def _fields(group: Compared, summaries: Sequence[str], count: int) -> dict[str, Any]:
    attempts = [f"{r:g}: {s}" for r, s in zip(group.rewards, summaries, strict=True) if s]
    return {"question": group.question, "answer": group.answer, "attempts": "\n".join(attempts), "count": count}


def _filled(template: str, fields: Mapping[str, Any]) -> str:
    text = template
    for name, value in fields.items():
        if "{" + name + "}" not in template and name not in ("answer", "reward", "count"):
            raise PodiumError(f"A prompt for advice does not say where {{{name}}} is to stand: {template!r}.")
        text = text.replace("{" + name + "}", str(value))
    return text


def _listed(library: Library) -> str:
    return "\n".join(f"[{name}]. {experience.text}" for name, experience in library.items()) or "(empty)"


def _advice(reply: str) -> list[str]:
    """The lines between the tags."""
    place = enclosed(reply, "<Experiences>", "</Experiences>")
    lines = reply[slice(*place)].splitlines() if place else []
    return [text for line in lines if (text := line.strip().lstrip("-*0123456789. ").strip())]
