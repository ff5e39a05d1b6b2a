"""The paper's numbers as they come with the package."""

from __future__ import annotations

import math

import pytest

from beir_eval.errors import SuiteError
from beir_eval.measures import paper


def test_numbers_are_those_of_the_tables() -> None:
    assert paper.paper_value("table_5_and_1", "BM25", "scifact") == 0.6789
    assert paper.paper_value("table_5_and_1", "MC: NLP scientist + 2 recruits", "avg") == 0.5142
    assert paper.paper_value("table_2_criteria", "DIRECT(0,10)+criteria", "touche") == 0.3046
    assert paper.paper_value("table_3_dataset_criteria", "MCRanker-DBC", "trec-covid") == 0.8228
    assert paper.paper_value("table_4_ensemble", "MCRanker-RE", "touche") == 0.3073


def test_what_the_paper_has_not_is_none_and_an_unknown_table_an_error() -> None:
    assert paper.paper_value("table_4_ensemble", "MCRanker", "scifact") is None
    assert paper.paper_value("table_5_and_1", "MC: 3 recruits", "scifact") is None
    with pytest.raises(SuiteError, match="'table_9': the paper's tables here are table_5_and_1, "):
        paper.paper_value("table_9", "BM25", "scifact")


def test_averages_are_those_of_the_eight_data_sets() -> None:
    # The table's own average column; two decimals, of which the last may be cut or rounded.
    for row in paper.paper_tables()["table_5_and_1"]:
        values = [paper.paper_value("table_5_and_1", row, each) for each in paper.DATASETS]
        known = [value for value in values if value is not None]
        average = paper.paper_value("table_5_and_1", row, "avg")
        assert average is not None
        assert len(known) == 8
        assert math.fsum(known) / 8 == pytest.approx(average, abs=1.01e-4), row


def test_queries_are_those_of_the_authors() -> None:
    assert [paper.paper_queries(each) for each in paper.DATASETS] == [
        *(50, 49, 57, 97, 400, 300, 249, 323)
    ]
    assert paper.paper_queries("mini") is None
