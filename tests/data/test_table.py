"""A table of a user's own: what is guessed, and what a cell means."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from raretag.core import registry
from raretag.core.errors import UserError
from raretag.data import from_arrays, from_huggingface, from_torch
from raretag.data.table import Table
from raretag.data.table.cells import guess_delimiter
from support.written_tables import STATES, csv, jsonl, labelled, rows

EXPECTED = {i: set(tags) for i, _, tags in rows()}


@pytest.mark.parametrize("mark", [";", "|"])
@pytest.mark.parametrize(("name", "separator"), [("a.csv", ","), ("b.tsv", "\t"), ("c.csv", "\t"), ("d.tab", "\t")])
def test_delimited_files_are_read_as_they_were_written(write, name, separator, mark):
    data = Table(file=write(name, csv(separator, mark))).load()
    assert labelled(data) == EXPECTED
    assert any(line.startswith(f"labels: column 'tags', separated by {mark!r} (3 labels)") for line in data.remarks)


def test_every_format_gives_the_same_labels_and_inputs(write, tmp_path):
    ids, texts, tags = zip(*rows(), strict=True)
    pyarrow.parquet.write_table(pa.table({"id": ids, "text": texts, "tags": tags}), tmp_path / "t.parquet")
    files = [write("t.csv", csv()), write("t.tsv", csv("\t")), write("t.jsonl", jsonl()), str(tmp_path / "t.parquet")]
    sets = [Table(file=file).load() for file in files]
    everything = torch.arange(len(sets[0].train))
    for data in sets[1:]:
        assert data.train.labels == sets[0].train.labels
        assert torch.equal(data.train.inputs.batch(everything), sets[0].train.inputs.batch(everything))


def test_lists_that_pandas_wrote_as_text_are_lists(write):
    lines = "".join(f'{i},{text},"{tags}"\n' for i, text, tags in rows())
    assert labelled(Table(file=write("a.csv", "id,text,tags\n" + lines)).load()) == EXPECTED


@pytest.mark.parametrize(
    ("cells", "mark"),
    [
        (["a;b", "c"], ";"),
        (["a|b,x", "b|c"], "|"),
        (["a,b", "c"], ","),
        (["cat dog", "cat", "dog bird", "bird"], " "),
        (["traffic light", "stop sign"], ""),
        (["a", "b"], ""),
        (["", "['a']"], "[]"),
    ],
)
def test_the_delimiter_is_the_one_that_the_cells_use(cells, mark):
    assert guess_delimiter(cells) == mark


@pytest.mark.parametrize("blank", ["", "NaN", "-1", "na", "-100", "?"])
def test_blank_cells_of_label_columns_are_unknown(write, blank):
    data = Table(file=write("a.csv", STATES.replace(",,", f",{blank},"))).load()
    dense = np.concatenate([part.labels.dense() for part in (data.train, data.validation, data.test)])
    assert data.train.labels.names == ("cat", "dog")
    assert np.isnan(dense[:, 0]).sum() == 10
    assert np.nansum(dense[:, 0]) == 10
    assert data.notes["absent"] == "unknown"


def test_absent_negative_makes_blank_cells_negative_but_not_those_that_say_unknown(write):
    content = STATES.replace(",,", ",,", 1).replace("0.3,,", "0.3,-1,")
    data = Table(file=write("a.csv", content), absent="negative").load()
    dense = np.concatenate([part.labels.dense() for part in (data.train, data.validation, data.test)])
    assert (dense[:, 0] == 0).sum() == 9
    assert np.isnan(dense[:, 0]).sum() == 1


def test_a_column_of_negatives_makes_the_rest_unknown(write):
    lines = "".join(json.dumps({"text": "word one", "tags": ["a"], "negatives": ["b"]}) + "\n" for _ in range(19))
    lines += json.dumps({"text": "word two", "tags": ["c"]}) + "\n"
    labels = Table(file=write("a.jsonl", lines)).load().train.labels
    a, b, c = labels.statistics().negatives.tolist()
    assert (a, c) == (0, 0)
    assert b == labels.statistics().positives[0]


def test_what_separates_labels_is_also_seen_in_the_negatives(write):
    data = Table(file=write("a.csv", "text,tags,negatives\n" + "x y,a,b;c\nx,b,a;c\n" * 10)).load()
    assert data.train.labels.names == ("a", "b", "c")


def test_null_labels_are_unknown_and_empty_lists_are_not(write):
    some = [{"id": str(i), "text": "some words", "tags": ["a"]} for i in range(30)]
    some[3]["tags"], some[4]["tags"] = None, []
    data = Table(file=write("a.jsonl", "".join(json.dumps(row) + "\n" for row in some))).load()
    state = {
        i: row[0]
        for part in (data.train, data.validation, data.test)
        for i, row in zip(part.labels.ids, part.labels.dense(), strict=True)
    }
    assert np.isnan(state["3"])
    assert state["4"] == 0


def test_a_split_column_is_kept_and_what_it_lacks_is_dealt(write):
    words = ["train"] * 20 + ["Val"] * 4 + ["TEST"] * 6
    content = "id,text,tags,split\n" + "".join(
        f"{i},some text,{'a' if i % 2 else 'b'},{word}\n" for i, word in enumerate(words)
    )
    data = Table(file=write("a.csv", content)).load()
    assert sorted(map(int, data.test.labels.ids)) == list(range(24, 30))
    assert sorted(map(int, data.validation.labels.ids)) == list(range(20, 24))
    half = Table(file=write("b.csv", content.replace("Val", "train"))).load()
    assert sorted(map(int, half.test.labels.ids)) == list(range(24, 30))
    assert len(half.validation) == 3
    assert any("made here, stratified: validation" in line for line in half.remarks)


def test_a_table_that_is_too_small_for_its_parts_is_named(write):
    tiny = write("tiny.csv", "text,tags\nsome words,a\nmore words,b\n")
    with pytest.raises(UserError, match=r"tiny\.csv: items: 2, too few to make the parts"):
        Table(file=tiny, test=0.2).load()


def test_without_a_split_items_are_dealt_70_10_20_and_none_is_lost(write):
    data = Table(file=write("a.csv", csv(count=100))).load()
    assert [len(part) for part in (data.train, data.validation, data.test)] == [70, 10, 20]
    assert len(labelled(data)) == 100


def test_told_columns_win_over_guesses(write):
    content = "".join(f"{i},x{i} y{i} z{i},a,{'b' if i % 2 else 'c'}\n" for i in range(20))
    data = Table(file=write("a.csv", "n,text,tags,other\n" + content), labels="other", id="n").load()
    assert data.train.labels.names == ("b", "c")
    assert any("not used: 'tags'" in line for line in data.remarks)


def test_numbers_as_labels_stand_in_the_order_of_numbers(write):
    content = "text\tlabels\n" + "".join(f"some words here\t{i % 12},{(i + 1) % 12}\n" for i in range(60))
    assert Table(file=write("a.tsv", content)).load().train.labels.names == tuple(map(str, range(12)))


def test_large_whole_numbers_stay_exact_as_ids(write):
    big = 2**60
    content = "".join(json.dumps({"id": big + i, "text": "some words", "tags": ["a"]}) + "\n" for i in range(20))
    assert set(labelled(Table(file=write("a.jsonl", content)).load())) == {str(big + i) for i in range(20)}


def test_quotes_inside_a_tsv_are_letters(write):
    content = "text\ttags\n" + '"He said hello\ta\nShe "did" not\tb\n' * 10
    data = Table(file=write("a.tsv", content)).load()
    assert sum(len(part) for part in (data.train, data.validation, data.test)) == 20


def test_a_table_can_be_built_by_name_with_checked_options(write):
    data = registry.build("data", "table", {"file": write("a.csv", csv())}, seed=3, root=None).load()
    assert data.notes["seed"] == 3
    with pytest.raises(UserError, match="no option 'fil'"):
        registry.build("data", "table", {"fil": "x"}, seed=0, root=None)


def test_only_data_sets_are_listed():
    assert not {"reading", "inputs", "python"} & set(registry.names("data"))


@given(st.lists(st.lists(st.sampled_from("abcdef"), unique=True), min_size=20, max_size=40))
@settings(max_examples=25, deadline=None)
def test_what_is_written_is_read_back(tmp_path_factory, tags):
    tags[0] = ["a", "b"]  # something to learn, and something to tell the delimiter from
    tags[1:12] = [["a"]] * 11
    path = tmp_path_factory.mktemp("back") / "t.csv"
    path.write_text("id,text,tags\n" + "".join(f"{i},some words,{';'.join(row)}\n" for i, row in enumerate(tags)))
    assert labelled(Table(file=str(path)).load()) == {str(i): set(row) for i, row in enumerate(tags)}


class Rows:
    """A stand-in for `datasets.Dataset`."""

    def __init__(self, features, **columns):
        self.features, self.columns, self.column_names = features, columns, list(columns)

    def __len__(self):
        return len(next(iter(self.columns.values())))

    def __getitem__(self, key):
        return (
            self.columns[key] if isinstance(key, str) else {name: values[key] for name, values in self.columns.items()}
        )


class Named:
    def __init__(self, names):
        self.names = names


def test_huggingface_splits_and_class_names_are_kept():
    class Sequence:
        feature = Named(["cat", "dog", "rare"])

    def rows(count):
        return Rows({"labels": Sequence()}, text=["some words"] * count, labels=[[0], [0, 1]] * (count // 2))

    data = from_huggingface({"train": rows(30), "test": rows(10)}, text="text", labels="labels")
    assert data.train.labels.names == ("cat", "dog", "rare")
    assert (len(data.train) + len(data.validation), len(data.test)) == (30, 10)
    with pytest.raises(UserError, match="did you mean 'labels'"):
        from_huggingface(rows(10), text="text", labels="label")


def test_huggingface_class_columns_with_none_are_unknown():
    data = from_huggingface(
        Rows({}, x=[[float(i), 1.0] for i in range(20)], cat=[1, None] * 10, dog=[0, 1] * 10),
        features="x",
        labels=["cat", "dog"],
    )
    assert data.train.labels.observed_share == 0.75


def test_arrays_and_torch_datasets_give_their_own_rows():
    x, y = torch.arange(40.0).reshape(20, 2), np.tile([[1, 0], [0, np.nan]], (10, 1))
    split = {"train": range(12), "val": range(12, 15), "test": range(15, 20)}
    pairs = torch.utils.data.TensorDataset(x, torch.zeros(20))
    for data in (from_arrays(x, y, split=split), from_torch(pairs, y, split=split)):
        assert torch.equal(data.test.inputs.batch(torch.arange(5)), x[15:])
        assert np.array_equal(data.validation.labels.dense(), y[12:15], equal_nan=True)
    with pytest.raises(UserError, match="item 3 into train and test"):
        from_arrays(x, y, split={"train": range(20), "test": [3]})
    with pytest.raises(UserError, match="19 inputs do not match 20"):
        from_arrays(x[:19], y)


@pytest.mark.parametrize(
    ("names", "alike"),
    [(("Cat", "cat", "dog"), True), (("hot dog", "hot_dog", "x"), True), (("c1", "c-1", "c2"), False)],
)
def test_labels_that_differ_only_in_how_they_are_written_are_pointed_out(names, alike, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("text,tags\n" + "".join(f"word {n},{names[n % 3]}\n" for n in range(60)))
    said = [line for line in Table(file=str(path)).load().remarks if "differ only in how they are written" in line]
    assert bool(said) == alike
    assert all(repr(name) in line for line in said for name in names[:2])


def test_one_of_a_thing_is_not_called_several(tmp_path):
    (tmp_path / "one.csv").write_text("x,label_a\n" + "".join(f"{row / 7},{row % 2}\n" for row in range(40)))
    remarks = Table(file=tmp_path / "one.csv").load().remarks
    assert "(1 label)" in remarks[0]
    assert any(line.startswith("features: 1 numeric column, 'x'") for line in remarks)
    assert any(line.startswith("features: 1 number per item") for line in remarks)
