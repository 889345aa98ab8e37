"""What four estimators make of the same rewards, without any model: one group solves a task once, another three times.

python examples/estimators_by_hand.py
"""

from __future__ import annotations

from podium import Batch, methods


def main() -> dict[str, list[float]]:
    rewards = [1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 0.0]
    batch = Batch.from_rewards(rewards, group=["hard"] * 4 + ["easy"] * 4)
    advantages = {}
    for slug in ("grpo", "dr-grpo", "rloo", "grpo@nemo"):
        part = methods.get(slug).advantage
        assert part is not None
        advantages[slug] = part(batch)["rollout.advantage"].tolist()
        print(f"{slug:>10}", *(f"{x:6.2f}" for x in advantages[slug]))
    # The same by hand: statistics of a partition have one value per rollout, so formulas read as on paper.
    reward, groups = batch["rollout.reward"], batch.by("rollout", "group")
    print(f"{'by hand':>10}", *(f"{x:6.2f}" for x in (reward - groups.mean(reward)) / (groups.std(reward) + 1e-6)))
    return advantages


if __name__ == "__main__":
    main()
