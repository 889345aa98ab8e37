"""The live page: a server on this machine alone that shows runs while they train. It only reads their files."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Awaitable, Callable, Sequence
from importlib import resources
from pathlib import Path
from threading import Timer
from typing import Any

from podium.core.errors import PodiumError
from podium.report.live_data import RunBrowser

__all__ = ["HOST", "live_app", "serve_page"]

HOST = "127.0.0.1"
WARM_UP_S = 3.0  # seconds after the start
STATIC = {"app.js": "web", "charts.js": "web", "xray.js": "web", "page.css": "web", "style.css": ""}
KINDS = {"js": "text/javascript", "css": "text/css", "html": "text/html"}
# Nothing is fetched from elsewhere, and no other page may embed this one or read it.
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


def page_file(name: str) -> bytes:
    """A file of the page that is served, or written into a report."""
    folder = resources.files("podium.report")
    return folder.joinpath(*filter(None, (STATIC.get(name, "web"), name))).read_bytes()


def live_app(browser: RunBrowser, token: str, host: str = HOST) -> Any:
    """The application: static files for everyone on this machine, data for those who have the token."""
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.requests import Request
    from starlette.responses import JSONResponse, Response
    from starlette.routing import Route

    Answer = Callable[[Request], dict[str, Any]]

    def refused(request: Request) -> Response | None:
        """Why a request is refused: only this machine's own name is answered, so that no other site can use its own."""
        if request.url.hostname not in (host, "localhost"):
            return JSONResponse({"error": "Not this host."}, 403, HEADERS)
        if not hmac.compare_digest(request.query_params.get("token", ""), token):
            return JSONResponse({"error": "The address needs the token that podium view has printed."}, 403, HEADERS)
        return None

    def data(answer: Answer) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            if (no := refused(request)) is not None:
                return no
            try:
                return JSONResponse(await run_in_threadpool(answer, request), headers=HEADERS)
            except PodiumError as problem:
                return JSONResponse({"error": str(problem)}, 400, HEADERS)

        return endpoint

    async def index(request: Request) -> Response:
        no = refused(request)
        return no or Response(page_file("index.html"), media_type=KINDS["html"], headers=HEADERS)

    async def static(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in STATIC:
            return Response("There is no such file.", 404, HEADERS)
        return Response(page_file(name), media_type=KINDS[name.rpartition(".")[2]], headers=HEADERS)

    async def no_icon(request: Request) -> Response:
        return Response(status_code=204, headers=HEADERS)  # browsers ask for one whatever they were answered

    def whole(request: Request, name: str) -> int | None:
        text = request.query_params.get(name, "")
        if text and not text.lstrip("-").isdigit():
            raise PodiumError(f"{name} = {text!r} is not a number.")
        return int(text) if text else None

    def run_of(request: Request) -> str:
        return request.query_params.get("run", "")

    def methods(request: Request) -> list[str]:
        return request.query_params.get("methods", "").replace(",", " ").split()

    answers: dict[str, Answer] = {
        "runs": lambda request: {"runs": browser.runs()},
        "metrics": lambda request: browser.metrics(run_of(request), _or(whole(request, "since"), -1)),
        "rollouts": lambda request: browser.rollouts(run_of(request), whole(request, "iteration")),
        "xray": lambda request: browser.xray(run_of(request), whole(request, "iteration"), methods(request)),
        "doctor": lambda request: browser.findings(request.query_params.get("runs", "").splitlines()),
    }
    routes = [Route("/", index), Route("/static/{name}", static), Route("/favicon.ico", no_icon)]
    return Starlette(routes=[*routes, *(Route(f"/api/{name}", data(answer)) for name, answer in answers.items())])


def _or(value: int | None, other: int) -> int:
    return other if value is None else value


def serve_page(paths: Sequence[Path], port: int, tell: Callable[[str], None]) -> None:
    """Serve until Ctrl-C. `tell` gets the address, with a token that only those who see it know."""
    try:
        import uvicorn

        token = secrets.token_urlsafe(16)
        browser = RunBrowser(paths)
        found = len(browser.runs())
        app = live_app(browser, token)
    except ImportError as error:
        raise PodiumError("The live page needs the extra ui: pip install 'podium-rl[ui]'.") from error
    warming = Timer(WARM_UP_S, _warm_up)  # when the page is open: both would share one core
    warming.daemon = True
    warming.start()
    server = uvicorn.Server(uvicorn.Config(app, host=HOST, port=port, log_level="warning", access_log=False))
    socket = _bound(port)
    address = f"http://{HOST}:{socket.getsockname()[1]}/?token={token}"
    tell(f"{found} {'run' if found == 1 else 'runs'}: {address} (Ctrl-C ends it)")
    server.run(sockets=[socket])


def _warm_up() -> None:
    """Import what X-rays need, before somebody asks for one."""
    import podium.sessions.xray  # noqa: F401


def _bound(port: int) -> Any:
    import socket

    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((HOST, port))
        listening.listen()  # from now on a browser may come, before the server is ready
    except OSError as error:
        listening.close()
        raise PodiumError(f"Port {port} is taken ({error.strerror}): choose another one with --port.") from error
    return listening
