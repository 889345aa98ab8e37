"""The live page and reports in Chromium: they open, update, filter and explain, in the dark and on narrow screens.

`make browser` installs what this needs. Elsewhere these tests are skipped. PODIUM_SCREENSHOTS=FOLDER keeps pictures.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from podium.report.run_page import write_report
from podium.sessions.xray import xray
from podium.store.metrics_log import append_line, read_log
from tests.report.page_runs import folder_of_runs, small_run

if not os.environ.get("PODIUM_BROWSER"):
    pytest.skip("make browser runs these", allow_module_level=True)
webdriver = pytest.importorskip("selenium.webdriver")

from selenium.webdriver.common.action_chains import ActionChains  # noqa: E402

PATIENCE_S = 20.0
WIDE, NARROW = (1300, 1000), (390, 800)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with rollouts, and two more seeds of it."""
    root = tmp_path_factory.mktemp("browser")
    run = small_run(root / "trained")
    folder_of_runs(run, root / "runs", 3)
    shutil.copytree(run, root / "runs" / "trained")
    return root / "runs"


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    """The page as `podium view` serves it."""
    code = "import sys; from podium.cli import main; sys.exit(main())"
    started = subprocess.Popen([sys.executable, "-c", code, "view", str(folder)], stdout=subprocess.PIPE, text=True)
    assert started.stdout is not None
    line = started.stdout.readline()
    yield next(word for word in line.split() if word.startswith("http"))
    started.terminate()
    started.wait(10)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--hide-scrollbars"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    yield driver
    driver.quit()


@pytest.fixture
def browser(chromium: Any, request: pytest.FixtureRequest) -> Iterator[Any]:
    """A window whose console must stay empty."""
    chromium.set_window_size(*WIDE)
    chromium.get_log("browser")
    yield chromium
    if kept := os.environ.get("PODIUM_SCREENSHOTS"):
        Path(kept).mkdir(parents=True, exist_ok=True)
        chromium.save_screenshot(str(Path(kept) / f"{request.node.name}.png"))
    assert [entry["message"] for entry in chromium.get_log("browser")] == []


