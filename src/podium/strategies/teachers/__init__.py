"""Answers that the policy did not just sample: of teachers, experts, files and earlier iterations."""
