"""Asking chat servers: calls in threads, repeated with growing pauses."""

from __future__ import annotations

import http.client
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any
from urllib.parse import urlsplit

from podium.core.errors import PodiumError
from podium.core.loopback import is_loopback
from podium.core.printable import error_text, one_line
from podium.strategies.ask import Ask, ChatServer, Reply

__all__ = ["Servers", "check_place"]

MISTAKES = (401, 403, 404, 405)  # of the whole configuration, not of one question
TEMPORARY = (408, 409, 425, 429)  # worth another call, like all from 500
LONGEST = 1 << 24  # bytes of an answer that are read


class Servers:
    """The questions that servers are answering, and who waits for them."""

    def __init__(self) -> None:
        self._pools: dict[ChatServer, ThreadPoolExecutor] = {}
        self._open: dict[Future[Reply], Callable[[list[Reply]], None]] = {}
        self._closed = threading.Event()

    @property
    def busy(self) -> bool:
        return bool(self._open)

    def ask(self, server: ChatServer, question: Ask, then: Callable[[list[Reply]], None]) -> None:
        """Call `then` with the server's reply, from a later `deliver`."""
        check_place(server)
        if server not in self._pools:
            self._pools[server] = ThreadPoolExecutor(server.parallel, thread_name_prefix="podium-server")
        self._open[self._pools[server].submit(_replied, server, question, self._closed)] = then

    def deliver(self, block: bool = False) -> None:
        """Pass on what has been answered; with `block`, wait until something is. Raises if the server is down."""
        if not self._open:
            return
        done = wait(self._open, None if block else 0.005, FIRST_COMPLETED).done
        for call in [call for call in self._open if call in done]:  # in the order of the questions
            self._open.pop(call)([call.result()])

    def close(self) -> None:
        """Give up what is open."""
        self._closed.set()
        for pool in self._pools.values():
            pool.shutdown(wait=False, cancel_futures=True)
        self._pools, self._open, self._closed = {}, {}, threading.Event()


def check_place(server: ChatServer) -> None:
    """Refuse a server on another machine, unless it is allowed."""
    parts = urlsplit(server.url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise PodiumError(f"ChatServer.url = {server.url!r} must look like 'http://localhost:8000/v1'.")
    if not server.elsewhere and not is_loopback(parts.hostname):
        raise PodiumError(
            f"The server {server.url} is not on this machine, and would get to see questions and answers of the run: "
            "name one on localhost, or allow it with ChatServer(elsewhere=True)."
        )


def _replied(server: ChatServer, question: Ask, closed: threading.Event) -> Reply:
    """The server's reply, after as many calls as it takes."""
    problem, down = "", False
    for call in range(server.retries + 1):
        if call and closed.wait(server.pause_s * 2 ** (call - 1)):
            break
        try:
            return Reply(_called(server, question), calls=call + 1)
        except urllib.error.HTTPError as error:
            said = one_line(error.read(2000).decode("utf-8", "replace"))
            problem, down = f"the server at {server.url} answered {error.code} {error.reason}: {said}", False
            if error.code in MISTAKES:
                raise PodiumError(f"{problem}. Check its address and the name of the model.") from error
            if error.code < 500 and error.code not in TEMPORARY:
                return Reply("", problem, call + 1)
        except TimeoutError:
            problem, down = f"the server at {server.url} did not answer within {server.timeout_s:g} s", False
        except (urllib.error.URLError, ConnectionError) as error:
            reason = error.reason if isinstance(error, urllib.error.URLError) else error
            late = isinstance(reason, TimeoutError)
            problem, down = f"the server at {server.url} cannot be reached ({reason})", not late
        except (http.client.HTTPException, ValueError, LookupError, TypeError) as error:
            problem, down = f"the answer of the server at {server.url} cannot be read: {error_text(error)}", False
    if down:
        raise PodiumError(
            f"{problem[0].upper()}{problem[1:]}, after {server.retries + 1} calls: start it, and go on with podium "
            "resume. Everything up to the last checkpoint is kept."
        )
    return Reply("", problem, server.retries + 1)


class _Stay(urllib.request.HTTPRedirectHandler):
    """Follows no redirection: it could lead to another machine."""

    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None


def _called(server: ChatServer, question: Ask) -> str:
    """The text of one answer."""
    sampling = question.sampling
    body = {
        **({"model": server.model} if server.model else {}),
        "messages": [{"role": "user", "content": str(question.prompt)}],
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "max_tokens": sampling.max_tokens,
        "seed": question.stream[-1],
        **({"stop": list(sampling.stop)} if sampling.stop else {}),
    }
    request = urllib.request.Request(
        f"{server.url.rstrip('/')}/chat/completions",
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )
    handlers = () if server.elsewhere else (urllib.request.ProxyHandler({}), _Stay())
    with urllib.request.build_opener(*handlers).open(request, timeout=server.timeout_s) as answer:
        given = json.loads(answer.read(LONGEST))
    text = given["choices"][0]["message"]["content"]
    if not isinstance(text, str):
        raise TypeError("its content is no text")
    return text
