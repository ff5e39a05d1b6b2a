"""Bad inputs of every kind to every command: one line that names them, and no traceback.

``COMMAND ARGS => WORDS`` in the table: the command must fail in one line that has the words. ``^``
is the byte 0xFF, which is no UTF-8.
"""

from __future__ import annotations

import copy
import io
import json
import math
import random
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from mcranker import ConfigError, InputError, MCRanker, RankerConfig, Ranking, ScriptedChat
from personas import PersonasError, library, save
from personas.report import render_inspection
from personas.report.terminal import print_inspection
from tests.support.beir_folder import write_folder
from tests.support.cli_support import Connected, scripted
from tests.support.commands import refused, written
from tests.support.inspection_report import data_of
from tests.support.run_folders import make_run_folders, no_suite
from tests.support.scale import scaled

HUGE = 10**22
BIG = "1" + 22 * "0"
LONG = 300 * "x"
Keys: TypeAlias = tuple[str | int, ...]
TABLE = f"""
# --- numbers ---
mcranker rank q a --depth {BIG} => {BIG}
mcranker rank q a -o temperature=nan => nan
mcranker rank q a --max-cost inf => inf
mcranker inspect saved.json --top {BIG} => {BIG}
mcranker ledger --remove --older-than nan => nan
beir-eval retrieve tiny --out o --b 1.5 => 1.5
beir-eval retrieve tiny --out o --depth {BIG} => {BIG}
beir-eval fuse run.trec run2.trec --out o --method wsum --param weights=1e400,1 => 1e400
beir-eval fuse run.trec run2.trec --out o.trec.gz => leave out '.gz'
mcranker compare "runs/scifact/DIRECT(0,10)" first-stage --passages 0 => 0
# --- words that are none ---
mcranker rank q a -o 'require=' => require
mcranker rank q a -o 'query_id=a b' --output trec => a b
mcranker ledger --older-than 3 => --remove
beir-eval run --dataset nowhere_at_all --ranker direct => nowhere_at_all
beir-eval run --dataset tiny --split odd --ranker direct => odd
beir-eval run --dataset tiny --ranker direct --queries q9 => q9
beir-eval run --dataset tiny --ranker direct --queries zero.bin => zero.bin
beir-eval run --dataset tiny --ranker direct --first-stage foreign.trec => foreign.trec
beir-eval run --dataset tiny --ranker direct --measures nDCG@{BIG} => {BIG}
beir-eval run bad.toml => bad.toml
beir-eval run latin.toml => latin.toml
beir-eval evaluate run.trec --qrels qrels.tsv --dataset tiny => --qrels
beir-eval evaluate run.trec run.trec --qrels qrels.tsv => run.trec
beir-eval report runs --baseline odd => odd
mcranker compare run.trec run2.trec => run.trec
personas report tiny --out o => tiny
# --- names that are too long for a file ---
mcranker rank q a -o prompts={LONG} => xxxx
beir-eval run --dataset tiny --ranker direct --out {LONG} => xxxx
# --- files ---
mcranker rank q --docs /dev/zero => /dev/zero
mcranker rank q --docs blank.jsonl => blank.jsonl
mcranker rank q --docs latin.jsonl => latin.jsonl:2
mcranker rank q --docs zero.bin => zero.bin
mcranker rank q --docs cut.jsonl => cut.jsonl:2
mcranker rank q --docs twice.jsonl => twice.jsonl:2
mcranker rank-run run.trec --queries noid.jsonl --corpus corpus.jsonl => noid.jsonl:1
mcranker rank q --docs bigscore.jsonl => bigscore.jsonl:1
mcranker rank q --docs deep.json => deep.json
mcranker rank q --docs surrogate.jsonl => surrogate.jsonl:1
mcranker rank q --docs columns.tsv => columns.tsv:2
mcranker rank-run run.trec --queries docs.jsonl --corpus corpus.jsonl => docs.jsonl
mcranker rank-run bad.trec --queries queries.jsonl --corpus corpus.jsonl => bad.trec:1
mcranker rank-run run.trec --queries queries.jsonl --corpus docs.jsonl => docs.jsonl
mcranker inspect docs.jsonl => docs.jsonl:1
mcranker inspect saved.json --query odd => odd
mcranker inspect saved.json --qrels grade.tsv => grade.tsv:2
mcranker inspect runs => runs
beir-eval evaluate bad.trec --qrels qrels.tsv => bad.trec:1
beir-eval evaluate run.trec --qrels grade.tsv => grade.tsv:2
beir-eval evaluate run.trec --dataset ./gone => ./gone
beir-eval retrieve nocorpus --out o => corpus.jsonl
beir-eval retrieve grades --out o => test.tsv:2
beir-eval retrieve twice --out o => corpus.jsonl:2
beir-eval retrieve badgz --out o => corpus.jsonl.gz
beir-eval report runs --out docs.jsonl/x => docs.jsonl
mcranker compare "runs/scifact/DIRECT(0,10)" bad.trec => bad.trec
personas show broken.yaml => broken.yaml
# --- bytes that are no UTF-8 ---
mcranker rank q --docs ^ => \\udcff
mcranker rank q a -o dataset=^ -o criteria=dataset => dataset
mcranker rank q a --team ^.yaml => \\udcff.yaml
beir-eval run --dataset tiny --ranker mcranker --team ^team.yaml --out o => \\udcff
"""
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
    "broken.yaml": "members: [\n",
    "blank.jsonl": "\n \n",
    "latin.jsonl": GOOD.encode() + b'{"id": "d2", "text": "caf\xe9"}\n',
    "zero.bin": b"\0" * 1000,
    "cut.jsonl": GOOD + '{"id": "d2", "te',
    "twice.jsonl": GOOD * 2,
    "noid.jsonl": '{"text": "one"}\n',
    "surrogate.jsonl": '{"id": "\\ud800", "text": "a"}\n',
    "bigscore.jsonl": '{"id": "d1", "text": "one", "score": 1e39}\n',
    "deep.jsonl": "[" * 100_000 + "\n",
    "deep.json": "[" * 100_000 + "]" * 100_000,
    "columns.tsv": "d1\tone\nd2\ttwo\tthree\n",
    "grade.tsv": f"query-id\tcorpus-id\tscore\nq1\td3\t1{'0' * 22}\n",
}


