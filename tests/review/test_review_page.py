"""The page in a real browser: keyboard only, touch, both widths, hostile labels, other tabs, an accessibility check."""

from __future__ import annotations

import threading
from importlib import resources

import pytest

from raretag.review.desk import Desk
from raretag.review.log import AnswerLog
from raretag.suggestions.listing import Suggestion, Suggestions
from support.browser import PATIENCE, chromium
from support.evil import EVIL

uvicorn = pytest.importorskip("uvicorn", reason="pip install 'raretag[review]'")


@pytest.fixture(scope="module")
def browser():
    with chromium() as started:
        yield started


@pytest.fixture
def address(trained, tmp_path):
    """Starts the server for a desk, and gives its address."""
    from raretag.review.app import build_app
    from raretag.review.training import Trainer
    from raretag.serve.web import listen

    running = []

    def start(desk):
        trainer = Trainer(trained, desk.config, tmp_path / "rounds")
        listening = listen("127.0.0.1", 0)
        settings = uvicorn.Config(build_app(desk, trainer, "secret"), log_level="error", ws="none")
        server = uvicorn.Server(settings)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        running.append((server, thread, trainer, listening))
        return f"http://127.0.0.1:{listening.getsockname()[1]}/secret/"

    yield start
    for server, thread, trainer, listening in running:
        server.should_exit = True
        thread.join()
        trainer.stop()
        listening.close()


