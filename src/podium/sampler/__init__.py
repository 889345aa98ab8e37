"""The in-process sampler: continuous batching over the policy's own weights.

Start with `local.py` (`LocalSampler`, the loop). An engine (`row_engine.py`) holds the KV cache and runs the model;
`row_state.py` holds what each row is doing and draws its tokens.
"""

from podium.protocols.sampling import Completion, Generate, Sampler, Sampling, Stop

__all__ = ["Completion", "Generate", "Sampler", "Sampling", "Stop"]
