"""All labels of a data set in three states, in the smallest of a few forms.

Positives are always listed. Of the rest, only the rarer state is: `absent` is the state of a label that is not listed.

    absent = "negative", nothing listed      everything was observed
    absent = "unknown",  nothing listed      only positives were observed
    absent = "negative", unknown listed      few labels are unknown
    absent = "unknown",  negatives listed    few negatives were observed
    bits                                     one bit per entry, where lists would take more room

The form follows from the content alone, so equal content means equal arrays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from raretag.labels.rows import Bools, Ints, Rows, blocks

Absent: TypeAlias = Literal["negative", "unknown"]

_ONES = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).sum(axis=1, dtype=np.uint8)  # in each byte


@dataclass(frozen=True, slots=True, eq=False)
class Entries:
    positives: Rows
    labels: int  # C
    absent: Absent  # the state of a label that is not listed; with bits: the more frequent one
    listed: Rows | None = None  # the other state
    bits: NDArray[np.uint8] | None = None  # [N, ceil(C / 8)], 1 = observed, first label in the lowest bit

    def __post_init__(self) -> None:
        if self.bits is not None:
            self.bits.flags.writeable = False

    @classmethod
    def of_lists(cls, positives: Rows, labels: int, absent: Absent, listed: Rows | None) -> Entries:
        """From lists of positives and of the state that is not `absent`, which share no entry."""
        count = 0 if listed is None else len(listed.indices)
        rest = len(positives) * labels - len(positives.indices) - count
        unknown, negative = (count, rest) if absent == "negative" else (rest, count)
        wanted: Absent = "negative" if unknown <= negative else "unknown"
        plain = cls(positives, labels, absent, listed)
        if min(unknown, negative) == 0:
            return cls(positives, labels, wanted)
        if _list_bytes(len(positives), min(unknown, negative)) > _bits_bytes(len(positives), labels):
            packed = [pack(plain.observed(*block)) for block in blocks(len(positives), labels)]
            return cls(positives, labels, wanted, bits=np.concatenate(packed))
        return plain if wanted == absent else cls(positives, labels, wanted, plain._unlisted())

    @classmethod
    def of_bits(cls, positives: Rows, labels: int, bits: NDArray[np.uint8]) -> Entries:
        """From one bit per entry: was it observed? Positives were, and the bits beyond the last label are 0."""
        items = len(positives)
        observed = int(_ONES[bits].sum(dtype=np.int64))
        unknown, negative = items * labels - observed, observed - len(positives.indices)
        absent: Absent = "negative" if unknown <= negative else "unknown"
        if min(unknown, negative) == 0:
            return cls(positives, labels, absent)
        plain = cls(positives, labels, absent, bits=bits)
        if _list_bytes(items, min(unknown, negative)) > _bits_bytes(items, labels):
            return plain
        return cls(positives, labels, absent, plain.unknown() if absent == "negative" else plain.negatives())

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays that hold the labels, by name."""
        named: dict[str, NDArray[Any]] = {
            "positives.indptr": self.positives.indptr,
            "positives.indices": self.positives.indices,
        }
        if self.listed is not None:
            named |= {"listed.indptr": self.listed.indptr, "listed.indices": self.listed.indices}
        if self.bits is not None:
            named["bits"] = self.bits
        return named

    def __len__(self) -> int:
        return len(self.positives)

    @property
    def bytes(self) -> int:
        listed = 0 if self.listed is None else self.listed.bytes
        return self.positives.bytes + listed + (0 if self.bits is None else self.bits.nbytes)

    def same(self, other: Entries) -> bool:
        if (len(self), self.labels, self.absent) != (len(other), other.labels, other.absent):
            return False
        if not self.positives.same(other.positives) or (self.listed is None) != (other.listed is None):
            return False
        if self.listed is not None and other.listed is not None and not self.listed.same(other.listed):
            return False
        if self.bits is None or other.bits is None:
            return self.bits is other.bits
        return np.array_equal(self.bits, other.bits)

    def take(self, rows: Ints) -> Entries:
        """Some rows, again in the smallest form."""
        some = self.pick(rows)
        if some.bits is not None:
            return Entries.of_bits(some.positives, some.labels, some.bits)
        return Entries.of_lists(some.positives, some.labels, some.absent, some.listed)

    def followed_by(self, other: Entries) -> Entries:
        """The rows of both, in the smallest form."""
        positives = Rows.joined([self.positives, other.positives])
        if self.absent == other.absent and self.bits is None and other.bits is None:
            lists = [_nothing(len(one)) if one.listed is None else one.listed for one in (self, other)]
            return Entries.of_lists(positives, self.labels, self.absent, Rows.joined(lists))
        packed = [pack(one.observed(*block)) for one in (self, other) for block in blocks(len(one), one.labels)]
        return Entries.of_bits(positives, self.labels, np.concatenate(packed))

    def pick(self, rows: Ints) -> Entries:
        """Some rows in the form that the whole has: quicker, for those who look once and throw them away."""
        listed = None if self.listed is None else self.listed.take(rows)
        bits = None if self.bits is None else self.bits[rows]
        return Entries(self.positives.take(rows), self.labels, self.absent, listed, bits)

    def span(self, start: int, stop: int) -> Entries:
        """Rows start..stop-1 in the form that the whole has, without a copy."""
        listed = None if self.listed is None else self.listed.span(start, stop)
        bits = None if self.bits is None else self.bits[start:stop]
        return Entries(self.positives.span(start, stop), self.labels, self.absent, listed, bits)

    def present(self) -> NDArray[np.float32]:
        """Dense [N, C]: 1 at positives, else 0."""
        value = np.zeros((len(self), self.labels), np.float32)
        self.positives.mark(value, 1.0)
        return value

    def observed(self, start: int = 0, stop: int | None = None) -> Bools:
        """Dense [N, C] (or the rows of a range): was this label observed?"""
        if (start, stop) != (0, None):
            return self.span(start, len(self) if stop is None else stop).observed()
        if self.bits is not None:
            return np.unpackbits(self.bits, axis=1, count=self.labels, bitorder="little").view(np.bool_)
        if self.absent == "negative":
            mask = np.ones((len(self), self.labels), np.bool_)
        else:
            mask = np.zeros((len(self), self.labels), np.bool_)
            self.positives.mark(mask, True)
        if self.listed is not None:
            self.listed.mark(mask, self.absent == "unknown")
        return mask

    def unknown(self) -> Rows:
        """All unknown labels; as many as there are, so think of N x C before you ask."""
        if self.bits is None and self.absent == "negative":
            return self.listed if self.listed is not None else _nothing(len(self))
        return Rows.joined([Rows.of_mask(~self.observed(*block)) for block in blocks(len(self), self.labels)])

    def negatives(self) -> Rows:
        """All observed negatives; as many as there are."""
        if self.bits is None and self.absent == "unknown":
            return self.listed if self.listed is not None else _nothing(len(self))
        return Rows.joined([self._negatives(*block) for block in blocks(len(self), self.labels)])

    def _negatives(self, start: int, stop: int) -> Rows:
        mask = self.observed(start, stop)
        self.positives.span(start, stop).mark(mask, False)
        return Rows.of_mask(mask)

    def _unlisted(self) -> Rows:
        return self.negatives() if self.absent == "negative" else self.unknown()


def pack(mask: Bools) -> NDArray[np.uint8]:
    return np.packbits(mask, axis=1, bitorder="little")


def _nothing(items: int) -> Rows:
    return Rows.of_lengths(np.zeros(items, np.int64), np.zeros(0, np.int32))


def _list_bytes(items: int, count: int) -> int:
    return 8 * (items + 1) + 4 * count


def _bits_bytes(items: int, labels: int) -> int:
    return items * ((labels + 7) // 8)
