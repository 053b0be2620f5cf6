"""Images from files: upright, RGB, normalised; broken ones are found in time; random changes belong to items."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image

from raretag.core.errors import UserError
from raretag.data import from_huggingface
from raretag.data.dataset import Selected
from raretag.data.inputs import images as module
from raretag.data.inputs.described import inputs_from
from raretag.data.inputs.images import MEAN, STD, Augment, Images, square, verify
from raretag.data.table import Table
from support.paths import DATA

LEFT_RED = np.zeros((20, 40, 3), np.uint8)
LEFT_RED[:, :20, 0] = 255


def noise(seed=0, shape=(24, 36, 3)):
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


@pytest.fixture
def folder(tmp_path):
    for number in range(12):
        Image.fromarray(noise(number)).save(tmp_path / f"{number}.png")
    return tmp_path


def paths(folder, count=12):
    return [str(folder / f"{number}.png") for number in range(count)]


def test_a_batch_is_normalised_with_the_mean_and_deviation_of_imagenet(tmp_path):
    Image.fromarray(LEFT_RED).save(tmp_path / "a.png")
    batch = Images([str(tmp_path / "a.png")], size=8).batch(torch.tensor([0]))
    assert batch.shape == (1, 3, 8, 8)
    assert batch.dtype == torch.float32
    pixels = batch[0] * torch.tensor(STD)[:, None, None] + torch.tensor(MEAN)[:, None, None]
    assert torch.allclose(pixels[:, 4, 0], torch.tensor([1.0, 0, 0]), atol=1e-6)
    assert torch.allclose(pixels[:, 4, 7], torch.zeros(3), atol=1e-6)


def test_the_rotation_that_a_camera_noted_is_applied(tmp_path):
    image = Image.fromarray(LEFT_RED)
    exif = image.getexif()
    exif[0x0112] = 6  # turn clockwise by 90 degrees: what was on the left is then on top
    image.save(tmp_path / "a.jpg", exif=exif, quality=95, subsampling=0)
    turned = square(str(tmp_path / "a.jpg"), 10)
    assert turned[1, 5, 0] > 200
    assert turned[8, 5, 0] < 50


@pytest.mark.parametrize("mode", ["L", "P", "RGBA", "LA", "CMYK", "1", "I;16", "F"])
def test_every_kind_of_pixel_becomes_rgb(tmp_path, mode):
    if mode == "I;16":
        image = Image.fromarray(np.full((8, 8), 0x8080, np.uint16))
    else:
        image = Image.fromarray(np.full((8, 8), 128, np.uint8)).convert(mode)
    path = str(tmp_path / ("a.tif" if mode in ("CMYK", "F") else "a.png"))
    image.save(path)
    found = square(path, 4)
    assert found.shape == (4, 4, 3)
    assert mode == "1" or abs(int(found[0, 0, 0]) - 128) <= 2


def test_transparent_is_white(tmp_path):
    Image.new("RGBA", (4, 4), (255, 0, 0, 0)).save(tmp_path / "a.png")
    assert (square(str(tmp_path / "a.png"), 4) == 255).all()


def test_crop_keeps_the_middle_and_its_proportions(tmp_path):
    wide = np.zeros((10, 30, 3), np.uint8)
    wide[:, 10:20] = 200
    Image.fromarray(wide).save(tmp_path / "a.png")
    assert (square(str(tmp_path / "a.png"), 10, "crop") == 200).all()
    assert square(str(tmp_path / "a.png"), 10, "resize")[0, 0, 0] == 0


def test_unreadable_images_are_named_before_training(folder):
    (folder / "2.png").write_bytes((folder / "2.png").read_bytes()[:300])
    (folder / "5.png").write_text("not an image")
    (folder / "7.png").unlink()
    (folder / "9.png").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n")
    found = verify(paths(folder))
    assert set(found) == {2, 5, 7, 9}
    assert "truncated" in found[2]
    assert "no such file" in found[7]


def test_a_file_is_decoded_again_only_if_it_changed(folder, monkeypatch):
    decoded = []
    real = module._decoded
    monkeypatch.setattr(module, "_decoded", lambda path: decoded.append(path) or real(path))
    verify(paths(folder))
    verify(paths(folder))
    assert len(decoded) == 12
    Image.fromarray(noise(99, (30, 30, 3))).save(folder / "3.png")
    verify(paths(folder))
    assert decoded[12:] == [str(folder / "3.png")]


def test_an_image_that_claims_to_be_huge_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MOST_PIXELS", 1_000_000)
    Image.new("1", (1001, 1000)).save(tmp_path / "bomb.png")
    assert "more than 1 million" in verify([str(tmp_path / "bomb.png")])[0]
    with pytest.raises(UserError, match="pixels"):
        square(str(tmp_path / "bomb.png"), 8)


def table(folder, names, **options):
    lines = "".join(f"{name},{'a;b' if row % 2 else 'a'}\n" for row, name in enumerate(names))
    (folder / "t.csv").write_text("image,tags\n" + lines)
    return Table(file=str(folder / "t.csv"), size=8, **options)


def test_bad_images_stop_a_run_or_are_left_out_with_a_remark(folder):
    names = [f"{number}.png" for number in range(14)]
    with pytest.raises(UserError, match=r"2 of 14 items .*12\.png: there is no such file; 13\.png"):
        table(folder, names).load()
    data = table(folder, names, bad_items="skip").load()
    assert sum(len(part) for part in (data.train, data.validation, data.test)) == 12
    assert any("2 of 14 items left out" in line for line in data.remarks)


def test_a_broken_image_of_a_long_list_names_ten(folder):
    with pytest.raises(UserError) as caught:
        table(folder, [f"x{number}.png" for number in range(30)]).load()
    assert str(caught.value).count("no such file") == 10


def test_paths_stay_inside_the_folder(folder, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside")
    Image.fromarray(noise()).save(outside / "secret.png")
    (folder / "link.png").symlink_to(outside / "secret.png")
    (folder / "sub").symlink_to(outside)
    inside = [f"{number}.png" for number in range(12)]
    for name in (f"../{outside.name}/secret.png", str(outside / "secret.png"), "link.png", "sub/secret.png"):
        with pytest.raises(UserError, match=r"t\.csv, line 14: .* leaves the folder"):
            table(folder, [*inside, name]).load()
        assert table(folder, [*inside, name], allow_outside=True).load()
    for name in ("..", "x\x00.png"):
        with pytest.raises(UserError, match=r"line 14: .* is not a path"):
            table(folder, [*inside, name], images="image").load()


def test_images_may_live_in_another_folder(folder, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("tables")
    data = table(folder, [f"{number}.png" for number in range(12)])
    (elsewhere / "t.csv").write_text((folder / "t.csv").read_text())
    moved = Table(file=str(elsewhere / "t.csv"), folder=str(folder), size=8).load()
    rows = torch.arange(3)
    assert torch.equal(moved.train.inputs.batch(rows), data.load().train.inputs.batch(rows))


def test_random_changes_do_not_depend_on_the_batch_or_its_order(folder):
    images = Images(paths(folder), size=16, augment=Augment(seed=3, cutout=0.3))
    whole = images.batch(torch.arange(12), epoch=2)
    for row in range(12):
        assert torch.equal(images.batch(torch.tensor([row]), epoch=2)[0], whole[row])
    turned = images.batch(torch.arange(11, -1, -1), epoch=2)
    assert torch.equal(turned.flip(0), whole)
    chosen = Selected(images, torch.tensor([4, 7]))
    assert torch.equal(chosen.batch(torch.tensor([1]), epoch=2)[0], whole[7])


def test_random_changes_differ_between_epochs_seeds_and_items_and_are_off_without_an_epoch(folder):
    images = Images([paths(folder)[0]] * 2, size=16, augment=Augment(seed=3))
    rows = torch.arange(2)
    first = images.batch(rows, epoch=0)
    assert not torch.equal(first[0], first[1])
    assert not torch.equal(first, images.batch(rows, epoch=1))
    assert not torch.equal(first, Images([paths(folder)[0]] * 2, size=16, augment=Augment(seed=4)).batch(rows, epoch=0))
    plain = Images([paths(folder)[0]] * 2, size=16)
    assert torch.equal(images.batch(rows), plain.batch(rows, epoch=5))


def test_changes_of_strength_zero_leave_an_image_as_it_was():
    image = torch.from_numpy(noise(shape=(16, 16, 3))).permute(2, 0, 1)[None].float() / 255
    still = Augment(smallest_area=1.0, stretch=1.0, flip=0.0, colour=0.0)
    assert torch.allclose(still(image, torch.tensor([0]), 0), image, atol=1e-5)
    mirrored = Augment(smallest_area=1.0, stretch=1.0, flip=1.0, colour=0.0)
    assert torch.allclose(mirrored(image, torch.tensor([0]), 0), image.flip(3), atol=1e-5)


def test_a_crop_of_a_slope_is_a_slope_of_its_size():
    """Bilinear look-up of a linear ramp is exact, so the crop's borders can be read off it."""
    ramp = ((torch.arange(64) + 0.5) / 64).expand(1, 1, 64, 64)
    crop = Augment(smallest_area=0.25, stretch=1.0, flip=0.0, colour=0.0)
    for item in range(5):
        row = crop(ramp, torch.tensor([item]), 0)[0, 0, 10]
        width = float(row[40] - row[20]) * 64 / 20
        assert 0.5 <= width <= 1.0
        assert row.min() >= 0
        assert row.max() <= 1


