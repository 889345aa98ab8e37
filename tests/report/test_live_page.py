"""The live page: who may read it, what it reads, and how fast a folder of runs opens."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from podium.core.errors import PodiumError
from podium.report.live_data import RunBrowser, find_runs
from podium.store.metrics_log import append_line
from tests.report.page_runs import folder_of_runs, small_run

TOKEN = "secret"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_run(tmp_path_factory.mktemp("page") / "runs" / "mine")


@pytest.fixture(scope="module")
def address(run: Path) -> Iterator[str]:
    uvicorn = pytest.importorskip("uvicorn")
    pytest.importorskip("starlette")
    from podium.report.live_page import HOST, _bound, live_app

    app = live_app(RunBrowser([run.parent]), TOKEN)
    server, socket = uvicorn.Server(uvicorn.Config(app, log_level="error")), _bound(0)
    serving = threading.Thread(target=server.run, kwargs={"sockets": [socket]}, daemon=True)
    serving.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://{HOST}:{socket.getsockname()[1]}"
    server.should_exit = True
    serving.join(5)


def _get(address: str, path: str, token: str = TOKEN, host: str | None = None) -> tuple[int, Any]:
    sign = "&" if "?" in path else "?"
    request = urllib.request.Request(f"{address}{path}{sign}token={token}", headers={"Host": host} if host else {})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            body = answer.read()
            return answer.status, json.loads(body) if path.startswith("/api") else body.decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_data_needs_the_token_and_this_machine_s_name(address: str) -> None:
    for path in ("/", "/api/runs", "/api/metrics?run=mine", "/api/rollouts?run=mine", "/api/xray?run=mine"):
        assert _get(address, path, token="")[0] == 403
        assert _get(address, path, token="other")[0] == 403
        assert _get(address, path, host="evil.example")[0] == 403  # a name that somebody lets point to this machine
    assert _get(address, "/")[0] == 200


def test_nothing_but_the_runs_can_be_read(address: str, run: Path) -> None:
    for name in ("..", "../..", str(run), "/etc", "mine/../mine", ""):
        assert _get(address, f"/api/metrics?run={urllib.request.quote(name)}")[0] == 400
    assert _get(address, "/static/live_page.py")[0] == 404
    assert _get(address, "/static/..%2Flive_page.py")[0] == 404
    assert _get(address, "/api/rollouts?run=mine&iteration=abc")[0] == 400
    assert _get(address, "/api/rollouts?run=mine&iteration=99")[0] == 400


def test_runs_metrics_and_rollouts_are_what_the_files_say(address: str) -> None:
    (shown,) = _get(address, "/api/runs")[1]["runs"]
    assert {k: shown[k] for k in ("name", "method", "world", "iteration", "iterations", "seed")} == {
        "name": "mine", "method": "grpo", "world": "sums 1", "iteration": 3, "iterations": 3, "seed": 0,
    }  # fmt: skip
    assert shown["recorded"] == [1, 2, 3]
    whole = _get(address, "/api/metrics?run=mine&since=-1")[1]
    assert whole["whole"]
    assert [line["iteration"] for line in whole["lines"]] == [0, 1, 2, 3]
    later = _get(address, "/api/metrics?run=mine&since=2")[1]
    assert not later["whole"]
    assert [line["iteration"] for line in later["lines"]] == [3]
    rollouts = _get(address, "/api/rollouts?run=mine")[1]
    assert rollouts["iteration"] == 3
    assert len(rollouts["rollouts"]) == 32


def test_the_xray_of_the_page_is_the_recorded_one(address: str, run: Path) -> None:
    status, view = _get(address, "/api/xray?run=mine&iteration=2")
    assert status == 200
    assert view["iteration"] == 2
    rollout = view["groups"][0]["rollouts"][0]
    assert "".join(t for t in rollout["tokens"] if not t.startswith("⟨")) == rollout["text"]
    assert len(rollout["tokens"]) == len(rollout["methods"]["grpo"]["credit"]) == len(rollout["entropy"])
    (found,) = _get(address, "/api/doctor?runs=mine")[1]["mine"]
    assert found["rule"] == "noisy-evaluation"  # it has four held-out tasks


def test_a_new_line_shows_at_the_next_question(run: Path, tmp_path: Path) -> None:
    folder = folder_of_runs(run, tmp_path, 2)
    browser = RunBrowser([folder])
    before = {each["name"]: each["version"] for each in browser.runs()}
    append_line(folder / "run-001" / "metrics.jsonl", {"iteration": 4, "reward": 0.5, "rollouts": 1})
    after = {each["name"]: each for each in browser.runs()}
    assert after["run-000"]["version"] == before["run-000"]
    assert after["run-001"]["version"] != before["run-001"]
    assert after["run-001"]["iteration"] == 4


def test_a_folder_of_a_hundred_runs_opens_at_once_and_without_torch(run: Path, tmp_path: Path) -> None:
    folder = folder_of_runs(run, tmp_path, 100)
    code = (
        "import sys, time\nfrom pathlib import Path\nfrom podium.report.live_data import RunBrowser\n"
        "begun = time.process_time()\nruns = RunBrowser([Path(sys.argv[1])]).runs()\n"
        "print(len(runs), time.process_time() - begun, 'torch' in sys.modules)"
    )
    ended = subprocess.run([sys.executable, "-c", code, str(folder)], capture_output=True, text=True, check=True)
    count, seconds, torch = ended.stdout.split()
    assert int(count) == 100
    assert float(seconds) < 0.5
    assert torch == "False"


def test_seeds_of_one_setting_belong_together(run: Path, tmp_path: Path) -> None:
    runs = RunBrowser([folder_of_runs(run, tmp_path, 3)]).runs()
    assert len({each["setting"] for each in runs}) == 1
    assert sorted(each["seed"] for each in runs) == [0, 1, 2]


def test_a_place_without_runs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PodiumError, match="There is no directory"):
        find_runs([tmp_path / "nothing"])
    assert find_runs([tmp_path]) == {}


def test_a_damaged_last_line_does_not_hide_the_run(run: Path, tmp_path: Path) -> None:
    folder = folder_of_runs(run, tmp_path, 1)
    with (folder / "run-000" / "metrics.jsonl").open("a") as out:
        out.write('{"iteration": 4, "rew')
    (shown,) = RunBrowser([folder]).runs()
    assert shown["iteration"] == 3
