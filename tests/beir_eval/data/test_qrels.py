"""Files of judgements: BEIR's form, TREC's, and what is wrong with the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from beir_eval import DatasetError
from beir_eval.data.datasets import read_qrels
from mcranker.inputs.grades import HIGHEST_GRADE

EXPECTED = {"q1": {"a": 2, "b": 0}, "q2": {"a": -1}}


@pytest.mark.parametrize(
    "text",
    [
        "query-id\tcorpus-id\tscore\nq1\ta\t2\nq1\tb\t0\n\nq2\ta\t-1\n",
        "q1\ta\t2\nq1\tb\t0\nq2\ta\t-1",
        "q1 0 a 2\nq1 Q0 b 0\r\nq2 0 a -1\n",
        "\ufeffq1 0 a 2\nq1 0 b 0\nq1 0 b 0\nq2 0 a -1\n",
    ],
)
def test_forms(text: str, tmp_path: Path) -> None:
    file = tmp_path / "qrels.tsv"
    file.write_bytes(text.encode())

    assert read_qrels(file) == EXPECTED


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"q1 a\n", r"qrels:1: 2 columns; each line of judgements has three"),
        (b"q1 0 a 2\nq1 b 0\n", r"qrels:2: 3 columns; each line"),
        *(
            (f"q1 a {grade}\n".encode(), f"qrels:1: grade '{grade}' is no whole number")
            for grade in ("1.5", "high", "1e3", "0x1", "nan", "1_0", "\u0663")
        ),
        (b"q1 a " + b"9" * 5000, "qrels:1: grade .* is no whole number"),
        (f"q1 a {HIGHEST_GRADE + 1}\n".encode(), "qrels:1: grade .* is out of range"),
        (f"q1 a {-HIGHEST_GRADE - 1}\n".encode(), "qrels:1: grade .* is out of range"),
        (b"q1 a 1\nq1 a 2\n", r"qrels:2: query 'q1' and document 'a' were given grade 1 before"),
        (b"query-id corpus-id score\n", r"qrels: no judgement in it"),
        (b"q1 \xff 1\n", r"qrels:1: not UTF-8 \(byte 4 of the line\); save it"),
    ],
)
def test_bad_files(content: bytes, complaint: str, tmp_path: Path) -> None:
    (tmp_path / "qrels").write_bytes(content)

    with pytest.raises(DatasetError, match=complaint):
        read_qrels(tmp_path / "qrels")


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"none: cannot be read: No such file"):
        read_qrels(tmp_path / "none")
