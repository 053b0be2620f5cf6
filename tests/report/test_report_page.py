"""`raretag report` on real runs, and its page in a real browser without a network."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
import torch

from raretag.config.settings import compose
from raretag.core.errors import UserError
from raretag.report.overview import model_in_words
from raretag.report.runs import names_of, write_report
from raretag.runs.run import open_run
from support.browser import PATIENCE, chromium
from support.evil import EVIL
from support.runs import run as train

pytest.importorskip("plotly", reason="the report needs plotly: pip install 'raretag[report]'")

QUICK = ["train.epochs=2", "data.largest=60", "model.depth=8", "model.width=4"]
HIDDEN = [*QUICK, "data.hide=ppl", "data.keep=0.6"]

TABS = ["overview", "labels", "curves", "training", "mistakes", "items", "compare", "settings"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A baseline and COMIC on digits with hidden labels."""
    folder = tmp_path_factory.mktemp("runs")
    for method in ("assume_negative", "comic"):
        train(compose(None, HIDDEN, method__name=method), folder / method)
    return folder


@pytest.fixture(scope="module")
def both(runs):
    """The page that compares the two."""
    write_report([runs / "assume_negative", runs / "comic"], runs / "both.html", resamples=50, with_items=True)
    return runs / "both.html"


def copied(run: Path, to: Path, *without: str) -> Path:
    shutil.copytree(run, to)
    for name in without:
        (to / name).unlink()
    return to


def words(path: Path) -> str:
    """The page without plotly."""
    return re.sub(r'<script type="text/plain".*?</script>', "", path.read_text(encoding="utf-8"), flags=re.DOTALL)


def test_a_run_keeps_its_test_labels_and_its_inner_numbers(runs):
    finished = open_run(runs / "comic")
    assert torch.equal(finished.targets("test").value, finished.data.test.labels.targets().value)
    assert "by_label" not in finished.record.to_json()["metrics"]["epochs"][0]
    assert len(finished.epochs[0]["by_label"]["corrected"]) == 10
    for row in finished.epochs:
        counted = row["found_missing"]
        assert counted["right"] + counted["wrong"] == row["vital_signs"]["corrected_last_epoch"]
        assert sum(row["by_label"]["corrected"]) == row["vital_signs"]["corrected_last_epoch"]


def test_the_page_holds_every_part_and_no_address(both):
    page = words(both)
    for word in (
        "What was trained on what",
        "Doctor",
        "hidden found",
        "Filled-in labels",
        "may be missing in training",
    ):
        assert word in page, word
    assert "data:image/jpeg;base64," in page
    assert not re.search(r'(src|href)="(?!data:|#)', page)


def test_the_same_runs_give_the_same_bytes(both, runs, tmp_path):
    write_report([runs / "assume_negative", runs / "comic"], tmp_path / "x.html", resamples=50, with_items=True)
    assert (tmp_path / "x.html").read_bytes() == both.read_bytes()


def test_without_the_data_the_folder_is_enough_for_all_but_pictures(runs, tmp_path):
    run = copied(runs / "comic", tmp_path / "run")
    config = (run / "config.yaml").read_text().replace("largest: 60", "largest: 61")
    (run / "config.yaml").write_text(config)  # other data than the run was trained on
    write_report([run], None, resamples=20, with_items=True)
    page = words(run / "report.html")
    assert "the data is not what the run was trained on" in page
    assert "data:image/jpeg" not in page
    assert 'id="curve-label"' in page
    assert "may be missing in training" in page
    (run / "config.yaml").unlink()
    write_report([run], None, resamples=0, with_items=True)
    assert "the data was not found" in words(run / "report.html")


def test_a_run_without_evidence_takes_the_labels_from_the_data(runs, tmp_path):
    run = copied(runs / "comic", tmp_path / "run", "evidence.safetensors")
    write_report([run], None, resamples=20, with_items=True)
    assert 'id="curve-label"' in words(run / "report.html")


