"""Random numbers that depend on what they are for, not on when they are drawn.

A draw is a hash of its key, for example (seed, epoch, item, label). So masks, hidden labels and samples are the same
for every batch order, number of processes and after a resume. The hash is the finaliser of
SplitMix64 (Steele et al., OOPSLA 2014).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from raretag.core.numerics import barrier

_GOLDEN = -7046029254386353131  # 0x9E3779B97F4A7C15 as a signed number
_FIRST = -4658895280553007687  # 0xBF58476D1CE4E5B9
_SECOND = -7723592293110705685  # 0x94D049BB133111EB
_ONE = 0x3FF0000000000000  # the bits of 1.0
_ALL = 2**64 - 1
_BITS = [np.uint64(30), np.uint64(27), np.uint64(31)]
_FACTORS = [np.uint64(_FIRST & _ALL), np.uint64(_SECOND & _ALL)]


def _shift(x: Tensor, bits: int) -> Tensor:
    return (x >> bits) & ((1 << (64 - bits)) - 1)  # int64 shifts copy the sign; a hash needs zeros


def mix(x: Tensor) -> Tensor:
    """Scramble int64 numbers; a bijection."""
    if x.device.type == "cpu" and x.numel() > 1 and not torch.compiler.is_compiling():
        return _mixed(x)
    x = (x ^ _shift(x, 30)) * _FIRST
    x = (x ^ _shift(x, 27)) * _SECOND
    return x ^ _shift(x, 31)


def _mixed(x: Tensor) -> Tensor:
    """The same by numpy, whose shifts fill with zeros and which writes into what is there: a third of the time."""
    state = x.numpy().view(np.uint64)
    state = np.bitwise_xor(shifted := state >> _BITS[0], state, out=shifted)
    state *= _FACTORS[0]
    np.right_shift(state, _BITS[1], out=(other := np.empty_like(state)))
    other ^= state
    other *= _FACTORS[1]
    np.right_shift(other, _BITS[2], out=state)
    state ^= other
    return torch.from_numpy(state.view(np.int64))


def key(*parts: int | Tensor) -> Tensor:
    """One int64 hash for a tuple of integers or broadcastable integer tensors."""
    plain = 0  # how many come before the first tensor: `number` takes a twentieth of the time for them
    while plain < len(parts) and type(parts[plain]) is int and not torch.compiler.is_compiling():
        plain += 1
    begun = number(*parts[:plain])  # type: ignore[arg-type]
    state = torch.tensor(begun - 2**64 if begun >= 2**63 else begun, dtype=torch.int64)
    for part in parts[plain:]:
        part = torch.as_tensor(part, dtype=torch.int64)
        state = barrier(state) if state.dim() else state  # the key of a row is not made again for each label
        state = mix(state.to(part.device) + _GOLDEN + part)
    return state


def number(*parts: int) -> int:
    """The same hash for plain integers, as an unsigned number and without the cost of tensors."""
    state = 0
    for part in parts:
        state = (state + _GOLDEN + part) & _ALL
        state = ((state ^ state >> 30) * _FIRST) & _ALL
        state = ((state ^ state >> 27) * _SECOND) & _ALL
        state ^= state >> 31
    return state


def uniform(*parts: int | Tensor) -> Tensor:
    """Numbers in [0, 1), float64, one for each broadcast key."""
    state = _shift(key(*parts), 11)
    if not torch.compiler.is_compiling():
        return state.double() * 2.0**-53
    # The same number without a conversion, which keeps a compiler from using vectors: 52 bits as the fraction of a
    # number in [1, 2), and the last bit likewise.
    return ((_shift(state, 1) | _ONE).view(torch.float64) - 1.0) + (
        ((state & 1) | _ONE).view(torch.float64) - 1.0
    ) * 0.5


def permutation(size: int, *parts: int) -> Tensor:
    """An order of range(size) that depends on the key alone."""
    return torch.argsort(key(*parts, torch.arange(size)), stable=True)


def permutations(size: int, start: int, stop: int, *parts: int) -> NDArray[np.int64]:
    """Rows `start` to `stop` of the key's endless table of orders of range(size): [stop - start, size].

    The table is made in blocks of rows, so that many short orders cost little more than a few long ones.
    """
    if size == 1:
        return np.zeros((stop - start, 1), np.int64)  # without the table: many rare labels have one item
    block_rows = max(1, 4096 // max(size, 1))
    first = start // block_rows
    blocks = []
    for block in range(first, -(-stop // block_rows)):
        generator = np.random.Generator(np.random.SFC64(np.random.SeedSequence(number(*parts, block))))
        rows = min(block_rows, stop - block * block_rows)  # rows follow each other, so the last ones can be left out
        blocks.append(generator.permuted(np.tile(np.arange(size), (rows, 1)), axis=1))
    return np.concatenate(blocks)[start - first * block_rows : stop - first * block_rows]


def of_names(names: Sequence[str]) -> Tensor:
    """An int64 for each name, so that a draw can belong to an item whatever its place in the file."""
    digests = (hashlib.blake2b(name.encode(), digest_size=8).digest() for name in names)
    return torch.tensor([int.from_bytes(digest, "little", signed=True) for digest in digests], dtype=torch.int64)


def of_rows(values: Any) -> Tensor:
    """An int64 for each row of an array [N, ...] or of a sparse matrix, of the bits of its numbers.

    A sum over columns of bits times an odd number of the column, so a row is the same dense or sparse.

    >>> dense = np.eye(3, dtype=np.float32)
    >>> bool((of_rows(dense) == of_rows(sparse.csr_array(dense))).all()), len(of_rows(dense).unique())
    (True, 3)
    """
    if sparse.issparse(values):
        terms = _bits(values.data[:, None])[:, 0] * _factors(values.shape[1])[values.indices]
        sums = np.concatenate([[0], np.cumsum(terms)])
        return mix(torch.from_numpy(np.diff(sums[values.indptr])))
    rows = np.asarray(values)
    rows = _bits(np.ascontiguousarray(rows.reshape(len(rows), -1))) if rows.size else np.zeros((len(rows), 0), np.int64)
    return mix(torch.from_numpy(rows @ _factors(rows.shape[1])))


def _bits(rows: NDArray[Any]) -> NDArray[np.int64]:
    """[N, D] numbers as whole ones: the same for the same bits, 0 for 0."""
    sizes = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.int64}
    return np.ascontiguousarray(rows).view(sizes[rows.dtype.itemsize]).astype(np.int64)


def _factors(columns: int) -> NDArray[np.int64]:
    return mix(torch.arange(1, columns + 1)).numpy() | 1