def write_files(place: Path) -> Path:
    """Write them all below `place`."""
    for name, content in FILES.items():
        written(place / name, content)
    saved = json.dumps(data_of())
    written(place / "saved.json", saved)
    written(place / "cut.json", saved[: len(saved) // 2])
    make_run_folders(place / "runs", suite=no_suite)
    for name in ("tiny", "nocorpus", "grades", "twice", "badgz"):
        write_folder(place / name)
    if sys.platform == "linux":  # other systems have no such names
        write_folder(place / "\udcfftiny")
        save(library.team("entity_lookup"), place / "\udcffteam.yaml")
    (place / "nocorpus" / "corpus.jsonl").unlink()
    written(place / "grades" / "qrels" / "test.tsv", FILES["grade.tsv"])
    written(place / "twice" / "corpus.jsonl", '{"_id": "d1", "text": "x"}\n' * 2)
    (place / "badgz" / "corpus.jsonl").rename(place / "badgz" / "corpus.jsonl.gz")
    return place


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_files(tmp_path_factory.mktemp("files"))


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, place: Path) -> Connected:
    monkeypatch.chdir(place)
    return scripted(monkeypatch, tmp_path)


@pytest.mark.usefixtures("model")
@pytest.mark.parametrize(
    "line", [each for each in TABLE.splitlines() if each and not each.startswith("#")]
)
def test_bad_inputs(line: str) -> None:
    given, _, words = line.partition(" => ")
    command, *args = shlex.split(given)
    assert words in refused(command, *(arg.replace("^", "\udcff") for arg in args))


# --- numbers and texts that Python hands over -----------------------------------------------

WHOLE = (
    "team_size scale repair_attempts depth example_rank max_passage_words seed max_tokens "
    "max_score_tokens cache_variant concurrency query_concurrency max_calls"
)
REAL = (
    "missing_constant first_stage_weight temperature requests_per_minute tokens_per_minute max_cost"
)


@pytest.mark.parametrize("name", f"{WHOLE} {REAL}".split())
def test_numbers_of_a_configuration_are_in_range(name: str) -> None:
    """Whole numbers have 64 bits, all others are finite."""
    odd: tuple[Any, ...] = (math.nan, math.inf, -math.inf, 10**400, "x", [])
    for value in (*odd, *((HUGE, -HUGE, {}) if name in WHOLE.split() else (-1,))):
        with pytest.raises(ConfigError, match=f"^{name} must be "):
            RankerConfig.of(None, {name: value})


def test_texts_of_a_configuration_can_be_sent() -> None:
    odd: tuple[dict[str, Any], ...] = (
        {"title_separator": "\udcff"},
        {"dataset": "\ud800", "criteria": "dataset"},
        {"labels": ("a", "\udcff"), "scoring": "expected"},
        {"require": ("\udcff",)},
        {"prompts": "\udcff"},
    )
    for options in odd:
        with pytest.raises(ConfigError, match="is not UTF-8"):
            RankerConfig(**options)
    configs: tuple[Any, ...] = (5, {}, "paper")
    for config in configs:
        with pytest.raises(ConfigError, match="is no RankerConfig; give one"):
            MCRanker(model=ScriptedChat(lambda _: ""), config=config)
    with pytest.raises(ConfigError, match="it is not UTF-8"):
        MCRanker(model="openai:\udcff")


# --- files that are none ----------------------------------------------------------------------


# --- saved rankings ---------------------------------------------------------------------------


REPLACEMENTS: tuple[Any, ...] = (
    *(None, True, 0, -1, 1, 2, HUGE, -HUGE, 10**400, 2**63, 3.5, 1e308, -1e308),
    *(math.nan, math.inf, -math.inf, "", "x", "10", "\ud800", "\x1b[31m\u202e", b"x"),
    *([], {}, [None], {"a": None}, {"": []}, {1: 2}, ["a", "a"]),
)


def _places(value: Any, path: Keys = ()) -> Iterator[Keys]:
    yield path
    entries: Any = value.items() if isinstance(value, dict) else ()
    if isinstance(value, list):
        entries = enumerate(value[:2])
    for key, inner in entries:
        yield from _places(inner, (*path, key))


def _with(data: Any, path: Keys, value: Any) -> Any:
    if not path:
        return value
    changed = copy.copy(data)
    changed[path[0]] = _with(data[path[0]], path[1:], value)
    return changed


def _use(ranking: Ranking) -> None:
    """Everything that a ranking can tell; what makes a run may find that an id cannot be in one."""
    assert len(list(ranking)) == len(ranking.ids)
    assert [repr(ranking), ranking.cost, ranking.missing, ranking.usage]
    json.loads(ranking.to_json())
    try:
        ranking.to_trec()
    except InputError:
        return


USES: tuple[Callable[[Any, Path], object], ...] = (
    lambda data, _: _use(Ranking.from_dict(data)),
    lambda data, folder: Ranking.from_dict(data).to_html(folder / "page.html"),
    lambda data, _: render_inspection(data).encode(),
    lambda data, _: print_inspection(data, file=io.StringIO()),
    lambda data, _: print_inspection(data, passage=1, file=io.StringIO()),
)


def test_saved_rankings_with_other_values_in_any_place(tmp_path: Path) -> None:
    """A value of another kind is refused by an error of this project, or does no harm."""
    whole = data_of()
    chance = random.Random(0)
    cases = [(path, value) for path in _places(whole) for value in REPLACEMENTS]
    refusals: list[str] = []
    for path, value in chance.sample(cases, min(scaled(100), len(cases))):
        data = _with(whole, path, value)
        for use in USES:
            try:
                use(data, tmp_path)
            except (InputError, PersonasError) as error:
                refusals.append(str(error))
    assert len(refusals) > scaled(100)
    assert all(len(said) < 2_000 for said in refusals)
