"""Sampling by engines that are not Podium's: vLLM in this process, and servers with an OpenAI-compatible interface.

Start with `outside.py` (`OutsideSampler`, what both have in common); `mapping.py` translates requests and answers.
"""

from podium.sampler.outside.choose import LOCAL, check_engine, check_name, open_sampler

__all__ = ["LOCAL", "check_engine", "check_name", "open_sampler"]
