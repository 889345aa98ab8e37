"""Annotations: columns of rollouts that are made from text after collecting. Each module registers its own."""

from podium.collect.annotations import answer_f1, cut_turns, passages, plan_tags, registry, rubric

__all__ = ["answer_f1", "cut_turns", "passages", "plan_tags", "registry", "rubric"]