def test_colour_changes_follow_brightness_contrast_and_saturation_in_turn():
    image = torch.full((1, 3, 2, 2), 0.4)
    image[0, 0] = 0.5
    image[0, 1, 0, 0] = 0.3
    draws = torch.tensor([[0.9, 0.2, 0.7]])
    b, c, s = (1 + 0.3 * (2 * draws[0] - 1)).tolist()
    weights = torch.tensor([0.299, 0.587, 0.114])
    expected = image[0] * b
    grey_mean = (expected * weights[:, None, None]).sum(0).mean()
    expected = grey_mean + (expected - grey_mean) * c
    grey = (expected * weights[:, None, None]).sum(0)
    expected = grey + (expected - grey) * s
    assert torch.allclose(Augment(colour=0.3).distort(image, draws)[0], expected, atol=1e-6)


def test_cutout_blots_out_a_square_of_its_size():
    image = torch.ones(1, 3, 40, 40)
    blotted = Augment(cutout=0.5).blot(image, torch.tensor([[0.5, 0.5]]))
    assert int((blotted[0, 0] != 1).sum()) == 400
    assert torch.allclose(blotted[0, :, 20, 20], torch.tensor(MEAN))


def test_images_of_a_huggingface_dataset_are_as_those_of_files(folder):
    class Rows:
        column_names = ("image", "tags")
        features = {"tags": None}  # noqa: RUF012

        def __len__(self):
            return 12

        def __getitem__(self, key):
            if key == "tags":
                return [["a"], ["a", "b"]] * 6
            return {"image": Image.open(folder / f"{key}.png")}

    data = from_huggingface(Rows(), images="image", labels="tags", size=8)
    row = int(data.train.inputs.rows[0])
    expected = Images(paths(folder), size=8).batch(torch.tensor([row]))
    assert torch.equal(data.train.inputs.batch(torch.tensor([0])), expected)


def test_new_images_become_what_validation_images_became(folder):
    data = table(folder, [f"{number}.png" for number in range(12)], fit="crop").load()
    again = inputs_from(data.test.inputs.describe(), paths(folder)).batch(data.test.inputs.rows)
    assert torch.equal(again, data.test.inputs.batch(torch.arange(len(data.test))))


def test_real_photographs_are_read():
    photographs = sorted((DATA / "VOCdevkit" / "VOC2012" / "JPEGImages").glob("*.jpg"))[:20]
    if not photographs:
        pytest.skip("VOC 2012 is not in $RARETAG_DATA or ../shared/data")
    files = [str(path) for path in photographs]
    assert verify(files) == {}
    batch = Images(files, size=32).batch(torch.arange(20))
    assert batch.isfinite().all()
    assert batch.std() > 0.5
