"""The pages: who sees what, nothing of an operator's tells how a trial goes, names stay text."""

import html
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from decobandit.problem import Rules
from decobandit.server.auth import COOKIE
from decobandit.trials import Trial, create_trial, list_trials
from helpers.page_browser import EVIL, NAMES, Browser, Elements
from helpers.routes import routes_of
from helpers.web_client import HOST, Site

ROLES = ("admin", "viewer", "operator")
READERS = ("admin", "viewer")


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.close()


@pytest.fixture
def trial(site: Site) -> Trial:
    """Two outcomes told, one open."""
    made = site.trial(NAMES)
    for outcome in (1, 0):
        made.tell(made.ask().id, outcome)
    made.ask()
    return made


def pages_of(trial: Trial) -> dict[str, tuple[str, ...]]:
    """Every page, and who may see it."""
    here = f"/trials/{trial.id}"
    return {
        "/": ROLES,
        "/plan": READERS,
        here: ROLES,
        f"{here}/why": READERS,
        f"{here}/results": READERS,
        f"{here}/report": READERS,
        f"{here}/why.json": READERS,
        f"{here}/audit": READERS,
        f"{here}/audit?check=chain": READERS,
        f"{here}/audit?check=decisions": READERS,
        f"{here}/export.json": READERS,
        f"{here}/export.csv": READERS,
        f"{here}/allocations": READERS,
        "/people": ("admin",),
    }


OPEN_PAGES = {"/login", "/static/{name}", "/{path:elsewhere}"}  # need no token


# -- who sees what ------------------------------------------------------------------------------


def test_every_page_is_in_the_table(site: Site, trial: Trial) -> None:
    found = {
        route.path.replace("{trial}", trial.id)
        for route in routes_of(site.app.routes)
        if "GET" in (route.methods or ()) and not route.path.startswith("/api/")
    }
    listed = {path.partition("?")[0] for path in pages_of(trial)}
    assert found == listed | OPEN_PAGES | {"/metrics"}  # which has tests of its own


def test_the_reason_of_a_decision_is_shown_for_the_newest_allocation_only(site: Site) -> None:
    trial = site.trial(NAMES)
    slots = [trial.ask() for _ in range(3)]
    page = html.unescape(Browser(site, "viewer").get(f"/trials/{trial.id}").text)
    listed = page.partition("Pending outcomes</h2>")[2].partition("</section>")[0]
    assert listed.count("<li>") == 3
    assert all(slot.reason for slot in slots)
    assert listed.count(slots[-1].reason) == 1
    assert listed.count("<br>") == 1


@pytest.mark.parametrize("role", ROLES)
def test_every_page_is_for_its_roles_only(site: Site, trial: Trial, role: str) -> None:
    browser = Browser(site, role)
    for path, roles in pages_of(trial).items():
        assert browser.get(path).status_code == (200 if role in roles else 403), path


def test_strangers_are_sent_to_the_login_and_back(site: Site, trial: Trial) -> None:
    stranger = Browser(site, None)
    for path in pages_of(trial):
        found = stranger.get(path)
        assert found.status_code == 303
        assert found.headers["location"].startswith("/login")
    wanted = f"/trials/{trial.id}/why"
    assert stranger.get(wanted).headers["location"] == f"/login?next={wanted}"
    found = stranger.post("/login", data={"token": site.tokens["viewer"], "next": wanted})
    assert found.headers["location"] == wanted


@pytest.mark.parametrize("next", ["//evil.example", "https://evil.example", "/\\evil", "x", ""])
def test_a_login_leads_nowhere_else(site: Site, next: str) -> None:
    found = Browser(site, None).post("/login", data={"token": site.tokens["admin"], "next": next})
    assert found.headers["location"] == "/"


def test_the_cookie_is_not_the_token_and_scripts_cannot_read_it(site: Site) -> None:
    found = Browser(site, None).post("/login", data={"token": site.tokens["admin"]})
    cookie = found.headers["set-cookie"]
    assert site.tokens["admin"] not in cookie
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= {part.strip() for part in cookie.split(";")}
    assert "Secure" not in cookie


def test_behind_a_proxy_that_speaks_tls_the_cookie_is_sent_over_tls_only(site: Site) -> None:
    form = {"token": site.tokens["admin"]}
    found = Browser(site, None).post("/login", data=form, origin=f"https://{HOST}")
    assert "Secure" in {part.strip() for part in found.headers["set-cookie"].split(";")}


def test_a_wrong_token_is_told_so_and_gets_no_cookie(site: Site) -> None:
    found = Browser(site, None).post("/login", data={"token": "deco_wrong"})
    assert found.status_code == 401
    assert "This token is not valid." in found.text
    assert "set-cookie" not in found.headers


def test_after_logging_out_the_cookie_opens_nothing(site: Site) -> None:
    browser = Browser(site, "admin")
    assert browser.cookie.startswith(COOKIE)
    assert browser.post("/logout").headers["location"] == "/login"
    assert browser.get("/").headers["location"] == "/login"


