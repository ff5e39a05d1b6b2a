"""Folders of runs and data sets: names that every file system takes."""

from __future__ import annotations

import pytest

from beir_eval.experiment.suite_form import dataset_folder_name, folder_name


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("DIRECT(0,10)", "direct-0-10"),
        ("MC: NLP scientist + 2 recruits", "mc-nlp-scientist-2-recruits"),
        ("../Émile & Zoë/..", "emile-zoe"),
        ("x" * 79 + " yz", "x" * 79),
        ("x" * 100, "x" * 80),
    ],
)
def test_folder_names(label: str, name: str) -> None:
    assert folder_name(label) == name


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("trec-covid", "trec-covid"),
        ("data", "data"),
        ("../../etc", "etc"),
        ("Köln: Sätze", "koln-satze"),
    ],
)
def test_folders_of_data_sets(name: str, folder: str) -> None:
    assert dataset_folder_name(name) == folder


def test_a_data_set_without_latin_letters_has_a_folder_of_its_own() -> None:
    one, other = dataset_folder_name("質問"), dataset_folder_name("回答")
    assert one != other
    assert one.startswith("dataset-")
    assert one.isascii()
