"""Demonstrations, teachers and distillation combined with reinforcement learning."""
