"""Damaged files without end, each from a number: the same seed gives the same file, so a find can be made again."""

from __future__ import annotations

import random
from collections.abc import Iterator

SHARP = (
    b",", b"\n", b"-1", b"9" * 20, b"nan", b"1e999", b"{", b"}", b"[", b"]", b"<", b'"', b"'", b"\x00", b"\t", b":",
    b"\xff", b"&a ", b"*a ", b"!!", b"@data\n", b" " * 50, b"2147483648", b"-2147483649", b"18446744073709551616",
)  # fmt: skip
NUMBERS = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 2**63 - 1, 2**64 - 1)


def mutations(good: bytes, count: int, seed: int) -> Iterator[tuple[int, bytes]]:
    """(seed of the file, content): `next(mutations(good, 1, that_seed))` makes it alone."""
    for number in range(seed, seed + count):
        yield number, mutated(good, random.Random(number))


def mutated(good: bytes, chance: random.Random) -> bytes:
    content = bytearray(good)
    for _ in range(chance.choice((1, 1, 1, 2, 3, 8))):
        place = chance.randrange(len(content) + 1)
        kind = chance.randrange(6)
        if kind == 0 and content:  # one bit
            content[place % len(content)] ^= 1 << chance.randrange(8)
        elif kind == 1:  # a number of 1, 2, 4 or 8 bytes
            size = chance.choice((1, 2, 4, 8))
            content[place : place + size] = (chance.choice(NUMBERS) & (256**size - 1)).to_bytes(size, "little")
        elif kind == 2:
            content[place:place] = chance.choice(SHARP)
        elif kind == 3:  # cut out
            del content[place : place + chance.choice((1, 2, 8, 64))]
        elif kind == 4:  # doubled
            other = chance.randrange(len(content) + 1)
            content[place:place] = content[other : other + chance.choice((1, 8, 64))]
        else:
            content[place : place + 4] = chance.randbytes(chance.randrange(8))
    return bytes(content)
