"""The pages in a real browser: planned, started, run by keyboard, explained, audited.

Screenshots go to the folder DECO_ARTIFACTS, tests/artifacts by default.
"""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from decobandit.problem import Arm, Problem
from decobandit.server.http_server import listen
from decobandit.trials import create_trial
from helpers.design_pages import FILE, overlapping
from helpers.web_client import Site

PATIENCE = 240_000  # milliseconds, for a busy machine
ARTIFACTS = Path(os.environ.get("DECO_ARTIFACTS", Path(__file__).parents[1] / "artifacts"))
EVIL = "<script>alert(1)</script>"


class Served:
    """A site with an address."""

    def __init__(self, site: Site, address: str) -> None:
        self.site, self.address = site, address


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    site = Site(tmp_path_factory.mktemp("browser"))
    with listen("127.0.0.1", 0) as listening:
        config = uvicorn.Config(
            site.app, lifespan="off", log_config=None, ws="none", loop="asyncio"
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        for _ in range(600):
            if server.started:
                break
            time.sleep(0.05)
        yield Served(site, f"http://127.0.0.1:{listening.getsockname()[1]}")
        server.should_exit = True
        thread.join(timeout=30)
    site.close()


@contextmanager
def window(
    chromium: Any,
    served: Served,
    role: str = "admin",
    *,
    width: int = 1200,
    scheme: str = "light",
    refused: int = 0,
) -> Iterator[Any]:
    """A page that has logged in; whatever the browser complains of fails the test.

    `refused`: how many forms are refused, which it mentions.
    """
    complaints: list[str] = []
    context = chromium.new_context(
        base_url=served.address, viewport={"width": width, "height": 800}, color_scheme=scheme
    )
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    # a refused policy (CSP), an error of a script, a file that is not there: all come this way
    page.on("console", lambda said: complaints.append(said.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", lambda dialog: (complaints.append(dialog.message), dialog.dismiss()))
    page.goto("/login")
    # the field has the focus, once the page is drawn: keys pressed before are lost
    page.wait_for_function("document.activeElement.id === 'token'")
    page.keyboard.type(served.site.tokens[role])
    with page.expect_navigation():
        page.keyboard.press("Enter")
    assert page.url == f"{served.address}/", page.locator("main").text_content()
    yield page
    context.close()
    mentioned = [said for said in complaints if "status of 422" in said]
    assert len(mentioned) == refused
    assert [said for said in complaints if said not in mentioned] == []


def picture(page: Any, name: str) -> None:
    ARTIFACTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=ARTIFACTS / f"{name}.png", full_page=True)


def fits(page: Any) -> bool:
    """Nothing has to be scrolled sideways."""
    return bool(page.evaluate("document.documentElement.scrollWidth <= innerWidth"))


def wait_for_figures(page: Any) -> None:
    for figure in page.locator("[data-figure]").all():
        page.wait_for_selector(f"#{figure.get_attribute('id')}[data-drawn=yes]")


def test_a_trial_is_planned_started_run_by_keyboard_explained_and_audited(
    chromium: Any, served: Served
) -> None:
    with window(chromium, served) as page:
        page.get_by_role("link", name="Plan a trial").first.click()
        page.get_by_label("Name of the trial").fill("by keyboard")
        page.get_by_label("Horizon").fill("12")
        page.get_by_label("Policy").select_option("deco")  # decides by the price that is drawn
        page.get_by_role("button", name="Add an arm").click()
        page.get_by_role("button", name="Remove arm 3").click()
        page.get_by_label("Name of arm 3").fill(EVIL)
        page.keyboard.press("Enter")
        page.get_by_text("Upper bound on the expected total reward of any policy").wait_for()
        assert page.evaluate("document.activeElement.id") == "expected"
        assert EVIL in page.locator("#toml").text_content()
        picture(page, "plan-desktop-light")
        page.get_by_role("button", name="Start this trial").click()
        page.wait_for_url("**/trials/*")
        address = page.url
        told = run_by_keyboard(page, outcomes="ggbgbggbbg")
        assert EVIL in told
        assert page.get_by_text("10 of 12 outcomes are recorded").count() == 1
        picture(page, "run-desktop-light")
        page.get_by_role("link", name="Why").click()
        wait_for_figures(page)
        assert page.locator("#path svg .legendtext", has_text="price of a pull").count() == 1
        # the line of the price, drawn: one path of its width
        line = "#path svg .scatterlayer path.js-line[style*='stroke-width: 4.2px']"
        assert page.locator(line).count() == 1
        assert page.locator("svg.bar line.bound").count() == 3
        assert page.locator("td.name", has_text="<script>alert").count() == 1
        picture(page, "why-desktop-light")
        page.get_by_role("link", name="Audit").click()
        page.get_by_role("button", name="Verify the log").click()
        page.get_by_text("The log is intact: 21 events").wait_for()
        page.get_by_role("button", name="Recompute decisions").click()
        page.get_by_text("10 of 10 decisions are the same").wait_for()
        page.locator("summary", has_text="asked").first.click()
        picture(page, "audit-desktop-light")
        assert page.url.startswith(address)


def run_by_keyboard(page: Any, outcomes: str) -> list[str]:
    """The arms that were given, one for each outcome."""
    given = []
    for number, outcome in enumerate(outcomes):
        page.keyboard.press("n")
        page.wait_for_selector("#arm")
        page.keyboard.press("n")  # pressed twice, asked once
        given.append(page.locator("#arm").text_content())
        if number == 3:
            picture(page, "run-next-arm-desktop-light")
        # a nervous finger: the key asks, and while it asks keys do nothing
        page.keyboard.press(outcome)
        page.keyboard.press(outcome)
        assert page.locator("dialog").count() == 1
        assert given[-1] in page.locator("dialog p").text_content()
        if number == 4:  # back, and once more
            page.keyboard.press("Escape")
            page.wait_for_selector("dialog", state="detached")
            assert page.get_by_text("4 of 12 outcomes are recorded").count() == 1
            page.keyboard.press(outcome)
        if number == 3:
            picture(page, "run-confirm-desktop-light")
        page.keyboard.press("Enter")
        page.get_by_text("Recorded:").wait_for()
        page.wait_for_selector("button[data-shortcut=n].main")
    return given


def filled(served: Served, name: str, arms: list[str], *, horizon: int, told: int) -> str:
    """A trial under way, and its address."""
    problem = Problem(horizon=horizon, arms=[Arm(name=arm) for arm in arms])
    trial = create_trial(problem, name=name, db=served.site.store, seed=1, tol=1e-3)
    for number in range(told):
        trial.tell(trial.ask().id, int(number % 3 > 0))
    return f"/trials/{trial.id}"


@pytest.mark.parametrize(("width", "scheme"), [(375, "light"), (1200, "dark")])
def test_every_page_fits_the_screen_in_both_colour_schemes(
    chromium: Any, served: Served, width: int, scheme: str
) -> None:
    kind = f"{'phone' if width < 600 else 'desktop'}-{scheme}"
    long = [f"{EVIL} of a treatment with quite a long name {i}" for i in range(12)]
    busy = filled(served, f"busy {kind}", long, horizon=30, told=20)
    fresh = filled(served, f"fresh {kind}", ["A", "B"], horizon=8, told=0)
    ended = filled(served, f"ended {kind}", ["A", "B"], horizon=8, told=8)
    with window(chromium, served, width=width, scheme=scheme) as page:
        for name, path in {
            "list": "/",
            "plan-empty": "/plan",
            "run": busy,
            "why": f"{busy}/why",
            "audit": f"{busy}/audit?check=chain",
            "why-fresh": f"{fresh}/why",
            "run-ended": ended,
            "why-ended": f"{ended}/why",
            "results": f"{busy}/results",
            "report": f"{ended}/report",
            "allocations": f"{ended}/allocations",
        }.items():
            page.goto(path)
            wait_for_figures(page)
            assert fits(page), name
            picture(page, f"{name}-{kind}")
        page.goto(busy)
        page.keyboard.press("n")
        page.wait_for_selector("#arm")
        assert page.locator("#arm").text_content().startswith(EVIL)
        assert fits(page)
        picture(page, f"run-next-arm-{kind}")


def test_an_operator_runs_a_trial_and_sees_nothing_of_it(chromium: Any, served: Served) -> None:
    here = filled(served, "blind", ["A", "B"], horizon=8, told=3)
    with window(chromium, served, "operator", width=375) as page:
        page.goto(here)
        page.keyboard.press("n")
        page.wait_for_selector("#arm")
        picture(page, "run-operator-phone-light")
        page.keyboard.press("g")
        page.get_by_role("button", name="Record good").click()
        page.get_by_text("Outcome recorded for").wait_for()
        shown = page.locator("main").inner_text()
        assert not any(word in shown.lower() for word in ("price", "index", "stage", "of 8"))
        assert page.get_by_role("progressbar").count() == 0


def test_forms_for_subjects_reasons_unmasking_and_closing(chromium: Any, served: Served) -> None:
    here = filled(served, "forms", ["PLACEBO", "VERUM"], horizon=8, told=0)
    with window(chromium, served, "operator", width=375) as page:
        page.goto(here)
        page.get_by_label("Subject").fill("S-gb1")  # letters that are keys elsewhere
        page.keyboard.press("Enter")
        page.wait_for_selector("#arm")
        page.get_by_text("Subject: S-gb1").wait_for()
        assert page.locator("#arm").text_content() in ("A", "B")
        assert fits(page)
        page.locator("summary", has_text="Unmask").click()
        page.get_by_label("Category of the unmasking").select_option("planned")
        page.get_by_label("Reason to unmask").fill("call of the ward")
        page.get_by_role("button", name="Unmask").click()
        page.locator("dialog").get_by_role("button", name="Unmask").click()
        page.get_by_text("records that you were told").wait_for()
        assert page.locator("#arm").text_content() in ("PLACEBO", "VERUM")
        page.get_by_role("link", name="Back to the trial").click()
        page.locator("summary", has_text="Cancel allocation").click()
        page.get_by_role("button", name="Cancel allocation").click()  # the reason is required
        assert page.locator("input[name=reason]:invalid").count() > 0
        page.get_by_label("Reason to cancel").fill("went home")
        assert fits(page)
        picture(page, "run-cancel-operator-phone-light")
        page.keyboard.press("Enter")
        assert "subject S-gb1?" in page.locator("dialog p").text_content()
        page.get_by_role("button", name="Go back").click()
        page.get_by_label("Reason to cancel").press("Enter")
        page.locator("dialog").get_by_role("button", name="Cancel allocation").click()
        page.get_by_text("Allocation cancelled:").wait_for()
    with window(chromium, served) as page:
        page.goto(f"{here}/audit")
        assert page.get_by_role("cell", name="went home").count() == 1
        page.goto(here)
        page.locator("summary", has_text="Close or archive").click()
        page.get_by_role("button", name="Close the trial").click()
        page.get_by_text("The trial is closed.").wait_for()
        page.get_by_role("link", name="People").click()
        page.get_by_text("The log is intact").wait_for()
        assert page.get_by_role("cell", name="call of the ward").count() == 1
        assert fits(page)
        picture(page, "people-desktop-light")


@pytest.mark.parametrize(("width", "scheme"), [(375, "dark"), (1200, "light")])
def test_mistakes_of_a_form_are_seen_beside_their_fields(
    chromium: Any, served: Served, width: int, scheme: str
) -> None:
    with window(chromium, served, width=width, scheme=scheme, refused=1) as page:
        page.goto("/plan")
        page.get_by_label("Prior bad outcomes of arm 2").fill("none")
        page.locator("summary", has_text="Rules").click()
        page.get_by_label("Burn-in").fill("many")
        page.keyboard.press("Enter")
        for name, said in (
            ("bad-2", "'none' is not a number"),
            ("burn_in", "'many' is not a whole number"),
        ):
            beside = page.locator(f"#wrong-{name}")
            beside.wait_for()
            assert beside.text_content() == said
            assert beside.bounding_box()["height"] > 10  # to be seen
        assert fits(page)
        picture(page, f"plan-wrong-{'phone' if width < 600 else 'desktop'}-{scheme}")


@pytest.mark.parametrize(("width", "scheme"), [(375, "dark"), (1200, "light")])
def test_a_design_is_planned_and_reported(
    chromium: Any, served: Served, tmp_path: Path, width: int, scheme: str
) -> None:
    (tmp_path / "design.toml").write_text(FILE)
    at = f"{'phone' if width < 600 else 'desktop'}-{scheme}"
    with window(chromium, served, width=width, scheme=scheme) as page:
        page.goto("/plan")
        page.locator("summary", has_text="From a problem file").click()
        page.get_by_label("File", exact=True).set_input_files(tmp_path / "design.toml")
        page.wait_for_function("document.getElementById('problem-text').value.length > 100")
        page.locator("summary", has_text="Rules: control").click()
        page.locator("summary", has_text="Scenarios: what if").click()
        page.get_by_role("button", name="Remove arm 3").click()
        page.get_by_role("button", name="Add a scenario").click()
        typed = ("0.3", "0.3", "0.3", "0.7")
        for field, text in zip(page.locator("[name=truth]").all(), typed, strict=True):
            field.fill(text)
        # an arm and a scenario more, and they go again: probabilities stay with their arms
        page.get_by_role("button", name="Add an arm").click()
        page.get_by_role("button", name="Add a scenario").click()
        assert page.get_by_label("Success probability of arm 3 in scenario 3").count() == 1
        assert fits(page)
        picture(page, f"plan-rules-{at}")
        page.get_by_role("button", name="Remove scenario 3").click()
        page.get_by_role("button", name="Remove arm 3").click()
        assert [field.input_value() for field in page.locator("[name=truth]").all()] == [
            "0.3",
            "0.3",
            "0.3",
            "0.7",
        ]
        with page.expect_navigation():
            page.locator("button.main", has_text="Compute the forecast").click()
        assert page.locator("h2", has_text="Scenario works").is_visible()
        assert fits(page)
        picture(page, f"plan-design-{at}")
        with page.expect_navigation():
            page.get_by_role("button", name="Report to print").click()
        assert page.locator("h2", has_text="Sensitivity to priors").is_visible()
        assert fits(page)
        assert overlapping(page) == []
        picture(page, f"design-report-{at}")


def test_the_page_stays_small_with_400_pending_allocations(chromium: Any, served: Served) -> None:
    problem = Problem(horizon=450, arms=[Arm(name=arm) for arm in ("A", "B")])
    trial = create_trial(
        problem, name="crowd", db=served.site.store, policy="equal", seed=1, tol=1e-2, max_open=400
    )
    slots = [trial.ask(subject=f"P-{i:03}") for i in range(400)]
    with window(chromium, served, width=375) as page:
        for path in ("", "/results"):
            page.goto(f"/trials/{trial.id}{path}")
            assert fits(page)
            assert page.evaluate("document.documentElement.scrollHeight") < 5000
        page.goto(f"/trials/{trial.id}")
        picture(page, "run-400-pending-phone-light")
        page.get_by_label("Number or subject").fill("P-345")
        page.keyboard.press("Enter")
        page.get_by_text("allocation 346, subject P-345").wait_for()
        assert page.get_by_text("subject P-").count() == 1
        page.get_by_role("button", name="Good outcome").click()
        page.get_by_role("button", name="Record good").click()
        page.get_by_text("Recorded: good outcome").wait_for()
        assert trial.allocations()[345].outcome == 1
        page.get_by_role("link", name="Later ones").click()
        page.get_by_text("allocation 11, subject P-010").wait_for()
        assert page.get_by_text("Page 2 of 40; 389 more are pending.").count() == 1
    assert slots[345].subject == "P-345"


def test_the_skip_link_comes_first_and_the_focus_can_be_seen(chromium: Any, served: Served) -> None:
    with window(chromium, served) as page:
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")
        style = "getComputedStyle(document.activeElement).outlineStyle"
        assert page.evaluate("document.activeElement.closest('main') !== null")
        assert page.evaluate(style) == "solid"
