"""Files that are as they should be, and others that are not, for `tests.attack.bad_inputs`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from personas import library, save
from tests.attack.commands import written
from tests.support.beir_folder import write_folder
from tests.support.inspection_report import data_of
from tests.support.run_folders import make_run_folders, no_suite

__all__ = ["write_files"]

GOOD = '{"id": "d1", "text": "one"}\n'
FILES: dict[str, str | bytes] = {
    "docs.jsonl": GOOD + '{"id": "d2", "text": "two"}\n',
    "queries.jsonl": '{"id": "q1", "text": "mask"}\n{"id": "q2", "text": "air"}\n',
    "corpus.jsonl": '{"id": "d3", "text": "x"}\n{"id": "d8", "text": "y"}\n',
    "run.trec": "q1 Q0 d3 1 2.0 x\nq1 Q0 d8 2 1.0 x\n",
    "run2.trec": "q1 Q0 d8 1 2.0 y\nq1 Q0 d3 2 1.0 y\n",
    "qrels.tsv": "query-id\tcorpus-id\tscore\nq1\td3\t1\n",
    "suite.toml": 'title = "T"\ndatasets = ["tiny"]\n[models]\njudge = "openai:x"\n'
    '[[rankers]]\nlabel = "a"\nranker = "direct"\nscale = 20\nmodel = "judge"\n',
    "bad.toml": "title = ",
    "latin.toml": b'title = "caf\xe9"\n',
    "foreign.trec": "q9 Q0 d3 1 2.0 x\n",
    "bad.trec": "q1 Q0 d3 first 2.0 x\n",
    "empty": "",
    "empty.yaml": "",
    "broken.yaml": "members: [\n",
    "blank.jsonl": "\n \n",
    "latin.jsonl": GOOD.encode() + b'{"id": "d2", "text": "caf\xe9"}\n',
    "utf16.jsonl": GOOD.encode("utf-16"),
    "zero.bin": b"\0" * 1000,
    "cut.jsonl": GOOD + '{"id": "d2", "te',
    "numbers.jsonl": "1\n2\n",
    "twice.jsonl": GOOD * 2,
    "noid.jsonl": '{"text": "one"}\n',
    "notext.jsonl": '{"id": "d1"}\n',
    "boolid.jsonl": '{"id": true, "text": "one"}\n',
    "surrogate.jsonl": '{"id": "\\ud800", "text": "a"}\n',
    "bigscore.jsonl": '{"id": "d1", "text": "one", "score": 1e39}\n',
    "nanscore.jsonl": '{"id": "d1", "text": "one", "score": NaN}\n',
    "deep.jsonl": "[" * 100_000 + "\n",
    "deep.json": "[" * 100_000 + "]" * 100_000,
    "digits.jsonl": '{"id": ' + "9" * 5000 + ', "text": "one"}\n',
    "number.json": "7\n",
    "columns.tsv": "d1\tone\nd2\ttwo\tthree\n",
    "score.tsv": "id\ttext\tscore\nd1\tone\thigh\n",
    "grade.tsv": f"query-id\tcorpus-id\tscore\nq1\td3\t1{'0' * 22}\n",
    "adir/nothing.txt": "",
}


def write_files(place: Path) -> Path:
    """Write them all below `place`."""
    for name, content in FILES.items():
        written(place / name, content)
    saved = json.dumps(data_of())
    written(place / "saved.json", saved)
    written(place / "cut.json", saved[: len(saved) // 2])
    make_run_folders(place / "runs", suite=no_suite)
    for name in ("tiny", "nocorpus", "noqueries", "grades", "twice", "badgz"):
        write_folder(place / name)
    if sys.platform == "linux":  # other systems have no such names
        write_folder(place / "\udcfftiny")
        save(library.team("entity_lookup"), place / "\udcffteam.yaml")
    (place / "nocorpus" / "corpus.jsonl").unlink()
    (place / "noqueries" / "queries.jsonl").unlink()
    written(place / "grades" / "qrels" / "test.tsv", FILES["grade.tsv"])
    written(place / "twice" / "corpus.jsonl", '{"_id": "d1", "text": "x"}\n' * 2)
    (place / "badgz" / "corpus.jsonl").rename(place / "badgz" / "corpus.jsonl.gz")
    return place
