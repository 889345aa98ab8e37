"""Process rewards and rewards from likelihoods, without a verifier of every step."""
