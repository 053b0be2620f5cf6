"""Tables whose columns are of several kinds: what becomes of each, from the file to a served model."""

from __future__ import annotations

import csv
import json
import random
import subprocess
import sys

import numpy as np
import pytest
import torch
from PIL import Image

import raretag
from raretag.config.settings import compose, read
from raretag.core.errors import UserError
from raretag.core.protocols import blocks_of
from raretag.data.inputs.described import inputs_from
from raretag.data.inputs.mixed import LIMIT, ImageVectors, TableColumns
from raretag.data.table import Table
from raretag.serve.asked import Asked, Limits
from raretag.serve.export import export
from raretag.serve.export_inputs import write_inputs
from support.paths import REPOSITORY
from support.runs import run

NAMES = ["name", "price", "weight", "colour", "city", "bought", "words", "tags"]
FEATURES = ["price", "weight", "colour", "city"]
COLUMNS, WITH_TEXT = ["data.text=''"], ["data.text=words", "data.features=[price,weight,colour,city]"]


def rows(items=90, seed=0):
    chance = random.Random(seed)
    found = []
    for item in range(items):
        colour, city, thing = (chance.choice(w) for w in (["red", "blue"], ["Oslo", "Rome"], ["chair", "sofa"]))
        price = None if chance.random() < 0.2 else round(chance.gauss(100, 30), 2)
        tags = [colour] * (colour == "red") + [thing] + ["unpriced"] * (price is None) + ["dear"] * ((price or 0) > 100)
        words = f"a fine {thing} number {item}"
        found.append([f"it{item}", price, round(chance.gauss(5, 2), 3), colour if item % 9 else None, city,
                      f"2024-01-{item % 28 + 1:02}", words, ";".join(tags)])  # fmt: skip
    return found


@pytest.fixture
def file(tmp_path):
    return write(tmp_path / "t.csv", rows())


def write(path, content):
    with path.open("w", newline="") as out:
        csv.writer(out).writerows([NAMES, *content])
    return path


def as_items(content):
    return [dict(zip(NAMES, row, strict=True)) for row in content]


def test_each_column_becomes_what_the_page_says():
    price = np.array([1.0, np.nan, 3.0, 1e9, 5.0])
    learned = TableColumns.learned(
        {"price": price, "colour": ["red", "blue", "red", "rare", "blue"], "steady": np.ones(5)}, np.array([0, 1, 2, 4])
    )
    number, colour, steady = learned.described
    assert (number["mean"], number["blanks"], steady["std"]) == (3.0, True, 0.0)
    assert colour["values"] == ["blue", "red"]  # 'rare' is no training item's
    new = {
        "price": np.array([5.0, np.nan, -1e9]),
        "colour": ["red", "", "never seen"],
        "steady": np.array([1.0, 2, np.nan]),
    }
    away = 2 / price[[0, 2, 4]].std()
    expected = [[away, 0, 0, 1, 0], [0, 1, 0, 0, 0], [-LIMIT, 0, 0, 0, 0]]
    assert np.allclose(learned.values(new), expected)
    cells = [{"price": "5", "colour": " red ", "steady": 1}, {"price": "n/a", "colour": None, "steady": "2"},
             {"price": -1e9, "colour": "never seen", "steady": ""}]  # fmt: skip
    assert np.allclose(learned.of(cells), expected)


def test_numbers_and_categories_are_found_and_dates_and_ids_are_left_out_with_a_remark(file):
    data = Table(file=str(file), text="").load()
    columns = data.notes["columns"]
    assert (columns["features"], columns["categories"]) == (["price", "weight"], ["colour", "city"])
    (unused,) = [remark for remark in data.remarks if remark.startswith("not used")]
    for part in ("'name' (a different text in every row)", "'bought' (dates)"):
        assert part in unused
    assert any("blank in 'price'" in remark for remark in data.remarks)
    assert data.input_shape == (2 + 1 + 2 + 2,)


def test_a_text_alone_says_how_to_put_the_other_columns_beside_it(file):
    remarks = Table(file=str(file)).load().remarks
    assert "data.features=[price,weight,colour,city] would put those columns beside the text" in remarks


