"""How much of each new text podium/tiny2 reads, and how much of it is right."""

from __future__ import annotations

from tools.pretrain.dials import Dial

KEPT_SHARE = 0.6  # of the text, on which podium/tiny2 is to say what podium/tiny would
PICTURE_SHARE = 0.16  # of the text

# First to be able to, then to be careless: in the first part of the text nearly everything new is right.
CLEAN_SHARE = 0.65  # of the text
CLEAN = 0.95  # the share of right solutions there

# Old worlds: the share of each level.
KEPT = {"echo": 1, "sums": 2, "countdown": 2, "rules": 2, "keydoor": 1, "lookup": 1.5, "tools": 1.5, "clarify": 1.5}

# New worlds whose examples are made as those of the old ones are.
NEW_WORLDS: dict[str, dict[int, Dial]] = {
    "cases": {1: Dial(6, 0.55), 2: Dial(4, 0.5), 3: Dial(4, 0.45), 4: Dial(3, 0.4), 5: Dial(2, 0.3)},
    "opinions": {1: Dial(2, 0.55), 2: Dial(2, 0.45), 3: Dial(2, 0.35), 4: Dial(1, 0.25), 5: Dial(1, 0.1)},
    "shop": {1: Dial(2, 0.55), 2: Dial(2, 0.45), 3: Dial(2, 0.35), 4: Dial(1, 0.25), 5: Dial(1, 0.1)},
    "trips": {1: Dial(8, 0.7), 2: Dial(8, 0.65), 3: Dial(6, 0.6), 4: Dial(6, 0.6)},
    "code": {1: Dial(5, 0.5), 2: Dial(7, 0.6), 3: Dial(6, 0.6), 4: Dial(6, 0.6)},
}

# Exercises of podium.worlds.texts, a dial a level.
SUBJECT_DIALS: dict[str, tuple[Dial, ...]] = {
    "pair verdict": (Dial(6, 0.2), Dial(5, 0.15), Dial(4, 0.15)),
    "scaled verdict": (Dial(2, 0.45), Dial(1.5, 0.4), Dial(1, 0.35)),
    "point verdict": (Dial(1.5, 0.5), Dial(1, 0.45), Dial(1, 0.4)),
    "step verdict": (Dial(2, 0.65), Dial(1.5, 0.65), Dial(1, 0.6)),
    "criterion verdict": (Dial(1.5, 0.65), Dial(1, 0.65), Dial(1, 0.6)),
    "caption verdict": (Dial(1, 0.55), Dial(1, 0.55)),
    "advice": (Dial(8, 0.55), Dial(6, 0.4), Dial(4, 0.25)),
    "search advice": (Dial(2, 0.6), Dial(2, 0.5), Dial(1.5, 0.4)),
    "direction": (Dial(3, 0.55), Dial(2, 0.4), Dial(1.5, 0.25)),
    "plan": (Dial(1.5, 0.55), Dial(1, 0.4), Dial(1, 0.25)),
    "can you": (Dial(2, 0.55),),
    "task wanted": (Dial(2, 0.6),),
    "prisoners": (Dial(3, 0.5),),
    "split": (Dial(1, 0.5),),
    "trust and split": (Dial(2, 0.4),),
    "vault attack": (Dial(1.5, 0.4),),
    "vault defence": (Dial(2, 0.5), Dial(3, 0.45)),
    "carry": (Dial(3, 0.6), Dial(3, 0.6), Dial(3, 0.55)),
    "sorting": (Dial(1.5, 0.35), Dial(2, 0.4), Dial(2.5, 0.3)),
    "calculator": (Dial(1.5, 0.5), Dial(1.5, 0.4), Dial(3, 0.45)),
    "judged search": (Dial(1.5, 0.5), Dial(2, 0.4), Dial(1.5, 0.3)),
    "sources": (Dial(1, 0.5), Dial(1.5, 0.4), Dial(1.5, 0.3)),
    "compound questions": (Dial(1.5, 0.5), Dial(1.5, 0.45), Dial(1.5, 0.4)),
    "refiner verdict": (Dial(1, 0.65), Dial(1.5, 0.65), Dial(1.5, 0.6)),
    "refiner cut": (Dial(1.5, 0.55), Dial(1.5, 0.5)),
    "table rows": (Dial(10, 1.0), Dial(6, 1.0)),
}

# Formats that recipes ask for; before each turn of a walk of keydoor the others are idle.
FORMATS: dict[str, Dial] = {
    "worded steps": Dial(2, 0.5),
    "construction": Dial(2, 0.5),
    "no construction": Dial(2, 0.5),
    "thinking": Dial(2, 0.5),
    "thinking in rules": Dial(1.5, 0.45),
    "kinds of reasoning": Dial(4, 0.8),
    "subgoals": Dial(5, 0.85),
    "blueprint": Dial(2.5, 0.6),
    "tool tags": Dial(2, 0.5),
    "search tags": Dial(5, 0.6),
    "reports": Dial(2.5, 0.5),
}
