"""Policy gradients and group-relative baselines that other methods start from, such as PPO, GRPO and DAPO."""
