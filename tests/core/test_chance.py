"""Draws depend on what they are for."""

import numpy as np
import torch

from raretag.core import chance


def test_a_draw_is_the_same_alone_and_in_a_table():
    table = chance.uniform(7, torch.arange(50)[:, None], torch.arange(40)[None, :])
    assert table[31, 17] == chance.uniform(7, 31, 17)


def test_plain_integers_and_tensors_give_the_same_hash():
    for parts in ((0,), (1, 2, 3), (2**40, -5, 0)):
        assert chance.number(*parts) == int(chance.key(*parts)) % 2**64


def test_draws_are_uniform_and_keys_are_independent():
    draws = chance.uniform(3, torch.arange(300)[:, None], torch.arange(300)[None, :]).numpy()
    counts, _ = np.histogram(draws, bins=20, range=(0, 1))
    chi_square = ((counts - draws.size / 20) ** 2 / (draws.size / 20)).sum()
    assert chi_square < 45  # 19 degrees of freedom: P(> 45) < 0.001
    assert abs(np.corrcoef(draws[:, :-1].ravel(), draws[:, 1:].ravel())[0, 1]) < 0.02
    assert abs(np.corrcoef(draws[:-1].ravel(), draws[1:].ravel())[0, 1]) < 0.02


def test_the_order_of_the_parts_of_a_key_matters():
    assert chance.number(1, 2) != chance.number(2, 1)
    assert chance.number(0) != chance.number(0, 0)


def test_permutations_are_one_endless_table():
    table = chance.permutations(7, 0, 1000, 5)
    assert (np.sort(table, axis=1) == np.arange(7)).all()
    assert (chance.permutations(7, 333, 666, 5) == table[333:666]).all()
    first_places = np.bincount(table[:, 0], minlength=7)
    assert first_places.min() > 90  # 143 expected, standard deviation 11


def test_names_keep_their_number():
    assert chance.of_names(["a", "b"]).tolist() == chance.of_names(["b", "a"]).flip(0).tolist()
