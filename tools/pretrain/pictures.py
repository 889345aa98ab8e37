"""What a model reads of worlds with pictures: how much, how much of it is right, and how it is written.

Questions are asked and answered as elsewhere; a picture is a few reserved tokens, which stand in the text by name.
"""

from __future__ import annotations

from random import Random

from podium import worlds
from podium.protocols.scaffold import with_attempt
from podium.worlds import Puzzle, Scenes, World
from podium.worlds.quest import Quest
from tools.pretrain.dials import AFTER_ATTEMPT, HELPED, HINTED, TRIED, TRIED_RIGHT, Dial, Manner
from tools.pretrain.examples import FIRST_TASK, GRADED, Example, Message, hinted

LAST_ALONE = 0.4  # share of the answers of zoom that are given from the last observation alone
DESCRIBED = 0.08  # share of the scenes without a question, of which the model says what they show
# First to see: nearly everything is right.
SEEING: dict[str, dict[int, Dial]] = {
    "scenes": {1: Dial(6, 0.95), 2: Dial(8, 0.95), 3: Dial(8, 0.95), 4: Dial(5, 0.95), 5: Dial(2, 0.9)},
    "zoom": {1: Dial(3, 0.95), 2: Dial(3, 0.95), 3: Dial(3, 0.95), 4: Dial(3, 0.95)},
    "digits": {1: Dial(16, 0.97), 2: Dial(5, 0.95), 3: Dial(4, 0.95)},
    "badges": {1: Dial(2, 0.95), 2: Dial(3, 0.95), 3: Dial(4, 0.95), 4: Dial(3, 0.95)},
    "clips": {1: Dial(3, 0.95), 2: Dial(3, 0.95), 3: Dial(3, 0.95), 4: Dial(3, 0.9)},
}
# Then to be unsure, so that reinforcement learning has something to do.
UNSURE: dict[str, dict[int, Dial]] = {
    "scenes": {1: Dial(3, 0.50), 2: Dial(4, 0.40), 3: Dial(4, 0.25), 4: Dial(3, 0.15), 5: Dial(2, 0.05)},
    "zoom": {1: Dial(2, 0.50), 2: Dial(2, 0.40), 3: Dial(2, 0.35), 4: Dial(2, 0.30)},
    "digits": {1: Dial(6, 0.60), 2: Dial(4, 0.50), 3: Dial(3, 0.45)},
    "badges": {1: Dial(1, 0.40), 2: Dial(2, 0.40), 3: Dial(2, 0.40), 4: Dial(2, 0.45)},
    "clips": {1: Dial(2, 0.50), 2: Dial(2, 0.35), 3: Dial(2, 0.35), 4: Dial(2, 0.20)},
}
PICTURES = {1: SEEING, 2: UNSURE}  # by stage

MANNERS: dict[str, dict[str, Manner]] = {
    "scenes": {"short": Manner(5, 1.0), "long": Manner(2, 0.8), "focus": Manner(3, 1.2)},
    "zoom": {"short": Manner(5, 1.0), "long": Manner(3, 0.8), "plain": Manner(2, 1.2)},
    "digits": {"short": Manner(5, 1.0), "long": Manner(2, 0.9), "named": Manner(3, 0.9)},
    "badges": {"short": Manner(5, 1.0), "long": Manner(3, 0.8), "policy": Manner(2, 0.8)},
    "clips": {"short": Manner(5, 1.0), "long": Manner(3, 0.8), "plain": Manner(2, 1.2)},
}


def picture_worlds(stage: int = 1, digits: str = "drawn") -> list[tuple[World, Dial]]:
    """The worlds with pictures at all levels; the text has `drawn` digits, or `real` ones where scikit-learn is."""
    settings = {"digits": {"source": digits}}
    return [
        (worlds.get(name, level=level, **settings.get(name, {})), dial)
        for name, levels in PICTURES[stage].items()
        for level, dial in levels.items()
    ]


def picture_examples(world: World, dial: Dial, index: int, rng: Random) -> list[Example]:
    """What one task gives to read: a question and an answer, sometimes with a hint or an earlier attempt, or a whole
    conversation, of which sometimes only the last observation is seen."""
    task = world.task(FIRST_TASK + index)
    manners = MANNERS[world.name]
    style = rng.choices(list(manners), [manner.share for manner in manners.values()])[0]
    right = dial.right ** manners[style].risk
    if isinstance(world, Quest):
        turns = world.conversation(task, world.attempt(task, style, right=right))
        messages = tuple(Message(turn["content"], turn["role"] == "assistant") for turn in turns)
        answered = messages[-1].text.rpartition("answer: ")[2]
        if world.name == "zoom" and rng.random() < LAST_ALONE:
            messages = messages[-2:]
        return [Example(messages, answered == task.data["answer"] if rng.random() < GRADED else None)]
    assert isinstance(world, Puzzle)
    if isinstance(world, Scenes) and rng.random() < DESCRIBED:
        said = world.describe(task, rng.choice(("short", "long")))
        return [Example((Message(world.unasked(task), False), Message(said, True)))]
    form = rng.random()
    if form < HINTED:
        prompt, solution = hinted(world, task, style, max(right, HELPED), rng)
        return [Example((Message(prompt, False), Message(solution, True)))]
    if form < HINTED + TRIED:
        tried = world.attempt(task, style, seed=1, right=float(rng.random() < TRIED_RIGHT))
        better = world.attempt(task, style, right=right**AFTER_ATTEMPT)
        return [Example((Message(with_attempt(task.prompt, tried), False), Message(better, True)))]
    solution = world.attempt(task, style, right=right)
    graded = bool(world.grade(task, solution).info["correct"]) if rng.random() < GRADED else None
    return [Example((Message(task.prompt, False), Message(solution, True)), graded)]
