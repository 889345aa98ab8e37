"""Rollouts of environments of the package verifiers, turn by turn.

The package runs a rollout from start to end and asks a client for each turn of the model. Here the client hands the
conversation to an episode, and waits for the text that the episode brings back: the environment's own code, its limits
and its rubric run as they are, in an event loop of their own.
"""

from __future__ import annotations

import asyncio
import contextvars
import copy
import functools
import inspect
import json
import re
import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import suppress
from functools import cache
from typing import Any, TypeVar

from podium.core.printable import error_text
from podium.protocols.world import FailedAction

__all__ = [
    "EventLoop",
    "Message",
    "EnvironmentRollout",
    "failures_recorded",
    "messages_of",
    "tools_text",
    "watch_functions",
]

T = TypeVar("T")
Message = tuple[str, str]  # role and text
CALL = re.compile(r"<tool_call>\s*(.*?)\s*(?:</tool_call>|$)", re.DOTALL)
TOOLS = (
    "These functions can be called:\n<tools>\n{tools}\n</tools>\n"
    'To call one, write <tool_call>{{"name": "…", "arguments": {{…}}}}</tool_call>. Its result comes back between '
    "<tool_response> tags."
)
PING_S = 1.0  # in which a loop answers that no code blocks
_failures: contextvars.ContextVar[list[str]] = contextvars.ContextVar("failures")


class EventLoop:
    """An event loop in a thread of its own. One that is blocked by code that does not await is left behind."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._starting = threading.Lock()

    def run(self, work: Coroutine[Any, Any, T], limit_s: float) -> T:
        """The result of a coroutine, from another thread; a FailedAction if it takes too long."""
        loop = self._current()
        future = asyncio.run_coroutine_threadsafe(work, loop)
        try:
            return future.result(limit_s)
        except FutureTimeout:
            future.cancel()
            self._leave_if_blocked(loop)
            raise FailedAction(f"the environment did not answer within {limit_s:g} s") from None

    def soon(self, call: Callable[[], Any]) -> None:
        """Call something in the loop, without waiting."""
        if self._loop is not None:
            with suppress(RuntimeError):  # it is closed
                self._loop.call_soon_threadsafe(call)

    def _current(self) -> asyncio.AbstractEventLoop:
        with self._starting:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                thread = threading.Thread(target=self._loop.run_forever, daemon=True, name="podium-environments")
                thread.start()
            return self._loop

    def _leave_if_blocked(self, loop: asyncio.AbstractEventLoop) -> None:
        ping = asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop)
        try:
            ping.result(PING_S)
        except FutureTimeout:
            with self._starting:
                if self._loop is loop:
                    self._loop = None
            loop.call_soon_threadsafe(loop.stop)  # it ends when the code that blocks it has


class EnvironmentRollout:
    """A rollout of an environment under way. `messages` is the conversation that the model answers next; when there is
    none, the rollout is over and `state` is that of the environment."""

    def __init__(self, environment: Any, row: Mapping[str, Any], loop: EventLoop, limit_s: float) -> None:
        self.environment, self.loop, self.limit_s = environment, loop, limit_s
        self.messages: list[Message] | None = []
        self.tools: Sequence[Any] = ()
        self.state: Any = None
        self._row = row
        self._task: asyncio.Task[None] | None = None
        self._advance(self._start())

    def answer(self, text: str) -> list[Message]:
        """Take the model's turn; what the environment says to it."""
        assert self.messages is not None
        said = _assistant(text, bool(self.tools))
        known = [*self.messages, ("assistant", said["content"] or "")]
        self._advance(self._continue(said))
        if self.messages is None:
            return []
        if self.messages[: len(known)] != known:
            raise FailedAction("the environment rewrites the conversation, which cannot be trained on turn by turn")
        return self.messages[len(known) :]

    def close(self) -> None:
        """End the rollout, if it is under way; the environment cleans up."""
        task = self._task
        if task is not None:
            self.loop.soon(task.cancel)

    def _advance(self, step: Coroutine[Any, Any, None]) -> None:
        self.loop.run(step, self.limit_s)

    async def _start(self) -> None:
        self._asked: asyncio.Queue[Any] = asyncio.Queue()
        self._task = asyncio.ensure_future(self._play())
        await self._wait()

    async def _continue(self, said: Mapping[str, Any]) -> None:
        self._answer.set_result(_response(said))
        await self._wait()

    async def _play(self) -> None:
        """The environment's own rollout."""
        client = _client_class()(self)
        try:
            state = await self.environment.rollout(copy.deepcopy(self._row), client, "podium", {})
            await self._asked.put(("over", state))
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            await self._asked.put(("failed", error))

    async def ask(self, prompt: Any, tools: Any) -> Any:
        """The model's answer, once there is one; the environment waits for it here."""
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        await self._asked.put(("asked", (prompt, tools, answer)))
        return await answer

    async def _wait(self) -> None:
        """Wait until the environment asks the model, or is done."""
        kind, value = await self._asked.get()
        if kind == "asked":
            prompt, tools, self._answer = value
            self.messages, self.tools = messages_of(prompt), tools or ()
            return
        self.messages = None
        if kind == "failed":
            raise FailedAction(f"the environment raised {error_text(value)}")
        self.state = value
        if value.get("error") is not None:
            raise FailedAction(f"the environment failed: {error_text(value['error'])}")


