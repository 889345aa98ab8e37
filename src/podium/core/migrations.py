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


def _from_1(name: str, settings: Settings) -> tuple[str, Settings]:
    name = RENAMED_1.get(name, name)
    if name == "Majority":
        return _vote(settings)
    if name != "Method":
        return name, {key: _renamed_column(value) for key, value in settings.items()}
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
