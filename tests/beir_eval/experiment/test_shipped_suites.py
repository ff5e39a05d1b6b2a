"""The suites that come with the package: the paper's tables and figures, row by row."""

from __future__ import annotations

import re

import pytest

from beir_eval.experiment.run_folder import SuiteNote
from beir_eval.experiment.suite import RankerSpec, load_suite
from beir_eval.measures.paper import paper_tables, paper_value
from mcranker.config import RankerConfig

TWO_SETS = ["trec-covid", "touche"]


def note(spec: RankerSpec) -> SuiteNote:
    """The ranker's place in its suite."""
    assert spec.note is not None
    return spec.note


@pytest.mark.parametrize("name", ["table1", "table2", "table3", "table4"])
def test_a_table_has_the_papers_rows_under_their_own_names(name: str) -> None:
    suite = load_suite(name)
    table = note(suite.rankers[0]).paper_table
    assert table is not None
    assert table.startswith("table_5_and_1" if name == "table1" else f"table_{name[-1]}_")
    ours = [each for each in suite.rankers if not each.ranker.startswith(("qg", "rg_"))]
    labels = [each.label for each in ours]
    assert labels == [note(each).paper_row for each in ours]
    # Of table 5 only those rows that these rankers make: DIRECT's and the teams'.
    expected = [row for row in paper_tables()[table] if row.startswith(("DIRECT", "MC"))]
    assert labels == expected


def test_fig2_counts_recruits_beside_the_nlp_scientist() -> None:
    suite = load_suite("fig2")
    assert suite.figure is not None
    assert (suite.figure.kind, suite.figure.paper) == ("line", "fig_2")
    assert [note(each).x for each in suite.rankers] == [0, 1, 2, 3, 4]
    for each in suite.rankers:
        config = RankerConfig(**each.options)
        assert config.nlp_scientist
        assert config.team_size - 1 == note(each).x
    assert [note(each).paper_row for each in suite.rankers] == [
        "MC: NLP scientist",
        "MC: NLP scientist + 1 recruit",
        "MC: NLP scientist + 2 recruits",
        None,
        None,
    ]


def test_fig4_puts_models_into_roles() -> None:
    suite = load_suite(
        "fig4", models={"strong": "openai:S", "small": "openai:L", "other": "local:O"}
    )
    assert suite.figure is not None
    assert (suite.figure.kind, suite.figure.paper) == ("bars", "fig_4")
    assert rows_of_models(suite.rankers) == [
        ("direct", "openai:S", None),
        ("mcranker", "openai:S", None),
        ("direct", "openai:L", None),
        ("mcranker", "openai:L", None),
        ("mcranker", "openai:L", "openai:S"),
        ("direct", "local:O", None),
        ("mcranker", "local:O", None),
    ]
    assert [note(each).x for each in suite.rankers] == [each.label for each in suite.rankers]
    assert [note(each).paper_row for each in suite.rankers[:2]] == ["DIRECT(0,10)", "MCRanker"]
    assert {note(each).paper_row for each in suite.rankers[2:]} == {None}


def rows_of_models(rankers: tuple[RankerSpec, ...]) -> list[tuple[str, object, object]]:
    """(ranker, model, model that recruits and writes criteria, if another) of every ranker."""
    found = []
    for each in rankers:
        recruiter = each.options.get("recruiter_model")
        assert recruiter == each.options.get("criteria_model")
        assert set(each.options) <= {"model", "recruiter_model", "criteria_model"}
        found.append((each.ranker, each.options["model"], recruiter))
    return found


def test_numbers_in_descriptions_are_the_papers() -> None:
    rows, criteria, dbc = "table_5_and_1", "table_2_criteria", "table_3_dataset_criteria"
    tables: dict[str, list[tuple[str, str, str | None, str]]] = {
        "table5": [
            (rows, row, None, "avg")
            for row in (
                "RankGPT (GPT-4)",
                "RankT5 (fine-tuned T5 XL)",
                "MC: NLP scientist + 2 recruits",
            )
        ],
        "table1": [
            (rows, row, None, "avg") for row in ("MC: NLP scientist + 2 recruits", "DIRECT(0,10)")
        ],
        "table2": [
            (criteria, "DIRECT(0,10)+criteria", "DIRECT(0,10)", "touche"),
            *((criteria, "MCRanker", "MCRanker without criteria", each) for each in TWO_SETS),
        ],
        "table3": [(dbc, "MCRanker", "MCRanker-DBC", each) for each in TWO_SETS],
        "table4": [
            ("table_4_ensemble", row, None, "trec-covid")
            for row in ("MCRanker", "MCRanker-assessor", "MCRanker-RE")
        ],
    }
    for name, numbers in tables.items():
        said = re.findall(r"\d+\.\d\d", load_suite(name).description)
        expected = [
            (paper_value(table, row, column) or 0)
            - ((paper_value(table, less, column) or 0) if less else 0)
            for table, row, less, column in numbers
        ]
        assert said == [f"{100 * number:.2f}" for number in expected], name
