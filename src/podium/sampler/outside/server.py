"""A server with an OpenAI-compatible interface on this machine: `--sampler openai:http://localhost:8000/v1`.

Token ids go in and come back, with their log-probabilities. New weights go through a directory that the server reads:
vLLM by the call `podium_renew` of its workers, SGLang by its own.
"""

from __future__ import annotations

import http.client
import json
import shutil
import tempfile
import threading
from collections.abc import Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

from podium.core.errors import PodiumError
from podium.core.loopback import is_loopback
from podium.core.printable import error_text, one_line
from podium.policy.engine_weights import stale_weights
from podium.policy.model.weights import plain_weights
from podium.policy.policy import Policy
from podium.sampler.outside.mapping import EngineAnswer
from podium.sampler.outside.outside import Ids, OutsideSampler, Place

__all__ = ["ServerSampler"]

PROBE = "Add 12 and 345: what is the sum?"  # a text that tokenizers read differently
LONGEST = 1 << 28  # bytes of an answer that are read
START_VLLM = (
    "VLLM_SERVER_DEV_MODE=1 vllm serve MODEL --logprobs-mode processed_logprobs --max-logprobs 256 "
    "--worker-extension-cls podium.policy.engine_weights.RenewsWeights"
)


class ServerSampler(OutsideSampler):
    """Asks a server for each completion, `parallel` at a time.

    `weights` is the folder that new weights are written to and that the server reads them from (by default a temporary
    one); `elsewhere` allows a server on another machine, which sees all questions and answers.
    """

    name = "the server"

    def __init__(
        self,
        policy: Policy,
        url: str,
        *,
        seed: int = 0,
        model: str | None = None,
        parallel: int = 64,
        timeout_s: float = 600.0,
        retries: int = 3,
        weights: str | None = None,
        elsewhere: bool = False,
    ) -> None:
        super().__init__(policy, seed=seed)
        self.url, self._place = url.rstrip("/"), _place(url, elsewhere)
        self.name, self.title = f"the server at {self.url}", f"The server at {self.url}"
        self.timeout_s, self.retries = timeout_s, retries
        self._local = threading.local()
        self._closed = threading.Event()
        self.model, self._context = self._described(model)
        paths = self._call("GET", "/openapi.json", None).get("paths", {})
        self._renewal = self._way_to_renew(paths)
        if "/tokenize" in paths:
            self._check_tokenizer()
        self._own_folder = None if weights else tempfile.mkdtemp(prefix="podium-weights-")
        self._folder = Path(weights or str(self._own_folder))
        self._pool = ThreadPoolExecutor(parallel, thread_name_prefix="podium-sampler")
        self._calls: dict[Future[EngineAnswer], Place] = {}

    @property
    def context_length(self) -> int:
        return self._context

    # -- sampling ------------------------------------------------------------------------------------------------------

    def start(self, place: Place, text: Ids, settings: Mapping[str, Any]) -> None:
        asked = {"return_token_ids": True, "return_tokens_as_token_ids": True}
        body = {"model": self.model, "prompt": list(text), **settings, **asked}
        self._calls[self._pool.submit(self._complete, body)] = place

    def finished(self) -> list[tuple[Place, EngineAnswer]]:
        done = wait(self._calls, return_when=FIRST_COMPLETED).done
        return [(self._calls.pop(call), call.result()) for call in [c for c in self._calls if c in done]]

    def _complete(self, body: Mapping[str, Any]) -> EngineAnswer:
        answer = self._call("POST", self._path("completions"), body)
        try:
            return _drawn(answer["choices"][0])
        except (LookupError, TypeError, ValueError) as problem:
            raise PodiumError(
                f"{self.title} gives no token ids with their log-probabilities ({error_text(problem)}): training needs "
                f"both. vLLM gives them: {START_VLLM}"
            ) from problem

    # -- weights -------------------------------------------------------------------------------------------------------

    def renew(self) -> None:
        part = self._folder.with_name(f"{self._folder.name}.part")
        shutil.rmtree(part, ignore_errors=True)
        self.policy.save(part)
        shutil.rmtree(self._folder, ignore_errors=True)
        part.replace(self._folder)
        if self._renewal == "sglang":
            answer = self._call("POST", "/update_weights_from_disk", {"model_path": str(self._folder)})
            if not answer.get("success", False):
                raise PodiumError(f"{self.title} refused new weights: {one_line(str(answer.get('message', answer)))}")
            return
        call = {"method": "podium_renew", "args": [str(self._folder)]}
        try:
            results = self._call("POST", "/collective_rpc", call)["results"]
        except (PodiumError, LookupError) as problem:
            raise PodiumError(
                f"{self.title} cannot take new weights ({problem}). Start it with {START_VLLM}"
            ) from problem
        self._call("POST", "/reset_prefix_cache", None)
        stale = stale_weights(plain_weights(self.policy).items(), results[0]) if len(results) == 1 else []
        if stale:
            raise PodiumError(
                f"{self.title} has other weights than the trainer after they were renewed, in {stale[0]} and "
                f"{len(stale) - 1} further parameters: is it serving this model?"
            )

    def _way_to_renew(self, paths: Mapping[str, Any]) -> str:
        if "/collective_rpc" in paths:
            return "vllm"
        if "/update_weights_from_disk" in paths:
            return "sglang"
        raise PodiumError(
            f"{self.title} has no call that gives it new weights, so it would go on sampling from the old ones. Start "
            f"vLLM with {START_VLLM}"
        )

    def _check_tokenizer(self) -> None:
        """Refuse a server whose model reads text as other tokens."""
        asked = {"model": self.model, "prompt": PROBE, "add_special_tokens": False}
        theirs = self._call("POST", "/tokenize", asked).get("tokens")
        mine = self.policy.tokenizer(PROBE, add_special_tokens=False)["input_ids"]
        if theirs is not None and list(theirs) != list(mine):
            raise PodiumError(
                f"{self.title} has another tokenizer than {self.policy.name or 'the model'}: it reads {PROBE!r} as "
                f"{len(theirs)} other tokens. Let it serve the model that is trained."
            )

    def _described(self, model: str | None) -> tuple[str, int]:
        """The name of the model that the server has, and the longest text that it takes."""
        listed = self._call("GET", self._path("models"), None).get("data") or [{}]
        names = [str(one.get("id", "")) for one in listed]
        if model is not None and model not in names:
            raise PodiumError(f"{self.title} has no model {model!r}: it has {', '.join(names)}.")
        chosen = listed[names.index(model)] if model is not None else listed[0]
        longest = chosen.get("max_model_len") or self.policy.context_length
        return str(chosen.get("id", "")), min(int(longest), self.policy.context_length)

    def close(self) -> None:
        self._closed.set()
        self._pool.shutdown(wait=False, cancel_futures=True)
        if self._own_folder is not None:
            shutil.rmtree(self._own_folder, ignore_errors=True)

    # -- calls ---------------------------------------------------------------------------------------------------------

    def _path(self, what: str) -> str:
        return f"{self._place.path.rstrip('/')}/{what}"

    def _call(self, method: str, path: str, body: Mapping[str, Any] | None) -> dict[str, Any]:
        """The server's answer; a call that is not answered is repeated after a pause that doubles each time."""
        problem = ""
        for attempt in range(self.retries + 1):
            if attempt and self._closed.wait(2.0 ** (attempt - 1)):
                break
            try:
                status, text = self._answer(method, path, body)
            except (OSError, http.client.HTTPException) as error:
                self._local.connection = None
                problem = f"cannot be reached ({error_text(error)})"
                continue
            if status >= 500 or status in (408, 425, 429):
                problem = f"answered {status}: {one_line(text[:500])}"
                continue
            if status >= 400:
                raise PodiumError(f"{self.title} answered {status} to {path}: {one_line(text[:500])}")
            if not text:
                return {}
            try:
                found = json.loads(text)
            except ValueError as error:
                raise PodiumError(f"{self.title} answered something else than JSON to {path}.") from error
            return found if isinstance(found, dict) else {"answer": found}
        raise PodiumError(
            f"{self.title} {problem}, after {self.retries + 1} calls. Start it, and go on with podium train --resume: "
            "everything up to the last checkpoint is kept."
        )

    def _answer(self, method: str, path: str, body: Mapping[str, Any] | None) -> tuple[int, str]:
        connection = getattr(self._local, "connection", None)
        if connection is None:  # one for each thread, kept open
            kind = http.client.HTTPSConnection if self._place.scheme == "https" else http.client.HTTPConnection
            connection = self._local.connection = kind(
                str(self._place.hostname), self._place.port, timeout=self.timeout_s
            )
        sent = None if body is None else json.dumps(body).encode()
        connection.request(method, path, sent, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read(LONGEST).decode("utf-8", "replace")
        if answer.will_close:
            self._local.connection = None
        return answer.status, text


def _place(url: str, elsewhere: bool) -> SplitResult:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise PodiumError(f"The sampler 'openai:{url}' must look like openai:http://localhost:8000/v1")
    if not elsewhere and not is_loopback(parts.hostname):
        raise PodiumError(
            f"The server {url} is not on this machine, and would get to see questions and answers of the run: name one "
            "on localhost, or allow it with --set sampler.elsewhere=true."
        )
    return parts


def _drawn(choice: Mapping[str, Any]) -> EngineAnswer:
    """One choice of an answer: ids from `token_ids`, or from tokens that are written as `token_id:17`."""
    listed = choice["logprobs"]
    ids = choice.get("token_ids")
    ids = tuple(map(int, ids)) if ids is not None else tuple(map(_id, listed["tokens"]))
    logp = tuple(map(float, listed["token_logprobs"]))
    if len(ids) != len(logp):
        raise ValueError(f"{len(ids)} ids and {len(logp)} log-probabilities")
    likely = [{_id(token): float(p) for token, p in (row or {}).items()} for row in listed.get("top_logprobs") or ()]
    return EngineAnswer(ids, logp, likely or [{}] * len(ids), choice.get("finish_reason") == "stop")


def _id(token: str) -> int:
    kind, _, number = token.partition(":")
    if kind != "token_id":
        raise ValueError(f"a token is given as {token!r}, not as its id")
    return int(number)