def until(find: Callable[[], Any], what: str) -> Any:
    """Wait for something that is true."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        if found := find():
            return found
        time.sleep(0.05)
    raise AssertionError(f"{what} did not come within {PATIENCE_S} seconds")


def all_of(browser: Any, selector: str) -> list[Any]:
    found: list[Any] = browser.find_elements("css selector", selector)
    return found


def text(browser: Any, selector: str = "body") -> str:
    return str(browser.execute_script("return document.querySelector(arguments[0])?.innerText ?? ''", selector))


def axis(browser: Any) -> list[str]:
    """What stands along the axes of the second chart."""
    script = "return [...document.querySelectorAll('.chart')[1].querySelectorAll('.tick')].map((t) => t.textContent)"
    found: list[str] = browser.execute_script(script)
    return found


def open_tab(browser: Any, address: str, tab: str) -> None:
    browser.get(address)
    until(lambda: all_of(browser, ".run"), "the list of runs")
    browser.find_element("css selector", f"[data-tab={tab}]").click()


def choose(browser: Any, control: str, value: str) -> None:
    script = """const x = document.querySelector(`[data-control="${arguments[0]}"]`); x.value = arguments[1];
    x.dispatchEvent(new Event("input")); x.dispatchEvent(new Event("change"));"""
    browser.execute_script(script, control, value)


def only_trained(browser: Any) -> None:
    """Leave only the run chosen that has rollouts; the list is drawn anew after each click."""
    script = """const other = [...document.querySelectorAll(".run")].find(
      (run) => run.querySelector("input").checked && !run.innerText.startsWith("trained"));
    other?.querySelector("input").click(); return !other;"""
    until(lambda: browser.execute_script(script), "one chosen run")


def test_the_page_opens_with_curves_of_all_runs(browser: Any, address: str) -> None:
    browser.get(address)
    until(lambda: len(all_of(browser, ".chart polyline")) > 10, "curves")
    assert len(all_of(browser, ".run")) == 4
    titles = [chart.text for chart in all_of(browser, ".chart h3")]
    assert titles[:3] == ["held-out pass@1", "reward", "right answers"]
    for wanted in ("KL to the reference (nats per token)", "clipped tokens", "sampled tokens per second"):
        assert wanted in titles
    share = browser.execute_script(
        "return [...document.querySelector('.chart svg').querySelectorAll('.tick')].map(t => t.textContent)"
    )
    assert share[0] == "0"
    assert "1" in share


def test_the_page_is_refused_without_its_token(browser: Any, address: str) -> None:
    browser.get(address.partition("?")[0])
    assert "needs the token" in text(browser)
    browser.get_log("browser")  # which says that it was refused


def test_hover_tells_the_values_and_zoom_cuts_the_axis(browser: Any, address: str) -> None:
    browser.get(address)
    chart = until(lambda: all_of(browser, ".chart svg"), "charts")[1]
    ActionChains(browser).move_to_element(chart).perform()
    tip = until(lambda: [t for t in all_of(browser, ".chart .tip") if t.is_displayed()], "a tooltip")[0]
    assert tip.text.startswith("iteration ")
    assert "trained" in tip.text
    before = axis(browser)
    ActionChains(browser).move_to_element_with_offset(chart, -60, 0).click_and_hold().move_by_offset(
        110, 0
    ).release().perform()
    until(lambda: axis(browser) != before, "the zoom")
    ActionChains(browser).double_click(all_of(browser, ".chart svg")[1]).perform()
    until(lambda: axis(browser) == before, "the whole axis")


def test_an_iteration_shows_within_two_seconds(browser: Any, address: str, folder: Path) -> None:
    browser.get(address)
    until(lambda: all_of(browser, ".chart polyline"), "curves")
    file = folder / "run-001" / "metrics.jsonl"
    last = dict(read_log(file).lines[-1])
    append_line(file, {**last, "iteration": 17})
    begun = time.monotonic()
    until(lambda: "17/3" in text(browser, ".runs"), "the new iteration")
    until(lambda: "16" in text(browser, ".charts") or "15" in text(browser, ".charts"), "its point on the axis")
    assert time.monotonic() - begun < 2.5


def test_seeds_become_a_band(browser: Any, address: str) -> None:
    browser.get(address)
    until(lambda: len(all_of(browser, ".chart polyline")) > 10, "curves")
    browser.find_element("css selector", "[data-control=bands]").click()
    until(lambda: "4 seeds" in text(browser, ".charts") or "3 seeds" in text(browser, ".charts"), "a mean over seeds")
    assert len(all_of(browser, ".chart:nth-child(2) polygon")) >= 1


def test_runs_and_rollouts_are_filtered(browser: Any, address: str) -> None:
    open_tab(browser, address, "curves")
    search = browser.find_element("css selector", ".runs input[type=search]")
    search.send_keys("run-00")
    until(lambda: len(all_of(browser, ".run")) == 3, "three runs")
    search.clear()
    search.send_keys("trained")
    until(lambda: len(all_of(browser, ".run")) == 1, "one run")
    search.send_keys(" ")
    open_tab(browser, address, "curves")
    only_trained(browser)
    browser.find_element("css selector", "[data-tab=rollouts]").click()
    until(lambda: len(all_of(browser, "table.rollouts tbody tr")) == 32, "the rollouts")
    choose(browser, "only", "right")
    until(lambda: 0 < len(all_of(browser, "table.rollouts tbody tr")) < 32, "fewer rollouts")
    assert not all_of(browser, "table.rollouts tbody .no")
    choose(browser, "search", "no such text")
    until(lambda: "0 of 32 rollouts" in text(browser), "none")


def test_the_xray_shows_methods_side_by_side(browser: Any, address: str) -> None:
    open_tab(browser, address, "curves")
    only_trained(browser)
    browser.find_element("css selector", "[data-tab=xray]").click()
    until(lambda: all_of(browser, ".token"), "tokens")
    choose(browser, "methods", "grpo gspo")
    until(lambda: len(all_of(browser, ".group:first-child .rollout:first-child .side")) == 2, "two sides")
    tinted = "return [...document.querySelectorAll('.token')].filter(t => t.style.background.includes('rgba')).length"
    assert browser.execute_script(tinted) > 10
    ActionChains(browser).move_to_element(all_of(browser, ".token")[0]).perform()
    tip = until(lambda: [t for t in all_of(browser, ".token-tip") if t.is_displayed()], "the token's values")[0]
    for word in ("log-probability", "entropy", "ratio", "credit", "push of objective.PolicyGradient"):
        assert word in tip.text
    choose(browser, "methods", "spo")
    until(lambda: "spo cannot be" in text(browser), "a reason")
    browser.get_log("browser")  # which says that the question was refused


def test_the_doctor_speaks(browser: Any, address: str) -> None:
    open_tab(browser, address, "curves")
    only_trained(browser)
    browser.find_element("css selector", "[data-tab=doctor]").click()
    until(lambda: "noisy-evaluation" in text(browser), "a finding")
    assert "podium eval" in text(browser, ".finding code")


def test_light_and_dark(browser: Any, address: str) -> None:
    browser.get(address)
    until(lambda: all_of(browser, ".chart polyline"), "curves")
    colour = "return getComputedStyle(document.body).backgroundColor"
    first = browser.execute_script(colour)
    browser.find_element("id", "theme").click()
    second = browser.execute_script(colour)
    assert {first, second} == {"rgb(255, 255, 255)", "rgb(17, 24, 39)"}


@pytest.mark.parametrize("tab", ["curves", "rollouts", "xray", "doctor"])
def test_nothing_is_wider_than_a_narrow_screen(browser: Any, address: str, tab: str) -> None:
    browser.set_window_size(*NARROW)
    open_tab(browser, address, "curves")
    only_trained(browser)
    browser.find_element("css selector", f"[data-tab={tab}]").click()
    shown = {"curves": ".chart svg", "rollouts": "table.rollouts td", "xray": ".token", "doctor": ".finding"}
    until(lambda: all_of(browser, shown[tab]), tab)
    inside = "return document.documentElement.scrollWidth <= document.documentElement.clientWidth"
    assert browser.execute_script(inside)


def test_a_report_is_one_file_that_can_be_asked(browser: Any, folder: Path) -> None:
    browser.get(write_report(folder / "trained").as_uri())
    assert "The same held-out tasks" in text(browser)
    chart = until(lambda: all_of(browser, "#curves .chart svg"), "curves")[0]
    ActionChains(browser).move_to_element(chart).perform()
    until(lambda: [t for t in all_of(browser, ".chart .tip") if t.is_displayed()], "a tooltip")
    assert all_of(browser, "#tokens .token")
    browser.set_window_size(*NARROW)
    assert browser.execute_script("return document.documentElement.scrollWidth <= document.documentElement.clientWidth")


def test_an_xray_is_one_file(browser: Any, folder: Path, tmp_path: Path) -> None:
    from podium.report.xray_page import write_xray

    page = write_xray(xray(folder / "trained", ["grpo", "dr-grpo"]), tmp_path / "xray.html")
    browser.get(page.as_uri())
    assert len(all_of(browser, ".group:first-child .rollout:first-child .side")) == 2


def test_hostile_text_stays_text(browser: Any, tmp_path: Path) -> None:
    from podium.report.xray_page import write_xray

    bad = "</script><script>document.title='broken'</script><img src=x onerror=\"document.title='broken'\">"
    rollout = {
        "index": 0, "reward": 1.0, "correct": True, "stop": "end", "text": bad, "tokens": [bad, "<b>"],
        "logp": [0.0, 0.0], "entropy": [0.0, 0.0], "nodes": [],
        "turns": [{"start": 0, "end": 2, "action": bad, "observation": bad, "agent": bad, "reward": 0, "valid": None}],
        "methods": {bad: {"credit": [1, 1], "push": [1, 1], "ratio": [1, 1], "turns": [1.0], "parts": {bad: [1, 1]},
                          "terms": {}, "rewards": {bad: 1}}},
    }  # fmt: skip
    group = {"task": bad, "prompt": bad, "flat": False, "rollouts": [rollout]}
    page = write_xray({"run": bad, "iteration": 1, "methods": [bad], "groups": [group]}, tmp_path / "bad.html")
    browser.get(page.as_uri())
    until(lambda: all_of(browser, ".token"), "tokens")
    time.sleep(0.3)
    assert browser.title != "broken"
    assert not all_of(browser, "img")