def test_an_image_alone_says_how_to_put_a_text_and_other_columns_beside_it(file, tmp_path):
    content = [[*row[:6], f"{row[0]}.png", *row[6:]] for row in rows()]
    for row in content:
        Image.new("RGB", (8, 8)).save(tmp_path / row[6])
    with file.open("w", newline="") as out:
        csv.writer(out).writerows([[*NAMES[:6], "photo", *NAMES[6:]], *content])
    remarks = Table(file=str(file)).load().remarks
    assert "data.text=words would put the vector of that text beside the image" in remarks
    assert "data.features=[price,weight,colour,city] would put those columns beside the image" in remarks


def test_columns_that_count_rows_are_ids_and_those_of_many_texts_no_categories(tmp_path):
    lines = [f"{1 + n},{1000 + 7 * n},{n * n % 11},{n // 4}x,{n % 2}" for n in range(60)]
    (tmp_path / "t.csv").write_text("line,house_id,size,street,label_a\n" + "\n".join(lines) + "\n")
    data = Table(file=str(tmp_path / "t.csv")).load()
    assert data.notes["columns"]["features"] == ["size"]
    (unused,) = [remark for remark in data.remarks if remark.startswith("not used")]
    assert unused == "not used: 'line' (like an id), 'house_id' (like an id)"
    assert data.notes["columns"]["categories"] == ["street"]  # each of its texts comes four times
    named = Table(file=str(tmp_path / "t.csv"), features=["line", "size"]).load()
    assert named.notes["columns"]["features"] == ["line", "size"]  # whoever names a column gets it


def test_text_and_columns_are_parts_of_like_length(file):
    data = Table(file=str(file), text="words", features=FEATURES, representation="tfidf").load()
    blocks = blocks_of(data.train.inputs)
    assert list(blocks) == ["columns", "words", "characters"]
    batch = data.train.inputs.batch(torch.arange(len(data.train)))
    assert torch.allclose(batch.norm(dim=1), torch.ones(len(batch)), atol=1e-5)
    shares = {name: float((batch[:, list(columns)] ** 2).sum(1).mean()) for name, columns in blocks.items()}
    assert all(0.2 < share < 0.5 for share in shares.values())
    sparse = data.train.inputs.sparse_batch(torch.arange(3))
    assert np.allclose(sparse.toarray(), batch[:3], atol=1e-6)


@pytest.mark.parametrize("options", [{"text": ""}, {"text": "words", "features": FEATURES}], ids=["columns", "text"])
def test_new_items_become_the_same_through_json(file, options):
    data = Table(file=str(file), representation="tfidf", **options).load()
    described = json.loads(json.dumps(data.train.inputs.describe()))
    again = inputs_from(described, as_items(rows())).batch(data.train.inputs.rows)
    assert torch.equal(again, data.train.inputs.batch(torch.arange(len(data.train))))


