"""A user with a partly hidden wish: ask before you act."""

from __future__ import annotations

from random import Random
from typing import Any

from podium.core.errors import within
from podium.protocols.answer_text import ANSWER_MARK
from podium.protocols.world import Episode, Feedback, Task
from podium.worlds.graded import hashed_uniform
from podium.worlds.puzzle import Draft, Slip
from podium.worlds.quest import Quest, QuestStep

__all__ = ["Clarify", "halved", "question_of"]

USERS = ("ann", "bob", "cid", "dee", "eve", "fay", "gus", "hal")
THINGS = ("lamp", "box", "cup", "book", "chair", "door", "table", "key")
SLOTS = {
    "size": ("small", "large", "long", "short"),
    "age": ("old", "new", "first", "last"),
    "colour": ("red", "blue", "green", "white"),
    "place": ("hall", "kitchen", "garden", "cellar"),
}
ANY = "any"
VALUES = {slot: (*values, ANY) for slot, values in SLOTS.items()}
BELIEFS = ("turn.allowed", "rollout.belief")
Question = list[tuple[str, tuple[str, ...]]]  # a slot and the values that are asked about; none: any of them


def question_of(text: str) -> Question:
    """What `size colour`, or `size small or large`, asks for; empty: it is no question."""
    words = text.casefold().split()
    if words and all(word in SLOTS for word in words):
        return [(slot, ()) for slot in dict.fromkeys(words)]
    slot, *values = [word for word in words if word != "or"] or [""]
    if slot in SLOTS and values and all(value in VALUES[slot] for value in values):
        return [(slot, tuple(values))]
    return []


def halved(slot: str, value: str) -> list[str]:
    """Questions that halve what is possible until one value is left."""
    left, turns = list(VALUES[slot]), []
    while len(left) > 1:
        half = left[: (len(left) + 1) // 2]
        turns.append(f"ask: {slot} {' or '.join(half)}")
        left = half if value in half else left[len(half) :]
    return turns


class Clarify(Quest):
    """`wish of ann: red lamp`: the level is the number of hidden attributes; the user may not care about the others.

    `ask: size` is answered by the wish, or by `any` if the user does not care. `answer: small old red lamp hall` is
    correct if it has exactly the attributes that the user cares about; the order of the words is free.

    With `compound` a question may name several attributes (`ask: size colour`) or values of one, to which the answer is
    yes or no (`ask: size small or large`). Then `rollout.belief` is how likely each value of each attribute is after
    the task alone, and `turn.allowed` which values the user's reply has left.
    """

    name = "clarify"
    summary = "a user with a hidden wish: ask, then act"
    levels = (1, 2, 3, 4)
    styles = ("short", "long", "backward")
    provides = (*Quest.provides, "turn.asked", "turn.told", "rollout.questions", "rollout.score")
    blank = {**Quest.blank, "asked": "", "told": False, "questions": 0.0, "score": 0.0}
    blank |= {"allowed": (), "belief": ()}
    max_tokens = 32
    patience: int = 8  # questions until the user leaves
    unsure: float = 0.0  # the probability that the user must be asked twice
    partial: bool = False  # whether the reward is the fulfilled share of the wish
    compound: bool = False  # whether questions may be compound
    expertise: float = 1.0  # with `compound`: the share of attributes that the user can name without being offered any

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, "patience", 1)
        within(self, "unsure", 0, 1)
        within(self, "expertise", 0, 1)
        if self.compound:
            object.__setattr__(self, "provides", (*self.provides, *BELIEFS))

    def explain(self) -> str:
        return (
            f"The user wants more than they say. Ask by `ask: size` ({', '.join(SLOTS)}), one thing a turn. Then write "
            f"`{ANSWER_MARK}` and the whole wish: all that you were told and the thing itself."
        )

    def draft(self, rng: Random) -> Draft:
        minded = rng.sample(list(SLOTS), rng.randint(self.level, len(SLOTS)))
        wish = {slot: rng.choice(SLOTS[slot]) for slot in SLOTS if slot in minded}
        hidden = rng.sample(list(wish), self.level)
        thing = rng.choice(THINGS)
        said = " ".join([*(value for slot, value in wish.items() if slot not in hidden), thing])
        question = f"wish of {rng.choice(USERS)}: {said}"
        wanted = " ".join(sorted([*wish.values(), thing]))
        data = {"wish": wish, "hidden": hidden, "thing": thing, "answer": wanted, "reference_answer": wanted}
        return Draft(question, question, data)

    def reset(self, task: Task, seed: int = 0) -> Episode:
        return _Talk(self, task)

    def unsure_of(self, task: Task, slot: str) -> bool:
        return hashed_uniform("unsure", task.key, slot) < self.unsure

    def vague(self, task: Task, slot: str) -> bool:
        """Whether the user cannot name a value of this attribute, but only say yes or no."""
        return self.compound and hashed_uniform("expertise", task.key, slot) >= self.expertise

    def belief(self, task: Task) -> tuple[tuple[float, ...], ...]:
        """How likely each value of each attribute is after the task alone, each attribute by itself."""
        wish, hidden = task.data["wish"], task.data["hidden"]
        told = {slot: value for slot, value in wish.items() if slot not in hidden}
        unknown = len(SLOTS) - len(told)
        minded = len(hidden) / unknown

        def chance(slot: str, value: str) -> float:
            if slot in told:
                return float(value == told[slot])
            return 1 - minded if value == ANY else minded / len(SLOTS[slot])

        return tuple(tuple(chance(slot, value) for value in values) for slot, values in VALUES.items())

    def write(self, task: Task, style: str, rng: Random, slip: Slip) -> tuple[str, ...]:
        wish, hidden, thing = task.data["wish"], task.data["hidden"], task.data["thing"]
        values = {slot: value for slot, value in wish.items() if slot not in hidden}
        open_ = [slot for slot in SLOTS if slot not in values]
        turns: list[str] = []
        for slot in reversed(open_) if style == "backward" else open_:
            if slot in wish:
                values[slot] = wish[slot]
                if slip():  # guesses instead of asking
                    values[slot] = rng.choice([other for other in SLOTS[slot] if other != wish[slot]])
                    continue
            if self.vague(task, slot):
                turns += halved(slot, wish.get(slot, ANY))
                continue
            line = f"which {slot} for the {thing}\nask: {slot}" if style == "long" else f"ask: {slot}"
            turns += [line] * (2 if slot in wish and self.unsure_of(task, slot) else 1)
        whole = " ".join([*(values[slot] for slot in SLOTS if slot in values), thing])
        return *turns, f"{ANSWER_MARK} {whole}"