@pytest.mark.parametrize("role", ["viewer", "operator"])
def test_writing_is_for_its_roles_only(site: Site, trial: Trial, role: str) -> None:
    browser, slot = Browser(site, role), trial.status().open[0]
    here, before = f"/trials/{trial.id}", len(trial.events())
    forms = {f"{here}/allocations/{slot.id}/correct": {"outcome": "good"}, "/trials": {"name": "x"}}
    if role == "viewer":
        forms |= {
            f"{here}/ask": {},
            f"{here}/allocations/{slot.id}/tell": {"outcome": "good"},
            f"{here}/allocations/{slot.id}/cancel": {},
        }
    for path, data in forms.items():
        assert browser.post(path, data=data).status_code == 403, path
    assert (len(trial.events()), len(list_trials(db=site.store))) == (before, 1)


# -- blinding -----------------------------------------------------------------------------------


def blurred(text: str, *names: str) -> str:
    """A page without what is random, and without the names that are meant to be on it."""
    for name in names:
        text = text.replace(name, "NAME")
    text = re.sub(r'name="key" value="[^"]+"', 'name="key"', text)
    return re.sub(r"\b[0-9a-f]{16}\b|no\. [0-9a-f]{6}", "ID", text)


def test_an_operator_sees_the_same_page_however_the_trial_goes(site: Site) -> None:
    operator = Browser(site, "operator")
    problem = {"horizon": 8, "arms": [{"name": "LEFT"}, {"name": "RIGHT"}]}
    seen = set()
    for name, outcomes in {
        "T-one": "",
        "T-two": "1",
        "T-six": "0001000",
        "T-ten": "111011",
    }.items():
        trial = site.trial(problem, name)
        for outcome in outcomes:
            trial.tell(trial.ask().id, int(outcome))
        idle = operator.get(f"/trials/{trial.id}").text
        slot = trial.ask()
        busy = operator.get(f"/trials/{trial.id}?now={slot.id}").text
        assert slot.arm not in idle + busy
        seen.add(re.sub(r"\b[AB]\b", "CODE", blurred(idle + busy, name)))
    assert len(seen) == 1