@cache
def _client_class() -> Any:
    """A client of the package that asks a rollout."""
    from verifiers.clients import Client

    class Asking(Client):  # type: ignore[misc]
        def __init__(self, rollout: EnvironmentRollout) -> None:
            super().__init__(rollout)
            self.rollout = rollout

        async def get_response(
            self, prompt: Any, model: str, sampling_args: Any, tools: Any = None, **others: Any
        ) -> Any:
            return await self.rollout.ask(prompt, tools)

    abstract = dict.fromkeys(Asking.__abstractmethods__, _unused)
    return type("Asking", (Asking,), abstract)


async def _unused(*arguments: Any, **named: Any) -> None:
    """What a client of a server would need."""


def _assistant(text: str, tools: bool) -> dict[str, Any]:
    """The model's text as a message: calls of tools apart from what is said before them."""
    calls = _calls(text) if tools else []
    if not calls:
        return {"content": text, "tool_calls": None}
    return {"content": text.partition("<tool_call>")[0].strip(), "tool_calls": calls}


def _calls(text: str) -> list[dict[str, str]]:
    """The calls of tools in a text; none if one of them cannot be read."""
    calls = []
    for number, content in enumerate(CALL.findall(text)):
        try:
            call = json.loads(content)
            name, arguments = call["name"], call.get("arguments", {})
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return []
        if not isinstance(name, str):
            return []
        given = arguments if isinstance(arguments, str) else json.dumps(arguments)
        calls.append({"id": f"call_{number}", "name": name, "arguments": given})
    return calls


def _response(said: Mapping[str, Any]) -> Any:
    """A message as the package has the answers of servers."""
    from verifiers.types import Response, ResponseMessage

    reason = "tool_calls" if said["tool_calls"] else "stop"
    message = ResponseMessage(**said, finish_reason=reason, is_truncated=False)
    return Response(id="podium", created=int(time.time()), model="podium", message=message)


def messages_of(prompt: Any) -> list[Message]:
    """A conversation of the package as roles and texts."""
    if isinstance(prompt, str):
        return [("user", prompt)]
    return [(str(_of(message, "role")), _text(_of(message, "content"))) for message in prompt]


def _of(message: Any, name: str) -> Any:
    return message.get(name) if isinstance(message, Mapping) else getattr(message, name, None)


def _text(content: Any) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    parts = [_of(part, "text") for part in content]
    if None in parts:
        raise FailedAction("the environment shows something other than text")
    return "".join(map(str, parts))


def tools_text(tools: Sequence[Any]) -> str:
    """How the model is told which tools there are."""
    schemas = [
        {name: _of(tool, name) for name in ("name", "description", "parameters") if _of(tool, name) is not None}
        for tool in tools
    ]
    listed = "\n".join(json.dumps({"type": "function", "function": schema}) for schema in schemas)
    return TOOLS.format(tools=listed)


def watch_functions(rubric: Any) -> None:
    """Let the functions of a rubric record that they fail: the package logs it and goes on with 0."""
    for part in getattr(rubric, "rubrics", ()):
        watch_functions(part)
    rubric.funcs = [_watched(function) for function in rubric.funcs]


def _watched(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    async def call(*arguments: Any, **named: Any) -> Any:
        try:
            result = function(*arguments, **named)
            return await result if inspect.isawaitable(result) else result
        except Exception as error:
            name = getattr(function, "__name__", type(function).__name__)
            _failures.get([]).append(f"the reward function {name} raised {error_text(error)}")
            raise

    return call


async def failures_recorded(work: Coroutine[Any, Any, Any]) -> list[str]:
    """What failed in the functions of a rubric while it scored."""
    found: list[str] = []
    _failures.set(found)
    await work
    return found
