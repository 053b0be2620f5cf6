"""What each reader of a published format gives, and where it finds a mistake."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from raretag.core.errors import UserError
from raretag.data import limits
from raretag.data.files import inside, lines, parse_xml, read_label_list
from raretag.data.inputs.feature_files import read_archive
from raretag.data.sets import open_images
from raretag.data.sets.arff import read_arff
from raretag.data.sets.cifar import read_binary, read_sheet
from raretag.data.sets.coco_files import read_instances
from raretag.data.sets.cub import read_attributes
from raretag.data.sets.multimnist import read_idx
from raretag.data.sets.open_images import read_descriptions, read_verified
from raretag.data.sets.svmlight import read_rows
from raretag.data.sets.voc import read_objects
from support.readers import COCO, DENSE, OPEN_IMAGES, READERS, SPARSE, VOC, idx_file, npz_file, png_sheet, put


@pytest.fixture
def given_file(tmp_path):
    return lambda content: put(tmp_path, content)


def test_idx_gives_the_array(given_file):
    array = np.arange(24).reshape(2, 3, 4)
    assert np.array_equal(read_idx(given_file(idx_file(array)), 3), array)
    with pytest.raises(UserError, match="3 dimensions"):
        read_idx(given_file(idx_file(np.arange(3))), 3)


def test_cifar_records_are_label_bytes_and_three_planes(given_file):
    images, label = read_binary(given_file(READERS["cifar"].good), 2, 100)
    assert images.shape == (2, 3, 32, 32)
    assert label.tolist() == [99, 99]  # the fine label, which comes second
    assert images[1, 1, 0, :3].tolist() == [0, 1, 2]  # 1024 bytes a plane, and bytes repeat every 256
    with pytest.raises(UserError, match="image 0 has the label 99"):
        read_binary(given_file(READERS["cifar"].good), 2, 99)


def test_a_row_of_a_sheet_is_an_image(given_file):
    images = read_sheet(given_file(png_sheet()))
    assert images.shape == (2, 3, 32, 32)
    assert images[1, :, 0, 0].tolist() == [(1024 * 3 + channel) % 251 for channel in range(3)]
    assert images[0, 2, 1, 0] == (32 * 3 + 2) % 251


def test_a_label_list_gives_names_and_indices(given_file):
    assert read_label_list(given_file(b"a,3 17\r\nb, 2.\nc,\n"), 18) == (["a", "b", "c"], [[3, 17], [2], []])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a,1\nb,80\n", "line 2.*80.*from 0 to 79"),
        ("a,1\nb,-1\n", "line 2"),
        ("a,1\na,2\n", "line 2.*before"),
        ("a,1\nb 2\n", "line 2.*not understood"),
        (",1\n", "line 1"),
    ],
)
def test_a_mistake_in_a_label_list_is_placed(content, message, given_file):
    with pytest.raises(UserError, match=message):
        read_label_list(given_file(content), 80)


def test_a_line_without_end_is_refused(given_file):
    with pytest.raises(UserError, match=r"line 2.*longer than 1,024 bytes"):
        list(lines(given_file(b"ok\n" + b"x" * 5000), longest=1024))


@pytest.mark.parametrize("name", ["/etc/passwd", "../up.jpg", "a/../../up.jpg", "", "c:\\x.jpg", "a\0.jpg"])
def test_a_name_that_leads_out_of_its_folder_is_refused(name):
    with pytest.raises(UserError, match="leads out of the folder"):
        inside(Path("images"), [name], lambda row: "list.txt", published=True)
    assert inside(Path("images"), ["a/b.jpg"], lambda row: "list.txt", published=True) == ["images/a/b.jpg"]


def test_coco_skips_empty_boxes_keeps_crowds_and_sorts_categories(given_file):
    found = read_instances(given_file(json.dumps(COCO)))
    assert found.names == ["first", "last"]
    assert dict(zip(found.files, found.rows, strict=True)) == {"b.jpg": [1], "a.jpg": [0], "c.jpg": []}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"annotations": [{"image_id": 99, "category_id": 1, "bbox": [0, 0, 2, 2]}]}, "image 99"),
        ({"annotations": [{"image_id": 7, "category_id": 2, "bbox": [0, 0, 2, 2]}]}, "category 2"),
        ({"annotations": [{"image_id": "7", "category_id": 1}]}, "annotation 0"),
        ({"annotations": None}, "annotations"),
        ({"images": [{"id": 1, "file_name": "a"}, {"id": 1, "file_name": "b"}]}, "image 1 has the id 1"),
        ({"images": [{"id": 7, "file_name": "a"}, {"id": 3, "file_name": "a"}, {"id": 4, "file_name": "d"}]}, "twice"),
    ],
)
def test_a_coco_file_that_contradicts_itself_is_refused(change, message, given_file):
    with pytest.raises(UserError, match=message):
        read_instances(given_file(json.dumps(COCO | change)))


def test_json_that_is_nested_too_deep_is_refused(given_file):
    with pytest.raises(UserError, match="not JSON"):
        read_instances(given_file(b"[" * 200_000))


def test_voc_objects_are_not_their_parts(given_file):
    assert read_objects(given_file(VOC)) == [("dog", True), ("cat", False)]


def test_entities_are_refused(given_file):
    laughs = "".join(f'<!ENTITY l{n + 1} "{f"&l{n};" * 10}">' for n in range(9))
    bomb = f'<!DOCTYPE a [<!ENTITY l0 "lol">{laughs}]><annotation>&l9;</annotation>'
    with pytest.raises(UserError, match="document type"):
        parse_xml(given_file(bomb))
    outside = '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><annotation>&x;</annotation>'
    with pytest.raises(UserError, match="document type"):
        parse_xml(given_file(outside))


def test_deep_and_large_xml_is_refused(given_file):
    with pytest.raises(UserError, match="deep"):
        parse_xml(given_file("<a>" * 100_000))
    with pytest.raises(UserError, match="more than 100 bytes"):
        parse_xml(given_file("<a>" + " " * 200 + "</a>"), limit=100)


def test_dense_arff_with_quotes_and_meka_labels(given_file):
    found = read_arff(given_file(DENSE))
    assert (found.label_names, found.feature_names) == (["a", "b's"], ["c, d", "e"])
    assert found.features.tolist() == [[-2.5, 1.0], [1000.0, 0.0]]
    assert (found.positives, found.unknown) == ([[0, 1], []], [[], [1]])


def test_sparse_arff_takes_labels_in_the_order_of_the_list(given_file):
    found = read_arff(given_file(SPARSE), ["l1", "l2"])
    assert found.features.toarray().tolist() == [[1.5], [0.0], [0.0]]
    assert found.positives == [[0], [], [1]]


def test_meka_counts_labels_from_the_end_if_negative(given_file):
    found = read_arff(given_file(SPARSE.replace(b"@relation r", b"@relation 'r: -C -2'")))
    assert (found.label_names, found.feature_names) == (["l2", "l1"], ["x"])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (SPARSE.replace(b"{1 1}", b"{9 1}"), "line 8"),
        (SPARSE.replace(b"{1 1}", b"{1 1,1 1}"), "line 8.*twice"),
        (SPARSE.replace(b"{1 1}", b"0,1,1"), "line 8.*mixed"),
        (SPARSE.replace(b"1.5", b"?"), "line 6.*expected a number"),
        (SPARSE.replace(b"1.5", b"inf"), "line 6.*expected a number"),
        (SPARSE.replace(b"l1 {0,1}", b"l1 {1,0}"), "lists '1' first"),
        (SPARSE.replace(b"l1", b"l3"), "no attribute for the label 'l1'"),
        (SPARSE.replace(b"x numeric", b"x string"), "line 2.*string"),
        (SPARSE.replace(b"@attribute l2", b"@attribute x"), "line 3.*before"),
        (SPARSE[: SPARSE.index(b"@data")], "no @data"),
        (SPARSE[: SPARSE.index(b"{0 1.5")], "no rows"),
    ],
)
def test_a_mistake_in_an_arff_file_is_placed(content, message, given_file):
    with pytest.raises(UserError, match=message):
        read_arff(given_file(content), ["l1", "l2"])


def test_svmlight_rows_with_and_without_labels_and_header(given_file):
    found = read_rows(given_file(b"3,17 1:0.5 7:2 # note\n 2:1\n0 1:1\n"))
    assert (found.positives, found.labels, found.features.shape) == ([[3, 17], [], [0]], 18, (3, 8))
    assert found.features.toarray()[0].tolist() == [0, 0.5, 0, 0, 0, 0, 0, 2]
    found = read_rows(given_file(b"2 4 3\n2,0 0:1 3:-1e2\n1:1\n"))
    assert (found.positives, found.labels, found.features.shape) == ([[2, 0], []], 3, (2, 4))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("1 4 3\n3 0:1\n", "line 2.*a label is '3'"),
        ("1 4 3\n0 4:1\n", "line 2.*a feature is '4'"),
        ("2 4 3\n0 3:1\n", "promises 2"),
        ("1 2:x\n", "line 1.*expected a number"),
        ("1 2:1 2:1\n", "line 1.*twice"),
        ("1 2\n", "line 1.*feature:value"),
        ("999999999999 2:1\n", "line 1.*a label"),
    ],
)
def test_a_mistake_in_svmlight_rows_is_placed(content, message, given_file):
    with pytest.raises(UserError, match=message):
        read_rows(given_file(content))


def test_cub_attributes_know_what_was_visible(given_file):
    present, visible = read_attributes(given_file(READERS["cub attributes"].good), 2, 2)
    assert present.tolist() == [[0, 1], [-1, 1]]
    assert visible.tolist() == [[False, True], [False, True]]


def test_open_images_confirmed_denied_and_unknown(given_file):
    store = read_verified(given_file(OPEN_IMAGES), {"/m/a": 0, "/m/b": 1}, ["Cat", "Dog"])
    assert list(store.ids) == ["00000000000000ff", "0a00000000000000"]
    np.testing.assert_array_equal(store.dense(), [[1, 0], [np.nan, 1]])


def test_open_images_lines_of_an_image_may_be_apart(given_file, monkeypatch):
    monkeypatch.setattr(open_images, "_BLOCK", 1)  # pack after every image
    apart = OPEN_IMAGES + b"00000000000000ff,v,/m/a,1\n"
    store = read_verified(given_file(apart), {"/m/a": 0, "/m/b": 1}, ["Cat", "Dog"])
    assert list(store.ids) == ["00000000000000ff", "0a00000000000000"]
    np.testing.assert_array_equal(store.dense(), [[1, 0], [np.nan, 1]])
    denied = OPEN_IMAGES + b"00000000000000ff,v,/m/a,0\n"
    with pytest.raises(UserError, match=r"00000000000000ff.*'Cat'.*confirmed and as denied"):
        read_verified(given_file(denied), {"/m/a": 0, "/m/b": 1}, ["Cat", "Dog"])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"00000000000000ff,v,/m/z,1", "line 5.*/m/z"),
        (b"00000000000000ff,v,/m/a,0.7", "line 5.*confidence"),
        (b"ff,v,/m/a,1", "line 5.*16 hexadecimal"),
        (b"00000000000000ff,v,/m/a", "line 5.*3 columns"),
    ],
)
def test_a_mistake_in_open_images_labels_is_placed(line, message, given_file):
    with pytest.raises(UserError, match=message):
        read_verified(given_file(OPEN_IMAGES + line + b"\n"), {"/m/a": 0, "/m/b": 1}, ["Cat", "Dog"])


def test_labels_that_are_called_the_same_keep_their_ids(given_file):
    found = read_descriptions(given_file(b"LabelName,DisplayName\n/m/a,Bat\n/m/b,Bat\n/m/c,Cat\n"))
    assert found == {"/m/a": "Bat (/m/a)", "/m/b": "Bat (/m/b)", "/m/c": "Cat"}


def test_pickled_objects_in_an_archive_are_refused(given_file):
    hostile = npz_file(X=np.array([[{}, {}]], dtype=object), ids=np.array(["a"]))
    with pytest.raises(UserError, match=r"file\.dat.*cannot hold"):
        read_archive(given_file(hostile))


def test_a_zip_bomb_is_refused(given_file, monkeypatch):
    monkeypatch.setattr(limits, "UNPACKED_ALWAYS", 1 << 16)
    with pytest.raises(UserError, match="unpacks to"):
        read_archive(given_file(npz_file(X=np.zeros((1000, 1000)), ids=np.array(["a"]))))