def test_a_folder_with_only_the_record_still_gives_a_page(runs, tmp_path):
    left_out = ("evidence.safetensors", "logits.safetensors", "metrics.jsonl", "card.json")
    run = copied(runs / "comic", tmp_path / "run", *left_out)
    write_report([run], None, resamples=20, with_items=False)
    page = words(run / "report.html")
    assert "logits.safetensors is not as the run wrote it" in page
    assert "only means could be examined" in page


def test_a_damaged_file_is_named_and_not_fatal(runs, tmp_path):
    run = copied(runs / "comic", tmp_path / "run")
    (run / "logits.safetensors").write_bytes(b"torn")
    write_report([run], None, resamples=0, with_items=False)
    assert "logits.safetensors is not as the run wrote it" in words(run / "report.html")


def test_runs_on_other_test_items_are_not_compared(runs, tmp_path):
    other = tmp_path / "other"
    train(compose(None, [*HIDDEN, "train.epochs=1"], method__name="assume_negative", seed=1), other)
    _, remarks = write_report([runs / "comic", other], tmp_path / "x.html", resamples=20, with_items=False)
    assert "other is not compared: it was not tested on the same items and labels." in remarks
    assert "other is not compared: it was not tested on the same items" in words(tmp_path / "x.html")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda folder: [folder / "nothing"], "is not the folder of a finished run"),
        (lambda folder: [folder / "begun"], "training did not finish"),
        (lambda folder: [folder / "torn"], "cannot be read"),
        (lambda folder: [folder / "odd"], "is not the record of a run"),
        (lambda folder: [folder / str(n) for n in range(7)], "compares 6 at most"),
    ],
)
def test_what_is_no_finished_run_is_one_line(tmp_path, make, message):
    for name, file, text in (("begun", "config.yaml", ""), ("torn", "record.json", "{"), ("odd", "record.json", "[]")):
        (tmp_path / name).mkdir()
        (tmp_path / name / file).write_text(text)
    with pytest.raises(UserError, match=message):
        write_report(make(tmp_path), None, resamples=0, with_items=False)


