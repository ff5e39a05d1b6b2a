"""Labels as sequences of tokens, and their probabilities from those of the tokens."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TokenPath = tuple[int, ...]


@dataclass(slots=True)
class LabelPaths:
    """The token sequences that write a label, as a tree.

    Attributes:
        labels: whole sequence -> label; a label may have several.
        children: beginning of a sequence -> the beginnings that are one token longer.
        texts: beginning of a sequence -> what it writes.
    """

    labels: dict[TokenPath, str] = field(default_factory=dict)
    children: dict[TokenPath, set[TokenPath]] = field(default_factory=lambda: defaultdict(set))
    texts: dict[TokenPath, str] = field(default_factory=lambda: {(): ""})

    def add(self, label: str, tokens: Sequence[tuple[int, str | list[int]]]) -> None:
        """Take in one way to write a label: each token's number and its text or bytes."""
        ids = tuple(number for number, _ in tokens)
        pieces = [bytes(p) if isinstance(p, list) else p.encode() for _, p in tokens]
        for n in range(1, len(ids)):
            try:
                self.texts[ids[:n]] = b"".join(pieces[:n]).decode()
            except UnicodeDecodeError:
                return  # a token ends inside a character: text cannot be cut there
        for n in range(len(ids)):
            self.children[ids[:n]].add(ids[: n + 1])
        self.labels[ids] = label

    def share_equally(self, beginning: TokenPath, mass: dict[TokenPath, float]) -> None:
        """Give the labels that begin so equal parts of the beginning's probability."""
        below = [path for path in self.labels if path[: len(beginning)] == beginning]
        part = mass.get(beginning, 0.0) / len(below)
        longer = [path[:n] for path in below for n in range(len(beginning) + 1, len(path) + 1)]
        for path in longer:
            mass[path] = part * longer.count(path)

    def label_logprobs(self, mass: Mapping[TokenPath, float]) -> dict[str, float]:
        """Logarithm of each label's probability, from the probability of each sequence.

        A label that is the beginning of another one ("1" of "10") only has what is left
        when the other one is taken off: p(1)·(1 - p(0 | 1)).
        """
        sums: dict[str, float] = defaultdict(float)
        for path, label in self.labels.items():
            longer = sum(mass.get(child, 0.0) for child in self.children.get(path, ()))
            sums[label] += max(0.0, mass.get(path, 0.0) - longer)
        return {label: min(0.0, math.log(p)) for label, p in sums.items() if p > 0.0}
