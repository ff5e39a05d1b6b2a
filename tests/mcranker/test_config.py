"""The configuration: presets, what does not go together, and defaults for weak models."""

from __future__ import annotations

import math
from typing import Any

import pytest

from mcranker.config import NO_YES, PRESETS, RankerConfig
from mcranker.errors import ConfigError

# The value in the paper's preset and the one in the reference's.
DIFFERENCES = {
    "preset": ("paper", "reference"),
    "example_rank": (None, 3),
    "lowercase_query": (False, True),
    "title_separator": ("\n", ". . ."),
    "max_passage_words": (None, 512),
    "single_quotes": (False, True),
    "snake_case_personas": (False, True),
    "missing_policy": ("mean_of_team", "constant"),
    "missing_constant": (0.0, 5.0),
    "repair_attempts": (1, 0),
    "resample": (0, 20),
    "dataset_team": (False, True),
    "temperature": (0.0, None),
    "depth": (None, 30),
}


def test_the_default_is_the_paper() -> None:
    config = RankerConfig()
    assert config == RankerConfig(preset="paper", team_size=3)
    assert (config.team_size, config.nlp_scientist, config.scale) == (3, True, 10)
    assert (config.temperature, config.ensemble, config.scoring) == (0.0, "sum", "integer")
    assert (config.criteria, config.recruiting, config.depth) == ("query", "invent", None)


def test_presets_differ_in_exactly_these_fields() -> None:
    paper, reference = (RankerConfig(preset=name).model_dump() for name in PRESETS)
    differences = {
        name: (paper[name], reference[name]) for name in paper if paper[name] != reference[name]
    }
    assert differences == DIFFERENCES
    assert set(PRESETS["reference"]) == set(DIFFERENCES) - {"preset"}
    assert set(PRESETS["reference"]) <= set(RankerConfig.model_fields)


def test_an_explicit_field_beats_the_preset() -> None:
    config = RankerConfig(preset="reference", depth=None, repair_attempts=2)
    assert (config.depth, config.repair_attempts, config.lowercase_query) == (None, 2, True)


OUT_OF_RANGE = [
    *(("team_size", 21), ("scale", 0), ("scale", 101), ("depth", 0), ("example_rank", 0)),
    *(("max_passage_words", 0), ("first_stage_weight", 1.1), ("first_stage_weight", math.nan)),
    *(("missing_constant", math.inf), ("missing_constant", -1), ("temperature", 2.1)),
    *(("repair_attempts", 6), ("concurrency", 0), ("max_tokens", 15)),
]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"team_size": 0}, "team_size must be at least 1, not 0"),
        *(({name: value}, f"{name} must be ") for name, value in OUT_OF_RANGE),
        ({"scale": "ten"}, "scale must be a whole number, not 'ten'"),
        (
            {"missing_policy": "constant", "missing_constant": 11},
            "11.0 is above the highest score, 10: ",
        ),
        (
            {"missing_policy": "constant", "missing_constant": 4, "scale": 3},
            "win by a missing score; give",
        ),
        (
            {"ensemble": "max"},
            "there is no ensemble 'max'; there are sum, reciprocal_rank, rrf, assess",
        ),
        ({"ensemble": "sums"}, "there is no ensemble 'sums'; did you mean 'sum'?"),
        ({"ensemble": None}, "ensemble must be a text, not None"),
        ({"preset": "papers"}, "preset must be 'paper' or 'reference'"),
        ({"scoring": "expcted"}, "scoring='expcted': there is no scoring 'expcted'; did you mean"),
        ({"scoring": "mean"}, "there are integer, expected, peak, per_criterion"),
        ({"scales": 10}, "there is no option 'scales'; did you mean 'scale'?"),
        ({"zzz": 1}, "there is no option 'zzz'; see RankerConfig for all options"),
        ({"scoring": "expected", "labels": ("Yes",)}, "labels=('Yes',): give at least two labels"),
        ({"scoring": "expected", "labels": ("a", " A ")}, "all different"),
        ({"scoring": "expected", "labels": ("a", " ")}, "none empty"),
        ({"scoring": "expected", "labels": "No,Yes"}, "labels must be a list"),
        ({"labels": NO_YES}, "or \"peak\", not with 'integer'"),
        ({"criteria": "dataset"}, 'criteria="dataset" needs dataset='),
        ({"criteria": "dataset", "dataset": " "}, 'criteria="dataset" needs dataset='),
        (
            {"criteria": "none", "scoring": "per_criterion"},
            'scoring="per_criterion" needs criteria',
        ),
    ],
)
def test_impossible_values_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        RankerConfig(**options)
    assert message in str(caught.value)
    with pytest.raises(ConfigError):
        RankerConfig.of(RankerConfig(), options)


def test_nothing_that_stands_in_is_above_the_highest_score() -> None:
    # The reference's 5 for a score that cannot be read, on scales that end below it.
    assert RankerConfig(preset="reference").rule.constant == 5
    assert RankerConfig(preset="reference", scale=3).rule.constant == 3
    assert RankerConfig(preset="reference", scale=3).recorded()["missing_constant"] == 3
    labels = RankerConfig(preset="reference", scoring="expected", labels=NO_YES)
    assert labels.rule.constant == 1


def test_replacing_fields_keeps_what_was_set_and_nothing_else() -> None:
    config = RankerConfig.of(RankerConfig(scale=20), {"depth": 5})
    assert config.model_fields_set == {"scale", "depth"}
    assert (config.scale, config.depth) == (20, 5)
    assert RankerConfig.of(None, {"depth": 5}) == RankerConfig(depth=5)
    assert RankerConfig.of(config, {}) == config


def test_another_preset_takes_the_former_ones_values_with_it() -> None:
    reference = RankerConfig(preset="reference", scale=20, repair_attempts=2)
    back = RankerConfig.of(reference, {"preset": "paper"})
    assert back == RankerConfig(preset="paper", scale=20, repair_attempts=2)
    again = RankerConfig.of(back, {"preset": "reference"})
    assert again == reference