def test_runs_of_one_name_are_told_apart_by_their_folders():
    assert names_of([Path("a/run"), Path("b/run")]) == ["a/run", "b/run"]
    assert names_of([Path("a/one"), Path("b/two")]) == ["one", "two"]
    with pytest.raises(UserError, match="given twice"):
        names_of([Path("a"), Path("a/../a")])


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """The page of a run on texts, with a label and texts that try to run a script."""
    folder = tmp_path_factory.mktemp("texts")
    rows = [{"text": f"word{n % 5} {EVIL}", "labels": [EVIL if n % 3 else "plain", f"l{n % 5}"]} for n in range(60)]
    (folder / "notes.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    train(compose(None, ["train.epochs=1"], str(folder / "notes.jsonl")), folder / "run")
    write_report([folder / "run"], folder / "page.html", resamples=20, with_items=True)
    return folder / "page.html"


def test_a_model_of_frozen_features_is_told_without_an_empty_network():
    lite = [{"name": "efficientnet_lite", "variant": variant} for variant in (0, 2)]
    config = {"head": {"name": "blended"}, "model": {"name": "mlp", "layers": 0}, "branches": {"name": "single"}}
    told = model_in_words({**config, "encoder": {"name": "side_by_side", "of": lite}})
    assert told == "blended on the features of EfficientNet-Lite0 and EfficientNet-Lite2"
    assert model_in_words({**config, "encoder": {"name": "none"}}) == "blended on the features"
    deep = {**config, "model": {"name": "mlp", "layers": 2}, "encoder": {"name": "none"}}
    assert model_in_words(deep) == "blended on mlp (layers 2)"


def test_texts_are_shown_and_escaped(texts):
    page = words(texts)
    assert "<blockquote>word" in page
    assert EVIL not in page


@pytest.fixture(scope="module")
def browser():
    with chromium() as started:
        yield started


@pytest.fixture
def opened(browser):
    """Opens a page without a network; what the console said is in `page.complaints`, requests in `page.requests`."""
    contexts = []

    def open_page(path, width=1280, scheme="light"):
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.complaints, page.asked = [], []
        page.on("console", lambda message: page.complaints.append(message.text))
        page.on("pageerror", lambda error: page.complaints.append(str(error)))
        page.on("request", lambda request: page.asked.append(request.url))
        page.goto(path.as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_every_tab_opens_fits_and_draws_without_a_complaint(opened, both, width, scheme):
    page = opened(both, width, scheme)
    names = page.eval_on_selector_all('[role="tab"]', "tabs => tabs.map(tab => tab.getAttribute('aria-controls'))")
    assert names == TABS
    for name in names:
        page.click(f"#tab-{name}")
        assert page.is_visible(f"#{name}")
        assert [other for other in names if page.is_visible(f"#{other}")] == [name]
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        charts = f"#{name} .of-run:not([hidden]) .chart, #{name} > .chart, #{name} > .row .chart"
        for chart in page.query_selector_all(charts):
            chart.wait_for_selector("svg.main-svg")
            assert chart.bounding_box()["width"] <= width
    assert page.complaints == []
    assert [url for url in page.asked if not url.startswith(("file:", "data:", "blob:"))] == []


def test_tables_sort_labels_are_found_and_lead_to_their_curves(opened, both):
    page = opened(both)
    page.click("#tab-labels")
    table = "#labels-1 table"

    def column(number):
        return page.eval_on_selector_all(
            f"{table} tbody tr", f"rows => rows.map(row => row.cells[{number}].textContent)"
        )

    page.click(f"{table} thead th:nth-child(3) button")
    falling = [int(cell.replace(",", "")) for cell in column(2)]
    assert falling == sorted(falling, reverse=True)
    page.click(f"{table} thead th:nth-child(3) button")
    assert [int(cell.replace(",", "")) for cell in column(2)] == falling[::-1]
    assert page.get_attribute(f"{table} thead th:nth-child(3)", "aria-sort") == "ascending"
    page.click(f"{table} thead th:nth-child(1) button")
    assert column(0) == sorted(column(0))

    page.fill('input[data-filter="labels-1"]', "sev")
    assert page.eval_on_selector_all(
        f"{table} tbody tr:not([hidden]) th", "cells => cells.map(c => c.textContent)"
    ) == ["seven"]
    page.click(f"{table} tbody tr:not([hidden]) .link")
    assert page.is_visible("#curves")
    assert page.eval_on_selector("#curve-label", "it => it.selectedOptions[0].text") == "seven"
    page.wait_for_selector("#curve svg.main-svg")
    assert page.eval_on_selector("#curve", "it => it.data.length") == 2

    page.select_option("#run", "0")
    page.click("#tab-overview")
    shown = page.eval_on_selector_all(
        "#overview .of-run", "parts => parts.filter(p => !p.hidden).map(p => p.dataset.run)"
    )
    assert shown == ["0"]
    assert page.complaints == []


def test_tabs_obey_the_keyboard_and_the_address(opened, both):
    page = opened(both)
    page.focus("#tab-overview")
    page.keyboard.press("ArrowRight")
    assert page.is_visible("#labels")
    assert page.url.endswith("#labels")
    page.keyboard.press("End")
    assert page.is_visible("#settings")
    page.keyboard.press("ArrowRight")
    assert page.is_visible("#overview")
    page.evaluate("location.hash = 'items'")
    page.wait_for_selector("#items", state="visible")
    assert page.complaints == []


def test_a_label_that_is_a_script_does_not_run(opened, texts):
    page = opened(texts, 390)
    for name in page.eval_on_selector_all('[role="tab"]', "tabs => tabs.map(tab => tab.getAttribute('aria-controls'))"):
        page.click(f"#tab-{name}")
    page.click("#tab-labels")
    page.wait_for_selector("#labels svg.main-svg")
    assert page.evaluate("window.stolen") is None
    assert EVIL in page.inner_text("#labels")
    page.click("#tab-curves")
    assert EVIL in page.eval_on_selector_all("#curve-label option", "options => options.map(option => option.text)")
    assert page.complaints == []
