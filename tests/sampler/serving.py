"""A server with an OpenAI-compatible interface in miniature: a model, its sampler, and the calls of vLLM's server."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import torch

from podium.policy import Policy
from podium.policy.engine_weights import STACKED, bit_sums
from podium.protocols.sampling import ALLOWED, Generate, Sampling, Stop
from podium.sampler.local import LocalSampler

PATHS = ("/collective_rpc", "/reset_prefix_cache", "/tokenize", "/v1/completions", "/v1/models")
SHARED = threading.Lock()  # one call at a time


@dataclass
class Engine:
    """A model behind the interface. `stale` says which weights a renewal leaves as they were; `answer` changes what
    the server says."""

    policy: Policy
    stale: Callable[[str], bool] = lambda name: False
    honest: bool = True  # about its weights
    paths: tuple[str, ...] = PATHS
    answer: Callable[[str, dict[str, Any]], dict[str, Any]] = lambda path, found: found
    calls: list[str] = field(default_factory=list)
    prompts: list[tuple[int, ...]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.sampler = LocalSampler(self.policy)

    def respond(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        self.calls.append(path)
        if path == "/openapi.json":
            return {"paths": {path: {} for path in self.paths}}
        if path == "/v1/models":
            return {"data": [{"id": "served", "max_model_len": self.policy.context_length}]}
        if path == "/tokenize":
            return {"tokens": self.policy.tokenizer(body["prompt"], add_special_tokens=False)["input_ids"]}
        if path == "/collective_rpc":
            return {"results": [self.renew(body["args"][0])]}
        if path == "/update_weights_from_disk":
            self.renew(body["model_path"])
            return {"success": True}
        return self.complete(body) if path == "/v1/completions" else {}

    def complete(self, body: dict[str, Any]) -> dict[str, Any]:
        names = ("temperature", "top_p", "top_k", "min_p", "max_tokens")
        settings = {name: body[name] for name in names if name in body}
        sampling = Sampling(**settings, stop=tuple(body.get("stop", ())))
        capture = ("topk=20", ALLOWED) if body["logprobs"] else ()
        prompt = tuple(body["prompt"])
        self.prompts.append(prompt)
        request = Generate(prompt, 1, sampling, (body["seed"],), capture=capture, keep=False)
        ((done,),) = self.sampler.generate([request])
        likely = [{f"token_id:{i}": p for i, p in row} for row in done.captured.get("topk=20", ())]
        for row, kept in zip(likely, done.captured.get(ALLOWED, ()), strict=False):
            for token in row:
                if kept is not None and chr(int(token[9:])) not in kept[1:]:
                    row[token] = -float("inf")  # as engines list what was cut
        logprobs = {"token_logprobs": list(done.logp), "top_logprobs": likely or None}
        ended = done.stop in (Stop.end, Stop.text)
        choice = {"token_ids": list(done.ids), "logprobs": logprobs, "finish_reason": "stop" if ended else "length"}
        return {"choices": [choice]}

    def renew(self, folder: str) -> dict[str, list[Any]]:
        before = {name: p.detach().clone() for name, p in self.policy.model.named_parameters()}
        self.policy.load(folder)
        said = self._fingerprints() if not self.honest else {}
        with torch.no_grad():
            for name, p in self.policy.model.named_parameters():
                if self.stale(name):
                    p.copy_(before[name])
        self.policy.bump()
        return said or self._fingerprints()

    def _fingerprints(self) -> dict[str, list[Any]]:
        """Of the parameters as engines keep them: some stand in one matrix."""
        whole: dict[str, list[torch.Tensor]] = {}
        for name, p in self.policy.model.named_parameters():
            for part, stacked in STACKED.items():
                name = name.replace(f".{part}.", f".{stacked}.")
            whole.setdefault(name, []).append(p.detach())
        return {name: [str(parts[0].dtype), *bit_sums(torch.cat(parts))] for name, parts in whole.items()}


@contextmanager
def serving(engine: Engine) -> Iterator[str]:
    """The engine's address."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.do_POST()

        def do_POST(self) -> None:
            text = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            with SHARED:
                found = engine.respond(self.path, json.loads(text) if text else {})
            content = json.dumps(engine.answer(self.path, found)).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        server.server_close()
