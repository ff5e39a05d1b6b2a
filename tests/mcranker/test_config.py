"""The configuration: presets, what does not go together, and defaults for weak models."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcranker.config import NO_YES, PRESETS, WEAK_MODEL_DEFAULTS, RankerConfig
from mcranker.errors import ConfigError
from mcranker.llm.chat import Capabilities
from mcranker.options import RankerOptions

WEAK = Capabilities(json_schema=True, label_logprobs=True, weak=True)
STRONG = Capabilities(json_schema=True, label_logprobs=True)

# The value in the paper's preset and the one in the reference's.
DIFFERENCES = {
    "preset": ("paper", "reference"),
    "example_rank": (1, 3),
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


def test_the_typed_options_are_made_of_the_fields() -> None:
    typed = get_type_hints(RankerOptions)
    fields = {name: each.annotation for name, each in RankerConfig.model_fields.items()}
    assert typed == {name: fields[name] for name in fields if name != "team_size"}


def test_every_field_says_what_it_is_for() -> None:
    for name, field in RankerConfig.model_fields.items():
        assert field.description, name
        assert field.description.endswith("."), name


def test_presets_cannot_be_changed() -> None:
    for values in (PRESETS, PRESETS["reference"], WEAK_MODEL_DEFAULTS):
        with pytest.raises(TypeError):
            values["depth"] = 1  # type: ignore[index]  # what the test is about
    with pytest.raises(ValueError, match="frozen"):
        RankerConfig().depth = 1  # type: ignore[misc]  # what the test is about


OUT_OF_RANGE = [
    *(("team_size", 21), ("scale", 0), ("scale", 101), ("depth", 0), ("example_rank", 0)),
    *(("max_passage_words", 0), ("first_stage_weight", 1.1), ("first_stage_weight", math.nan)),
    *(("missing_constant", math.inf), ("missing_constant", -1), ("temperature", 2.1)),
    *(("repair_attempts", 6), ("concurrency", 0), ("max_tokens", 15)),
]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"team_size": 0}, "team_size=0: Input should be greater than or equal to 1"),
        *(({name: value}, f"{name}={value}: ") for name, value in OUT_OF_RANGE),
        ({"scale": "ten"}, "scale='ten': Input should be a valid integer"),
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
        ({"ensemble": None}, "ensemble=None: Input should be a valid string"),
        ({"preset": "papers"}, "preset='papers': Input should be 'paper' or 'reference'"),
        ({"scoring": "expcted"}, "scoring='expcted': there is no scoring 'expcted'; did you mean"),
        ({"scoring": "mean"}, "there are integer, expected, peak, per_criterion"),
        ({"scales": 10}, "there is no option 'scales'; did you mean 'scale'?"),
        ({"zzz": 1}, "there is no option 'zzz'; see RankerConfig for all options"),
        ({"scoring": "expected", "labels": ("Yes",)}, "labels=('Yes',): give at least two labels"),
        ({"scoring": "expected", "labels": ("a", " A ")}, "all different"),
        ({"scoring": "expected", "labels": ("a", " ")}, "none empty"),
        ({"scoring": "expected", "labels": "No,Yes"}, "labels='No,Yes': "),
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
    # A weak model's labels go where they would contradict what was set.
    weak = RankerConfig(missing_policy="constant", missing_constant=4).for_model(
        Capabilities(weak=True)
    )
    assert (weak.labels, weak.rule.constant) == ((), 4)


def test_a_prompt_folder_may_be_a_path() -> None:
    assert RankerConfig(prompts=Path("my") / "prompts").prompts == str(Path("my") / "prompts")


@pytest.mark.parametrize(
    ("config", "top", "labels"),
    [
        (RankerConfig(), 10, tuple(map(str, range(11)))),
        (RankerConfig(scale=3), 3, ("0", "1", "2", "3")),
        (RankerConfig(scoring="expected", labels=NO_YES), 1, ("No", "Yes")),
        (RankerConfig(scoring="expected", labels=["a", "b", "c"]), 2, ("a", "b", "c")),
    ],
)
def test_labels_and_the_highest_score(
    config: RankerConfig, top: int, labels: tuple[str, ...]
) -> None:
    assert (config.top, config.all_labels) == (top, labels)


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


def test_weak_models_get_their_defaults() -> None:
    weak = RankerConfig().for_model(WEAK)
    changed = {
        name: value
        for name, value in weak.model_dump().items()
        if value != RankerConfig().model_dump()[name]
    }
    assert changed == {
        "prompts": "compact",
        "recruiting": "library",
        "criteria": "library",
        "scoring": "expected",
        "labels": ("No", "Yes"),
        "max_passage_words": 100,
        "first_stage_weight": 0.95,
    }
    assert changed == WEAK_MODEL_DEFAULTS
    assert weak.for_model(WEAK) == weak


def test_other_models_and_the_reference_keep_the_configuration() -> None:
    config = RankerConfig(scale=5)
    assert config.for_model(STRONG) is config
    reference = RankerConfig(preset="reference")
    assert reference.for_model(WEAK) is reference


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({"prompts": "paper"}, {"prompts": "paper", "criteria": "library"}),
        ({"recruiting": "invent"}, {"recruiting": "invent", "criteria": "library"}),
        ({"criteria": "query"}, {"criteria": "query", "recruiting": "library"}),
        ({"criteria": "none"}, {"criteria": "none", "scoring": "expected", "labels": NO_YES}),
        ({"max_passage_words": None}, {"max_passage_words": None, "prompts": "compact"}),
        ({"max_passage_words": 40}, {"max_passage_words": 40}),
        ({"labels": ("a", "b", "c"), "scoring": "expected"}, {"labels": ("a", "b", "c")}),
        ({"labels": (), "scoring": "expected"}, {"labels": (), "scale": 10}),
        # Yes and No would contradict what was asked for
        ({"scoring": "integer"}, {"scoring": "integer", "labels": ()}),
        ({"scoring": "per_criterion"}, {"scoring": "per_criterion", "labels": ()}),
        ({"scale": 5}, {"scoring": "expected", "labels": (), "scale": 5}),
        ({"ensemble": "assessor"}, {"scoring": "expected", "labels": ()}),
        # one reply for several passages has no probabilities
        ({"passages_per_call": 10}, {"scoring": "integer", "labels": (), "scale": 10}),
        ({"questions": "per_persona"}, {"scoring": "integer", "labels": ()}),
        ({"first_stage_weight": 0.0}, {"first_stage_weight": 0.0}),
    ],
)
def test_what_was_set_beats_the_weak_defaults(
    options: dict[str, Any], kept: dict[str, Any]
) -> None:
    weak = RankerConfig(**options).for_model(WEAK).model_dump()
    assert {name: weak[name] for name in kept} == kept


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "preset": st.sampled_from(["paper", "reference"]),
            "criteria": st.sampled_from(["query", "dataset", "library", "none"]),
            "scoring": st.sampled_from(["integer", "expected", "per_criterion"]),
            "ensemble": st.sampled_from(["sum", "reciprocal_rank", "rrf", "assessor"]),
            "labels": st.sampled_from([(), NO_YES]),
            "scale": st.integers(1, 100),
            "recruiting": st.sampled_from(["invent", "library"]),
            "dataset": st.just("news"),
            "max_passage_words": st.none() | st.integers(1, 9),
        },
    )
)
def test_weak_defaults_never_overrule_or_contradict(options: dict[str, Any]) -> None:
    try:
        config = RankerConfig(**options)
    except ConfigError:
        return
    weak = config.for_model(WEAK).model_dump()
    assert {name: weak[name] for name in options} == {
        name: config.model_dump()[name] for name in options
    }
