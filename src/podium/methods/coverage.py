"""The survey's axes: where the feedback comes from, what stands for the reward, and what optimises the policy.

The three tags of a recipe are read off its parts, so that a new one has them as well.
"""

from __future__ import annotations

from podium.methods.catalogue import Recipe, get
from podium.parts.reward import LogRatio

__all__ = ["AXES", "survey_tags"]

# Each axis with its values, and of each the entry, or another command, that shows it best.
AXES: dict[str, dict[str, str]] = {
    "feedback": {
        "human preference": "dpo",
        "model preference": "ruscarl",
        "verifier": "grpo",
        "process reward": "implicit-prm",
        "tools and environments": "gigpo",
    },
    "reward model": {
        "explicit scalar": "causalrm",
        "implicit": "dpo",
        "rule": "grpo",
        "judge": "arenarl",
    },
    "optimiser": {
        "ppo with a critic": "ppo",
        "critic-free baseline": "rloo",
        "offline pairwise": "ipo",
        "rejection and imitation": "sft",
        "q-learning and actor-critic": "archer",
    },
}
PAIRWISE = {"Preference", "Quality"}  # terms
VALUES = {"BellmanRegression", "TurnCriticLoss", "TokenBaselineLoss", "PlanValueLoss"}
IMITATION = {"Likelihood", "DirectLikelihood", "Distil"}
JUDGES = {"Rubric", "Arena"}
LEARNED = {"ModelReward"}
WORLDS_OF_TURNS = {"keydoor", "lookup", "tools", "code", "clarify", "laps"}


def survey_tags(recipe: Recipe) -> tuple[str, str, str]:
    """Feedback, reward model and optimiser of a recipe's last phase."""
    method = get(recipe.slug).main()
    parts = {type(part).__name__ for part in method.parts()}
    ratios = [part for part in method.parts() if isinstance(part, LogRatio)]
    implicit = any(
        ratio.into in ("token.reward", "token.reward.process") for ratio in ratios
    )  # a log-ratio is the reward, not a penalty
    terms = {type(term).__name__ for term in method.objective}
    pairwise = bool(terms & PAIRWISE) and not terms & {"PolicyGradient"}
    return _feedback(recipe, parts, pairwise), _reward_model(parts, pairwise or implicit), _optimiser(terms, pairwise)


def _feedback(recipe: Recipe, parts: set[str], pairwise: bool) -> str:
    if pairwise or parts & LEARNED:
        return "human preference"
    if parts & JUDGES:
        return "model preference"
    if recipe.family == "process":
        return "process reward"
    turns = recipe.family == "turns" or recipe.home.world in WORLDS_OF_TURNS
    return "tools and environments" if turns else "verifier"


def _reward_model(parts: set[str], implicit: bool) -> str:
    if implicit:
        return "implicit"
    if parts & LEARNED:
        return "explicit scalar"
    return "judge" if parts & JUDGES else "rule"


def _optimiser(terms: set[str], pairwise: bool) -> str:
    if pairwise:
        return "offline pairwise"
    if terms & VALUES:
        return "q-learning and actor-critic"
    if "ValueLoss" in terms:
        return "ppo with a critic"
    return "rejection and imitation" if terms and terms <= IMITATION else "critic-free baseline"