def test_an_error_of_the_program_is_a_page_with_a_way_back(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    browser = Browser(site, "viewer")

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("secret detail")

    monkeypatch.setattr("decobandit.server.pages.site.page_of_trials", broken)
    got = browser.get("/")
    assert (got.status_code, got.headers["content-type"][:9]) == (500, "text/html")
    (number,) = re.findall(r"has it as (\w{8})\.", got.text)
    assert number in caplog.text
    assert "secret detail" in caplog.text
    assert "secret detail" not in got.text
    assert ("a", {"class": "button", "href": "/"}) in Elements(got.text).found


def test_an_operators_list_has_names_only(site: Site, trial: Trial) -> None:
    text = Browser(site, "operator").get("/").text
    inside = re.sub(r"<[^>]*>", " ", text.partition("<main")[2].partition("</main>")[0])
    assert inside.split("\n", 1)[1].split() == ["Trials", "Name", "Search", trial.name]


def test_an_operator_is_not_shown_outcomes_by_the_addresses_of_others(site: Site) -> None:
    trial = site.trial(NAMES)
    pages = set()
    for outcome in (0, 1):
        slot = trial.ask()
        trial.tell(slot.id, outcome)
        text = Browser(site, "operator").get(f"/trials/{trial.id}?done={slot.id}").text
        pages.add(blurred(text.replace(slot.arm, "ARM")).count("Outcome recorded for"))
        assert "Recorded: " not in text
    assert pages == {1}


def test_an_operators_error_does_not_count(site: Site) -> None:
    trial = site.trial({"horizon": 1, "arms": [{"name": "a"}, {"name": "b"}]})
    trial.ask()
    found = Browser(site, "operator").post(f"/trials/{trial.id}/ask", data={"key": "k"})
    assert found.status_code == 409
    assert "Every slot of the trial is in use." in found.text
    assert found.headers["content-type"].startswith("text/html")


# -- names stay text ----------------------------------------------------------------------------


@pytest.mark.parametrize("role", ROLES)
def test_no_page_runs_anything_but_our_own_files(site: Site, trial: Trial, role: str) -> None:
    browser = Browser(site, role)
    for path in [*pages_of(trial), "/nowhere", "/trials/none"]:
        found = browser.get(path)
        if not found.headers["content-type"].startswith("text/html"):
            continue
        assert EVIL not in found.text
        # the report holds its styles, so that it can be saved; it has no scripts at all
        alone = path.endswith("/report") and found.status_code == 200
        for tag, attributes in Elements(found.text).found:
            assert tag != ("script" if alone else "style")
            assert not [name for name in attributes if name.startswith("on") or name == "style"]
            if tag == "script":
                assert (attributes["src"] or "").startswith("/static/")
            for name in ("href", "src", "action", "formaction"):
                address = attributes.get(name)
                assert address is None or address[0] in "/#?", (path, address)


def strings(tree: Any) -> Iterator[str]:
    if isinstance(tree, dict):
        for value in tree.values():
            yield from strings(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from strings(value)
    elif isinstance(tree, str):
        yield tree


def test_figures_show_names_as_text(site: Site, trial: Trial) -> None:
    found = Browser(site, "admin").get(f"/trials/{trial.id}/why.json?dark=true")
    assert found.headers["content-type"] == "application/json"
    shown = list(strings(found.json()))
    tags = {tag for text in shown for tag in re.findall(r"<[^>]*>?", text)}
    assert tags <= {"<b>", "</b>", "<br>", "<extra>", "</extra>"}
    assert any("&lt;script&gt;alert(1)" in text for text in shown)


def test_the_figure_of_the_path_has_the_price_and_the_loss(site: Site) -> None:
    trial = site.trial(NAMES, policy="deco")
    for outcome in (1, 0):
        trial.tell(trial.ask().id, outcome)
    tree = Browser(site, "viewer").get(f"/trials/{trial.id}/why.json").json()
    traces = {trace["name"]: trace for trace in tree["path"]["data"]}
    path = trial.episode()
    assert traces["price of a pull"]["y"] == pytest.approx(path.prices.tolist())
    assert traces["loss in this episode"]["y"] == pytest.approx(path.running_loss.tolist())


def drawn(page: str) -> list[tuple[str, float, float]]:
    """Every piece of a bar: what it shows, start and width in percent."""
    pieces = re.findall(r'<rect class="(\w+)" x="([0-9.]+)" y="2" width="([0-9.]+)"', page)
    return [(name, float(start), float(width)) for name, start, width in pieces]


def test_bars_of_the_next_decision_end_at_the_index_and_show_the_price(site: Site) -> None:
    trial = site.trial(NAMES, policy="deco")
    trial.tell(trial.ask().id, 1)
    status, page = trial.status(), Browser(site, "viewer").get(f"/trials/{trial.id}/why").text
    prices = re.findall(r'<line class="bound" x1="([0-9.]+)"', page)
    ends = [start + width for name, start, width in drawn(page) if name == "value_of_information"]
    indices = [arm.index for arm in status.arms if arm.index is not None]
    assert status.price is not None
    assert len(prices) == len(status.arms)
    scale = float(prices[0]) / status.price
    assert ends == pytest.approx([scale * index for index in indices], abs=0.05)
    rewards = [width for name, _, width in drawn(page) if name == "expected_reward"]
    worth = [scale * (arm.expected_reward or 0.0) for arm in status.arms]
    assert rewards == pytest.approx(worth, abs=0.05)
    assert max(ends) <= 100.0


def test_before_the_first_outcome_there_is_a_sentence_and_no_figure(site: Site) -> None:
    trial, browser = site.trial(NAMES), Browser(site, "admin")
    assert "No outcome has been recorded yet." in browser.get(f"/trials/{trial.id}/why").text
    assert browser.get(f"/trials/{trial.id}/why.json").json()["path"] is None


@pytest.mark.parametrize("policy", ["thompson", "fh-gittins", "equal", "deco-rolling"])
def test_every_kind_of_policy_is_explained(site: Site, policy: str) -> None:
    trial = create_trial(site.trial(NAMES).problem, policy=policy, name=policy, db=site.store)
    trial.tell(trial.ask().id, 1)
    browser = Browser(site, "admin")
    page = browser.get(f"/trials/{trial.id}/why")
    assert page.status_code == 200
    assert len({arm for arm, *_ in drawn(page.text)}) >= 1
    figures = browser.get(f"/trials/{trial.id}/why.json").json()
    assert figures["path"]["data"]


def test_why_does_not_promise_the_largest_index_where_rules_draw(site: Site) -> None:
    problem, browser = site.trial(NAMES).problem, Browser(site, "admin")
    for rules in (None, Rules(floor=0.3), Rules(burn_in=1)):
        trial = create_trial(problem, policy="deco", db=site.store, seed=1, design=rules)
        page = browser.get(f"/trials/{trial.id}/why").text
        assert ("The arm with the largest index is next." in page) == (rules is None)
        assert ("it need not have the largest index" in page) == (rules is not None)
        assert trial.status().by_rules == (rules is not None)


def test_the_posterior_of_an_arm_is_its_mean_and_a_central_interval(site: Site) -> None:
    arms = [{"name": "a"}, {"name": "b", "prior": {"good": 3, "bad": 1}}]
    trial = site.trial({"horizon": 6, "arms": arms})
    text = Browser(site, "viewer").get(f"/trials/{trial.id}/why").text
    # Beta(1, 1) is uniform; Beta(3, 1) has the distribution function x^3
    low, high = 0.025 ** (1 / 3), 0.975 ** (1 / 3)
    assert "0.025 – 0.975" in text
    assert f'>0.750</td><td class="number">{low:.3f} – {high:.3f}' in text


def test_the_login_page_shows_one_field(site: Site) -> None:
    fields = [
        attributes
        for tag, attributes in Elements(Browser(site, None).get("/login").text).found
        if tag == "input" and attributes.get("type") != "hidden" and "hidden" not in attributes
    ]
    assert [each["name"] for each in fields] == ["token"]
    style = Browser(site, None).get("/static/style.css").text
    assert "[hidden] {\n  display: none !important;" in style
