import math

import pytest

from mcranker.llm.local.label_paths import LabelPaths

SPACE, ONE, ZERO, TWO = 9, 1, 0, 2


def scale() -> LabelPaths:
    """Labels 1, 2 and 10, with and without a space that is a token of its own."""
    paths = LabelPaths()
    for label, tokens in {
        "1": [(ONE, "1")],
        "2": [(TWO, "2")],
        "10": [(ONE, "1"), (ZERO, "0")],
    }.items():
        paths.add(label, tokens)
        paths.add(label, [(SPACE, " "), *tokens])
    return paths


def probabilities(logprobs: dict[str, float]) -> dict[str, float]:
    return {label: math.exp(p) for label, p in logprobs.items()}


def test_a_longer_label_takes_its_part_of_the_shorter_one() -> None:
    # p(1) = 0.5 and p(0 | 1) = 0.4, so p(10) = 0.5 * 0.4 = 0.2 and 0.3 is left for "1".
    found = scale().label_logprobs({(): 1.0, (ONE,): 0.5, (ONE, ZERO): 0.2, (TWO,): 0.25})
    assert probabilities(found) == pytest.approx({"1": 0.3, "2": 0.25, "10": 0.2})


def test_both_ways_to_write_a_label_count() -> None:
    mass = {(): 1.0, (TWO,): 0.125, (SPACE,): 0.5, (SPACE, TWO): 0.25}
    assert probabilities(scale().label_logprobs(mass)) == pytest.approx({"2": 0.375})


def test_what_is_not_traced_further_is_shared() -> None:
    paths, mass = scale(), {(): 1.0, (SPACE,): 0.03}
    for node in sorted(paths.children, key=len)[1:]:
        if node in mass:
            paths.share_equally(node, mass)
    # Three labels begin with the space: 0.03 / 3 each, and "10" is not taken twice.
    found = probabilities(paths.label_logprobs(mass))
    assert found == pytest.approx({"1": 0.01, "2": 0.01, "10": 0.01})


def test_a_character_of_several_tokens_is_not_cut() -> None:
    paths = LabelPaths()
    snowman = "☃".encode()
    paths.add("☃", [(5, list(snowman[:1])), (6, list(snowman[1:]))])
    assert paths.labels == {}
    paths.add("☃", [(7, "☃")])
    assert paths.labels == {(7,): "☃"}