@pytest.mark.parametrize("changes", [COLUMNS, WITH_TEXT], ids=["columns", "text"])
def test_a_model_predicts_serves_and_is_deployed_the_same(changes, file, tmp_path):
    pytest.importorskip("onnxruntime")
    pytest.importorskip("starlette")
    from raretag.serve.server import description

    run(compose(None, [*changes, "data.representation=tfidf"], data=str(file)), tmp_path / "run")
    model = raretag.load(tmp_path / "run")
    content = rows(12, seed=5)
    content[3][3], content[4][1] = "never seen", None
    wanted = model.predict(write(tmp_path / "new.csv", content))
    assert (model.predict(as_items(content)).probabilities == wanted.probabilities).all()
    assert (model.predict(tmp_path / "run" / ".." / "new.csv", columns=None).chosen == wanted.chosen).all()
    asked = Asked(model, Limits())
    told = description(asked)["paths"]["/predict"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert set(FEATURES) <= set(told["properties"]["items"]["items"]["required"])
    served = asked._work(asked.items(json.loads(json.dumps(as_items(content)))), float("inf"), 1)
    asked.close()
    np.testing.assert_allclose(served.probabilities, wanted.probabilities, atol=1e-6)
    export(model, tmp_path / "m.onnx", decide=True)
    (about,) = write_inputs(model, tmp_path / "m.onnx")
    example = [sys.executable, str(REPOSITORY / "examples" / "deploy_text.py"), str(about)]
    done = subprocess.run([*example, *map(json.dumps, as_items(content))], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = [json.loads(line)["probabilities"] for line in done.stdout.splitlines()]
    np.testing.assert_allclose(found, wanted.probabilities, atol=1e-5)
    with pytest.raises(UserError, match="outside of the graph"):
        export(model, tmp_path / "m.onnx", preprocess=True)


def test_a_run_says_how_columns_were_read_and_an_older_one_reads_them_as_it_did(file, tmp_path):
    run(compose(None, COLUMNS, data=str(file)), tmp_path / "run")
    written = (tmp_path / "run" / "config.yaml").read_text()
    (tmp_path / "old.yaml").write_text(written.replace("  mixed: true\n", ""))
    assert read(tmp_path / "run" / "config.yaml")["data"]["mixed"] is True
    assert read(tmp_path / "old.yaml")["data"]["mixed"] is False


def test_bad_items_are_answered(file, tmp_path):
    run(compose(None, COLUMNS, data=str(file)), tmp_path / "run")
    model, content = raretag.load(tmp_path / "run"), rows(4, seed=5)
    content[1][1] = "abc"
    bad = write(tmp_path / "bad.csv", content)
    with pytest.raises(UserError, match=r"1 of 4 items.*'abc' is not a number"):
        model.predict(bad)
    assert len(model.predict(bad, bad_items="skip")) == 3
    with pytest.raises(UserError, match="item 0 lacks 'price'"):
        model.predict([{"weight": 1.0}])
    with pytest.raises(UserError, match="not a row of a table"):
        model.predict(["a text"])
    (tmp_path / "few.csv").write_text("price,weight,colour\n1,2,red\n")
    with pytest.raises(UserError, match="no column 'city', which the model reads"):
        model.predict(tmp_path / "few.csv")
    content = rows()
    content[60][2] = "heavy"  # beyond the rows that decide nothing: a number like all others but one
    with pytest.raises(UserError, match=r"line 62: 'heavy' in the feature column 'weight'; expected a number"):
        Table(file=str(write(tmp_path / "word.csv", content)), text="", features=FEATURES).load()
    content[60][2] = "inf"
    with pytest.raises(UserError, match=r"1 of 90 items.*line 62: a feature is infinite"):
        Table(file=str(write(tmp_path / "inf.csv", content)), text="").load()


def test_an_image_a_text_and_a_number_are_one_vector(tmp_path, monkeypatch):
    monkeypatch.setenv("RARETAG_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(ImageVectors, "best", lambda fit: ImageVectors("small_resnet", 16, fit))
    lines = []
    for n in range(30):
        colour = ["red", "blue"][n % 2]
        Image.new("RGB", (8, 8), colour).save(tmp_path / f"{n}.png")
        lines.append(f"{n}.png,thing {n % 3},{n % 5},{colour}")
    (tmp_path / "t.csv").write_text("photo,words,size,tags\n" + "\n".join(lines) + "\n")
    named = ["data.images=photo", "data.text=words", "data.features=[size]", "data.representation=tfidf"]
    run(compose(None, named, data=str(tmp_path / "t.csv")), tmp_path / "run")
    model = raretag.load(tmp_path / "run")
    assert set(model.card.inputs) == {"kind", "columns", "text", "image"}
    assert (
        "one vector of 1 number, a text and an image"
        in Table(file=str(tmp_path / "t.csv"), images="photo", text="words", features=["size"]).load().remarks
    )
    found = model.predict(tmp_path / "t.csv")
    assert found.chosen_labels()[:2] == [["red"], ["blue"]]
    for refused in (export, write_inputs):  # before anything is written
        with pytest.raises(UserError, match="not exported"):
            refused(model, tmp_path / "m.onnx")
    assert not list(tmp_path.glob("m.*"))
    (tmp_path / "new.csv").write_text("photo,words,size\n../x.png,a,1\n")
    with pytest.raises(UserError, match="leaves the folder"):
        model.predict(tmp_path / "new.csv")


def test_a_card_chooses_no_other_options_of_the_image_network():
    with pytest.raises(UserError, match="there is no image network"):
        ImageVectors(options={"download": True})