@pytest.fixture
def opened(browser):
    contexts = []

    def open_page(url, width=1280, touch=False, scheme="light"):
        context = browser.new_context(viewport={"width": width, "height": 900}, has_touch=touch, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.complaints, page.asked = [], []
        page.on("console", lambda message: page.complaints.append(message.text))
        page.on("pageerror", lambda error: page.complaints.append(str(error)))
        page.on("request", lambda request: page.asked.append(request.url))
        page.goto(url)
        page.wait_for_selector(".item")
        page.fill("#by", "ann")
        page.press("#by", "Escape")
        return page

    yield open_page
    for context in contexts:
        context.close()


def answered(page, count):
    page.wait_for_function(
        "count => document.querySelector('#counted').textContent.startsWith(`${count} of`)", arg=count
    )


def test_answers_by_keyboard_alone_are_on_the_disk_and_can_be_undone(opened, address, desk):
    page = opened(address(desk))
    first = page.inner_text("figcaption")
    for count, key in enumerate("ynu", start=1):
        page.keyboard.press(key)
        answered(page, count)
    assert sorted(one.answer for people in AnswerLog(desk.log.path).given.values() for one in people.values()) == [
        "no",
        "unsure",
        "yes",
    ]
    assert "were right; promised" in page.inner_text("#promised")
    for count in (2, 1, 0):
        page.keyboard.press("z")
        answered(page, count)
    assert desk.log.given == {}
    page.wait_for_function("first => document.querySelector('figcaption').textContent === first", arg=first)
    before = page.inner_text("figcaption")
    page.keyboard.press("s")
    page.wait_for_function("before => document.querySelector('figcaption').textContent !== before", arg=before)
    wanted = desk.questions[-1].item
    page.keyboard.press("/")
    page.wait_for_function("() => document.activeElement.id === 'search'")  # keys that come sooner answer questions
    page.keyboard.type(wanted)
    page.wait_for_function("item => document.querySelector('#search').value === item", arg=wanted)
    page.keyboard.press("Escape")
    page.wait_for_function("item => document.querySelector('figcaption').textContent === item", arg=wanted)
    assert page.complaints == []
    assert all(url.startswith(page.url) for url in page.asked)


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_both_modes_fit_and_nothing_hostile_runs(opened, address, desk, width, scheme):
    page = opened(address(desk), width, scheme=scheme)
    assert EVIL in page.inner_text(".text")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.keyboard.press("m")
    page.wait_for_selector(".grid")
    page.evaluate("document.querySelector('#filters').open = true")
    page.select_option("#label", EVIL)
    page.wait_for_function("evil => document.querySelector('h2').textContent.includes(evil)", arg=EVIL)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate("window.stolen") is None
    assert page.complaints == []


def test_a_grid_is_answered_by_touch(opened, address, desk):
    page = opened(address(desk), 390, touch=True)
    page.tap("#mode-label")
    page.wait_for_selector(".grid")
    cards = page.query_selector_all(".card")
    before = [card.get_attribute("class").split()[1] for card in cards]
    page.tap(".card:nth-child(1) .face")
    page.tap(".card:nth-child(2) .more button:nth-child(1)")
    page.tap("#save")
    answered(page, len(before))
    words = [one.answer for people in desk.log.given.values() for one in people.values()]
    assert words[0] == ("no" if before[0] == "yes" else "yes")
    assert words[1] == "unsure"
    assert words[2:] == before[2:]
    page.tap("#undo")
    answered(page, 0)


def test_a_grid_goes_through_all_labels_that_the_filters_leave_and_past_skipped_ones(opened, address, desk, tmp_path):
    labels = desk.data.train.labels
    sure = {"sun": 0.9, EVIL: 0.8, "snow": 0.1}
    made = [
        Suggestion(n + 1, str(labels.ids[n]), name, "missing", "negative", p, "tail", n + 1, turn=n + 1)
        for n, (name, p) in enumerate(sure.items())
    ]
    doubted = Suggestion(4, str(labels.ids[5]), "snow", "wrong", "positive", 0.3, "tail")
    few = Desk("few", desk.config, desk.data, Suggestions([*made, doubted]), AnswerLog(tmp_path / "few"))
    page = opened(address(few))
    asked = sorted(sure, key=lambda name: (desk.positives[desk.places.column[name]], name))

    def shows(label):
        page.wait_for_function("label => document.querySelector('h2').textContent.includes(`“${label}”`)", arg=label)

    page.keyboard.press("m")
    for label in asked:
        shows(label)
        page.click("#skip")
    page.click("#again")
    shows(asked[0])
    page.select_option("#label", "snow")
    shows("snow")
    numbers = page.locator(".card .verdict").all_inner_texts()
    assert sorted(text.split()[-1] for text in numbers) == ["0.10", "0.70"]  # that the label is right
    assert sorted(text.split()[0] for text in numbers) == ["right", "wrong"]
    page.select_option("#label", "")
    page.fill("input[name=low]", "0.75")
    page.press("input[name=low]", "Tab")
    for label in [name for name in asked if name != "snow"]:
        shows(label)
        page.click("#skip")
    page.wait_for_selector("#again")


def test_two_tabs_do_not_overwrite_each_other_and_disagreement_is_shown(opened, address, desk):
    url = address(desk)
    one, two = opened(url), opened(url)
    two.fill("#by", "bob")
    two.press("#by", "Escape")
    label = one.inner_text(".rows li.at strong")
    assert two.inner_text(".rows li.at strong") == label
    one.keyboard.press("y")
    answered(one, 1)
    two.keyboard.press("n")
    two.wait_for_function("() => document.querySelector('#counted').textContent.includes('1 conflict')")
    assert sorted(len(people) for people in desk.log.given.values()) == [2]
    two.select_option("select[name=state]", "conflict")
    two.wait_for_selector(".disagree")
    two.focus("#main")
    two.keyboard.press("n")
    two.wait_for_function("() => !document.querySelector('#counted').textContent.includes('conflict')")
    assert [[one.answer for one in people.values()] for people in desk.log.given.values()] == [["no"]]


def test_train_again_shows_progress_and_what_changed(opened, address, desk):
    page = opened(address(desk))
    for count in (1, 2, 3):
        page.keyboard.press("y")
        answered(page, count)
    page.click("#train")
    page.click("#training-start")
    page.wait_for_function("() => document.querySelector('#training-body').textContent.includes('Finished')")
    assert "mAP on the same 12 test items" in page.inner_text("#training-body")
    assert page.complaints == []


def test_ten_thousand_suggestions_show_one_page_at_a_time(opened, address, desk, tmp_path):
    labels = desk.data.train.labels
    entries = [(str(item), name) for item in labels.ids for name in labels.names]
    many = [
        Suggestion(n, *entries[n % len(entries)], "missing", "negative", 0.9, "tail", n + 1, turn=n + 1)
        for n in range(10_000)
    ]
    page = opened(address(Desk("many", desk.config, desk.data, Suggestions(many), AnswerLog(tmp_path / "many.jsonl"))))
    page.keyboard.press("m")
    page.wait_for_selector(".grid")
    assert page.locator(".card").count() == 24
    assert "10,000 suggestions" in page.inner_text("#counted")
    assert page.evaluate("document.querySelectorAll('*').length") < 1500


def test_axe_finds_nothing_serious(opened, address, desk):
    source = resources.files("axe_playwright_python") / "axe.min.js"
    url = address(desk)
    for scheme in ("light", "dark"):
        page = opened(url, scheme=scheme)
        page.evaluate(source.read_text(encoding="utf-8"))
        found = []
        for step in ("item", "grid", "dialog"):
            if step == "grid":
                page.keyboard.press("m")
                page.wait_for_selector(".grid")
            if step == "dialog":
                page.click("#train")
            found += [
                (step, one["id"], one["nodes"][0]["html"])
                for one in page.evaluate("axe.run()")["violations"]
                if one["impact"] in ("serious", "critical")
            ]
        assert found == []