class _Talk(QuestStep):
    verbs = ("ask",)

    def __init__(self, world: Clarify, task: Task) -> None:
        super().__init__(world, task)
        self.clarify = world
        self.asked: list[str] = []
        self.told: dict[str, str] = {}
        self.open = {slot: list(values) for slot, values in VALUES.items()}

    def do(self, verb: str, rest: str, text: str) -> Feedback:
        return self._compound(question_of(rest)) if self.clarify.compound else self._plain(rest)

    def _compound(self, question: Question) -> Feedback:
        if not question:
            return self.say(f"error: ask for {' or '.join(SLOTS)}", valid=False)
        self.asked.append(" ".join(slot for slot, _ in question))
        if len(self.asked) > self.clarify.patience:
            self.ended = True
            return self.say("bye", done=True, asked=self.asked[-1])
        self.recap = "\n".join(f"{slot}: {value}" for slot, value in self.told.items())
        replies, allowed, new = [], [], False
        for slot, values in question:
            wanted = self.task.data["wish"].get(slot, ANY)
            if values:
                replies.append("yes" if wanted in values else "no")
                self.open[slot] = [v for v in self.open[slot] if (v in values) == (wanted in values)]
            elif self.clarify.vague(self.task, slot):
                replies.append("not sure")
                continue
            else:
                replies.append(f"{slot}: {wanted}")
                self.open[slot] = [wanted]
            allowed.append((list(SLOTS).index(slot), tuple(VALUES[slot].index(v) for v in self.open[slot])))
            if len(self.open[slot]) == 1:
                new = new or (slot in self.task.data["hidden"] and slot not in self.told)
                self.told[slot] = wanted
        return self.say("; ".join(replies), asked=self.asked[-1], told=new, allowed=tuple(allowed))

    def _plain(self, rest: str) -> Feedback:
        slot, wish = rest.casefold(), self.task.data["wish"]
        if slot not in SLOTS:
            return self.say(f"error: ask for {' or '.join(SLOTS)}", valid=False)
        before = slot in self.asked
        self.asked.append(slot)
        if len(self.asked) > self.clarify.patience:
            self.ended = True
            return self.say("bye", done=True, asked=slot)
        if slot in wish and not before and self.clarify.unsure_of(self.task, slot):
            return self.say("not sure", asked=slot)
        self.recap = "\n".join(f"{told_slot}: {value}" for told_slot, value in self.told.items())
        new = slot in self.task.data["hidden"] and slot not in self.told
        self.told[slot] = wish.get(slot, ANY)
        return self.say(f"{slot}: {self.told[slot]}", asked=slot, told=new)

    def reached(self) -> str:
        if self.clarify.compound:
            return " ".join(f"{slot}={','.join(v)}" for slot, v in self.open.items() if len(v) < len(VALUES[slot]))
        return " ".join(sorted(self.told))

    def missing(self) -> int:
        return sum(slot not in self.told for slot in self.task.data["hidden"])

    def columns(self) -> dict[str, Any]:
        belief = {"belief": self.clarify.belief(self.task)} if self.clarify.compound else {}
        return {"questions": float(len(self.asked)), **belief}

    def answer(self, answer: str, text: str) -> Feedback:
        said, wanted = sorted(answer.split()), self.task.data["answer"].split()
        correct, self.ended = said == wanted, True
        wrong = len(set(said) - set(wanted))
        score = max(len(set(said) & set(wanted)) - wrong, 0) / len(wanted)
        reward = score if self.clarify.partial else float(correct)
        return self.say("", done=True, reward=reward, correct=correct, answer=" ".join(said), score=score)
