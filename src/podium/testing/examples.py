"""Settings to start from: of our parts where the defaults show too little, and of a user's `examples()`."""

from __future__ import annotations

import dataclasses
from typing import Any

from podium.parts.advantage import MixtureComponent, Normalize

__all__ = ["EXAMPLES", "examples_of"]


# By name of the class; the settings of a part beside its defaults.
EXAMPLES: dict[str, tuple[dict[str, Any], ...]] = {
    "Overlong": ({"max_length": 6, "buffer": 4},),  # the rollouts of synthetic batches are short
    "Whiten": ({"level": "rollout", "key": ("group",)},),  # so that there are cells of one, and constant ones
    "DifficultyControl": ({"interval": 1, "target_kl": 0.05},),  # so that it acts within two iterations
    "DropDisruptive": ({"norm": "vocabulary", "mu": 0.3},),  # so that more qualify than may be dropped
    "MarkPattern": ({"pattern": "tex"}, {"pattern": "1"}),  # what synthetic turns say
    # Limits that a handful of rollouts reach, and a library that is shown at once.
    "LessonLibrary": (
        {"golden": 2, "warnings": 2, "after": 1, "least": 1, "success": 0.1},
        {"best": 2, "new_golden": 2, "new_warnings": 2, "success": -0.5, "excellent": 0.3},
    ),
    "ReadTags": ({"tags": ("text 0", "<text 1>")}, {"tags": ("text 1",)}),
    # The similarity of the keys of synthetic states, which differ in one character of seven, lies below 0.9.
    "GroupInGroup": ({"similarity": 0.8},),
    "SeatReturns": ({"agent": "rollout.agent", "gamma": 0.9},),
    "Mixture": (
        {
            "comparisons": (
                MixtureComponent(gamma=0.9, key=("group", "step.index")),
                MixtureComponent(of="rollout.reward"),
            )
        },
        {
            "comparisons": (
                MixtureComponent(of="rollout.reward", rows="rollout"),
                MixtureComponent(where="step.selected"),
            )
        },
    ),
    "WholeShares": ({"workers": 5},),
    "RejectLazy": ({"threshold": 0.1, "factor": 0.8},),
    "DropLongContexts": ({"longest": 1},),
    "MarkPhrases": ({"phrases": ("text 1",)},),
    "SemanticEntropy": ({"phrases": ("text 0", "text 1")},),
    "PlanningPhrases": ({"sizes": (1, 2), "least": 1},),
    "SelectTokens": ({"rule": "floor", "scope": "rollout"},),  # so that a scope may select nobody
    "Marked": ({"marks": (("first", "text 0"), ("second", "text 1"))},),
    "LengthBonus": ({"reference_length": 4},),
    "LengthGate": ({"max_length": 4, "correct_above": 0.0},),
    "LengthLimit": ({"limits": (4, 2), "thresholds": (0.5,)},),
    "Rescale": ({"count": "credited", "key": ("group",)},),
    # Short steps, and whole numbers that add up to exactly 0 now and then.
    "SuffixSums": ({"step": 1, "of": "token.other.advantage", "centre": "none", "scale": "none"},),
    # Thresholds below the distances of synthetic batches, and windows that these few batches fill.
    "EntropyGatedKL": ({"base": -2.0, "lowest": -9.0, "window": 2},),
    "AsymmetricKL": ({"threshold": -1.0, "window": 2},),
    "ReportMean": ({"column": "rollout.correct", "where": "rollout.selected"},),
    "Recorded": ({"source": "demonstrations.jsonl"},),
    "RecordedPairs": ({"source": "pairs.jsonl"},),
    "AlternativeAdvantage": ({"part": Normalize(centre="median", scale="none"), "name": "median"},),
    "DampClipped": ({"ratio": "token", "floor": 0.01},),  # so that what is clipped shows
    # What a few observations of a few tasks show.
    "SometimesSolved": ({"low": 0.0, "high": 1.0},),
    "DomainRewards": ({"every": 1, "variant": "ewma"}, {"every": 1, "size": 2}),
    "SuccessReplay": ({"size": 4, "count": 3, "above": 0.1, "max_age": 1, "baselines": 4},),
    "PriorityReplay": ({"size": 6, "max_age": 1}, {"count": 3}),
    "WaitingSegments": ({"size": 6, "max_age": 1},),
    "PassRates": ({"keep": 2},),
    "ChoiceLayout": ({"of": "rollout.reply", "gold": "rollout.letter"},),
    "TextDiversity": ({"of": "rollout.reply"},),
    "InformationReward": ({"of": "rollout.reply", "task": 0.5},),
    "PhrasingStability": ({"of": "rollout.reply"}, {"of": "rollout.reply", "kind": "overlap"}),
    "EasierTiers": ({"tiers": ("domain 0",)},),
    "HardFocus": ({"keep": (2, 1, 1), "pool": None},),
    "MarkDegenerate": ({"length": 1, "times": 2},),
    "HybridReward": ({"score": "rollout.other", "squash": "threshold"},),
    "BrevityBonus": ({"max_length": 6},),
    "MatchTrajectories": ({"warmup": 9, "tau": 0.0, "top": 0.5},),  # synthetic curves have nine entries
    "Monitor": ({"metric": "pass@1", "start": 0.5, "high": 0.9},),
    "RouteByOrigin": ({"origins": ("hint",)},),
    "JudgedSearch": ({"gamma": 0.9},),
    "Updates": ({"epochs": 2, "mini_batches": 3},),
}


def examples_of(cls: type) -> list[Any]:
    """The defaults, where there are defaults for everything, and the known examples of a part's class."""
    own = getattr(cls, "examples", None)
    instances = list(own()) if callable(own) else []
    required = [
        f.name
        for f in dataclasses.fields(cls)
        if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
    ]
    if not required:
        instances.insert(0, cls())
    return [*instances, *(cls(**settings) for settings in EXAMPLES.get(cls.__name__, ()))]
