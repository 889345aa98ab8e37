"""Formats of the past: what earlier versions wrote to YAML, read as if it had been written today.

`FORMAT` is the version of what is written now. YAML says it (`format: 2`); without that key it is of version 1, or was
written by hand. Each step turns one version into the next and leaves alone what is already of the next, so a text
written by hand needs no version. A change of format adds a step here, and a run recorded before it to
`tests/migrations`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from podium.core.errors import PodiumError

__all__ = ["FORMAT", "migrate"]

FORMAT = 2

Settings = dict[str, Any]
# A class and its settings in one version, as they are in the next.
Step = Callable[[str, Settings], tuple[str, Settings]]

RENAMED_1 = {
    "Apart": "SeparateUpdates",
    "Beside": "AlternativeAdvantage",
    "Bonus": "ColumnBonus",
    "Comparison": "MixtureComponent",
    "Halves": "SplitHalves",
    "HintWorth": "HintReward",
    "Marked": "MatchPatterns",
    "Mixed": "MixedOutcomes",
    "Override": "OverrideReward",
    "Signed": "SignedReward",
    "Watch": "ReportMean",
}
# Parts that stood among the rewards before there was a stage for them.
ANNOTATE_1 = {
    "AnswerValue",
    "FeedbackGain",
    "GreedyBaseline",
    "MarkDegenerate",
    "MarkPattern",
    "MarkPhrases",
    "MatchPatterns",
    "PlanValues",
    "RandomBlocks",
    "ReadTags",
    "ReferencePower",
    "StepPotential",
    "ThinkingMoments",
    "TurnCritic",
}


RENAMED_COLUMNS_1 = {"node.score": "node.reward"}


RENAMED_FIELDS_1 = {
    "Continuations": {"places": "positions"},
    "Fork": {"places": "fork_points"},
    "LearnToHint": {"worth": "hint_reward"},
}
# Settings that strategies had before `Draw` held them.
DRAW_1 = {
    **{name: name for name in ("temperature", "top_p", "top_k", "warmth", "max_turns", "context", "train_context")},
    "room": "token_share",
}
# Settings that strategies inherited and no longer have, with the values that had no effect.
SAMPLE_1: Settings = {"greedy_baseline": False, "trained": None, "demonstrations": [], "demonstrate_as": "demo"}
EXAMPLES_1: Settings = {"WorkedExamples": {"count": 1, "pool": 64, "style": "short"}}
SHARES_1: Settings = {"SolutionShares": {"shares": [0.25, 0.5, 0.75], "unit": "characters", "style": "short"}}
REPAIR_1: Settings = {**SAMPLE_1, "tries": None}
GUIDED_1: Settings = {**SAMPLE_1, "help": EXAMPLES_1, "guided": 1, "level": None}
DROPPED_1: dict[str, Settings] = {
    **{name: {} for name in ("Sample", "SampleMore", "SecondWave", "Windowed", "Rounds", "Allocated")},
    **dict.fromkeys(("SampleAdvised", "SampleBlueprints", "StepProbes", "BudgetedTurns", "Prune"), SAMPLE_1),
    **dict.fromkeys(("HintPrefix", "HintRounds", "NextTurn", "Guided", "Repair", "Refine"), SAMPLE_1),
    **dict.fromkeys(("Branching", "Fork", "Grow", "Search", "Tree"), SAMPLE_1),
    "Augmented": {**SAMPLE_1, "guided": None, "level": None, "scaffold": "kept"},
    "Contrasted": {**GUIDED_1, "scaffold": "kept"},
    "LearnToHint": {**REPAIR_1, "help": SHARES_1, "when": "all wrong", "search": "at once", "take": "group", "most": 1},
    "ReplayAndReflect": {
        **REPAIR_1,
        **{"when": "all alike", "search": "in turn", "take": "add"},
        **{"scaffold": "kept", "active": 1.0, "success": 0.0},
    },
    "RubricShown": GUIDED_1,
}


def _from_1(name: str, settings: Settings) -> tuple[str, Settings]:
    name = RENAMED_1.get(name, name)
    if name == "Majority":
        return _vote(settings)
    if name != "Method":
        fields = RENAMED_FIELDS_1.get(name, {})
        settings = {fields.get(key, key): _renamed_column(value) for key, value in settings.items()}
        return name, _drawn(name, settings) if name in DROPPED_1 else settings
    settings = {"metric" if key == "evaluate" else key: value for key, value in settings.items()}
    rewards = settings.get("reward")
    rewards = rewards if isinstance(rewards, list) else [] if rewards is None else [rewards]
    rewards = [part for reward in rewards for part in _without_entropy(reward)]
    if rewards:
        settings["reward"] = rewards
    moved = [part for part in rewards if isinstance(part, dict) and ANNOTATE_1 & set(part)]
    if moved:
        settings["annotate"] = [*settings.get("annotate", []), *moved]
        settings["reward"] = [part for part in rewards if part not in moved]
    return name, settings


def _drawn(name: str, settings: Settings) -> Settings:
    """The settings of a strategy with those of its draw in `draw`, and without those that it no longer has."""
    if name == "ReplayAndReflect" and settings.get("help") == {"Stored": {"most": settings.get("most", 2)}}:
        settings = {key: value for key, value in settings.items() if key != "help"}
    dropped = DROPPED_1[name]
    for key, value in settings.items():
        if key in dropped and not _same(value, dropped[key]):
            raise PodiumError(
                f"{name} no longer has the setting {key!r}, which was {value!r} here: only {dropped[key]!r}, which is "
                "what it does now, can be read."
            )
    moved = {DRAW_1[key]: value for key, value in settings.items() if key in DRAW_1}
    kept = {key: value for key, value in settings.items() if key not in DRAW_1 and key not in dropped}
    if not moved:
        return kept
    draw = (kept.get("draw") or {"Draw": {}})["Draw"] or {}
    return {**kept, "draw": {"Draw": {**draw, **moved}}}


def _same(value: Any, default: Any) -> bool:
    """Whether a value says the same as a default, of which it may leave settings out."""
    if isinstance(value, dict) and isinstance(default, dict):
        return all(key in default and _same(inner, default[key]) for key, inner in value.items())
    return bool(value == default)


def _vote(settings: Settings) -> tuple[str, Settings]:
    """`Majority` was the hard and the soft vote in one, and subtracted the entropy of the answers."""
    settings = dict(settings)
    name = "VoteShare" if settings.pop("soft", False) else "Majority"
    if settings.get("entropy_weight") == 0:
        settings.pop("entropy_weight")
    if "entropy_weight" not in settings:
        settings.pop("entropy_of", None)
    return name, settings


def _without_entropy(reward: Any) -> list[Any]:
    """A vote that subtracts the entropy of the answers, as the vote and the penalty that follows it."""
    for name in ("Majority", "VoteShare"):
        vote = reward.get(name) if isinstance(reward, dict) else None
        if isinstance(vote, dict) and "entropy_weight" in vote:
            penalty = {"weight": vote["entropy_weight"], "of": vote.get("entropy_of", "group")}
            penalty |= {"empty": vote["empty"]} if "empty" in vote else {}
            rest = {key: value for key, value in vote.items() if not key.startswith("entropy_")}
            return [{name: rest}, {"AnswerEntropy": penalty}]
    return [reward]


def _renamed_column(value: Any) -> Any:
    return RENAMED_COLUMNS_1.get(value, value) if isinstance(value, str) else value


STEPS: dict[int, Step] = {1: _from_1}


def migrate(data: Any, version: int) -> Any:
    """Encoded values (`{ClassName: {field: value}}`) of a version of the format, as they are written today."""
    if version > FORMAT:
        raise PodiumError(
            f"This was written by a newer version of Podium (format {version}; this version reads up to {FORMAT}): "
            "update Podium."
        )
    for number in range(version, FORMAT):
        data = _walk(data, STEPS[number])
    return data


def _walk(data: Any, step: Step) -> Any:
    if isinstance(data, list):
        return [_walk(item, step) for item in data]
    if not isinstance(data, dict):
        return data
    inner = {key: _walk(value, step) for key, value in data.items()}
    if len(inner) == 1:
        ((name, settings),) = inner.items()
        if isinstance(name, str) and name[:1].isupper() and (settings is None or isinstance(settings, dict)):
            return dict([step(name, settings or {})])
    return inner
