"""How the passages of one query are dealt out to pages, by their size in bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from personas.report.markup import page_bytes

__all__ = ["Part", "Piece", "ends_of_parts", "fair_limit", "parts_of"]


@dataclass(frozen=True, slots=True)
class Piece:
    """A passage's row of the heat map and its details, as markup."""

    row: str
    details: str

    @property
    def size(self) -> int:
        """Bytes in UTF-8."""
        return len(self.row.encode()) + len(self.details.encode())


@dataclass(frozen=True, slots=True)
class Part:
    """One page of a query.

    Attributes:
        number: from 1.
        name: of its file; empty for a page by itself.
        first: rank of its first passage.
        last: rank of its last one; below `first` if there is none.
    """

    number: int
    name: str
    first: int
    last: int


def parts_of(names: Sequence[str], ends: Sequence[int]) -> tuple[Part, ...]:
    """Parts of these names, of which each ends with that rank."""
    return tuple(
        Part(number, name, start + 1, end)
        for number, (name, (start, end)) in enumerate(
            zip(names, pairwise((0, *ends)), strict=True), start=1
        )
    )


def ends_of_parts(sizes: Sequence[int], first_room: int, room: int) -> list[int]:
    """The rank with which each part ends, at least one part.

    Args:
        sizes: bytes of each passage, best first.
        first_room: bytes that the passages of part 1 may have together.
        room: those of any other part. A passage larger than that has a part of its own.
    """
    ends: list[int] = []
    left = first_room
    for place, size in enumerate(sizes):
        if size > left and place:
            ends.append(place)
            left = room
        left -= size
    return [*ends, len(sizes)]


def fair_limit(texts: Sequence[str], most: int, room: int) -> int:
    """The longest limit up to `most` that keeps all texts together in `room`.

    All in bytes of the page, with markup in the texts escaped.
    """
    sizes = [min(most, page_bytes(text[:most])) for text in texts]
    for place, size in enumerate(sorted(sizes)):
        share = room // (len(sizes) - place)
        if size > share:
            return share
        room -= size
    return most
