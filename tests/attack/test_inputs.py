"""Bad inputs of every kind to every command: one line that names them, and no traceback."""

from __future__ import annotations

import copy
import io
import json
import math
import os
import random
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from beir_eval import FirstStage, SettingError
from beir_eval.measures.significance import confidence_intervals
from mcranker import ConfigError, InputError, MCRanker, RankerConfig, Ranking, ScriptedChat
from mcranker.inputs import as_passages
from personas import PersonasError
from personas.errors import shown
from personas.report import render_inspection
from personas.report.terminal.terminal import print_inspection
from tests.attack.bad_files import write_files
from tests.attack.bad_inputs import BAD, parsed
from tests.attack.commands import call, refused, written
from tests.attack.scale import scaled
from tests.support.cli_support import Connected, scripted
from tests.support.inspection_report import data_of

HUGE = 10**22
Keys: TypeAlias = tuple[str | int, ...]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_files(tmp_path_factory.mktemp("files"))


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, place: Path) -> Connected:
    here = shutil.copytree(place, tmp_path / "here")
    monkeypatch.chdir(here)
    return scripted(monkeypatch, tmp_path)


@pytest.mark.usefixtures("model")
@pytest.mark.parametrize("line", BAD)
def test_bad_inputs(line: str) -> None:
    command, args, words = parsed(line)
    assert words in refused(command, *args)


def test_the_table_is_long() -> None:
    assert len(set(BAD)) == len(BAD) >= 150


# --- numbers and texts that Python hands over -----------------------------------------------

WHOLE = (
    *(
        "team_size",
        "scale",
        "repair_attempts",
        "depth",
        "example_rank",
        "max_passage_words",
        "seed",
    ),
    *(
        "max_tokens",
        "max_score_tokens",
        "cache_variant",
        "top_k",
        "concurrency",
        "query_concurrency",
    ),
    "max_calls",
)
REAL = (
    *("missing_constant", "first_stage_weight", "temperature", "requests_per_minute"),
    *("tokens_per_minute", "max_cost"),
)


@pytest.mark.parametrize("name", WHOLE)
def test_whole_numbers_of_a_configuration_have_64_bits(name: str) -> None:
    odd: tuple[Any, ...] = (HUGE, -HUGE, 10**5000, math.nan, math.inf, "x", [], {})
    for value in odd:
        with pytest.raises(ConfigError, match=f"^{name}="):
            RankerConfig.of(None, {name: value})
    assert RankerConfig(seed=2**63 - 1).seed == 2**63 - 1


@pytest.mark.parametrize("name", REAL)
def test_numbers_of_a_configuration_are_finite(name: str) -> None:
    odd: tuple[Any, ...] = (math.nan, math.inf, -math.inf, 10**400, -1, "x", [])
    for value in odd:
        with pytest.raises(ConfigError, match=f"^{name}="):
            RankerConfig.of(None, {name: value})


def test_texts_of_a_configuration_can_be_sent() -> None:
    odd: tuple[dict[str, Any], ...] = (
        {"title_separator": "\udcff"},
        {"dataset": "\ud800", "criteria": "dataset"},
        {"labels": ("a", "\udcff"), "scoring": "expected"},
        {"forbid": ("\udcff",)},
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


def test_ids_and_grades_that_python_hands_over(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a number of over 64 bits; give a string"):
        as_passages([{"id": 10**5000, "text": "x"}])
    odd: tuple[Any, ...] = (HUGE, -HUGE, 10**5000, 1.5, "x", True, None, math.nan)
    for grade in odd:
        with pytest.raises(InputError, match=r"the grade of 'a' is .*; give a whole number"):
            Ranking.from_dict(data_of()).to_html(tmp_path / "page.html", grades={"a": grade})


def test_scores_of_passages_are_finite_in_single_precision() -> None:
    with MCRanker(model=ScriptedChat(lambda _: ""), ledger=None) as ranker:
        for score in (1e39, -1e39, math.nan, math.inf, 10**400, "1", True, 10**5000):
            with pytest.raises(InputError, match=r"docs\[0\] has the score .*; give a finite"):
                ranker.rank("q", [{"id": "a", "text": "b", "score": score}])


@pytest.mark.parametrize(
    "options",
    [
        *({"depth": value} for value in (0, 2**31, HUGE, 1.5, "5", True, None)),
        *({"k1": value} for value in (-1, math.nan, math.inf, 10**400, "1", None)),
        *({"b": value} for value in (-1, 2, math.nan, "1")),
    ],
)
def test_settings_of_the_first_stage(options: dict[str, Any]) -> None:
    ((name, value),) = options.items()
    with pytest.raises(SettingError, match=f"^{name}=.* is out of range; give a") as caught:
        FirstStage(**options)
    assert shown(value) in str(caught.value)


@pytest.mark.parametrize(
    "options",
    [
        *({"level": value} for value in (0, 1, math.nan, math.inf, 10**400, "x", None)),
    ],
)
def test_settings_of_intervals(options: dict[str, Any]) -> None:
    with pytest.raises(SettingError, match="is out of range"):
        confidence_intervals({"a": {"q": 0.5}}, **options)


def test_values_shown() -> None:
    nested: list[Any] = []
    for _ in range(100_000):
        nested = [nested]
    assert shown(nested) == "[[[...]]]"
    assert shown(10**5000) == "<16,610 bits>"
    assert len(shown("x" * 1000)) == 80
    assert shown(1.5) == "1.5"


def test_models_and_servers_whose_names_are_not_utf_8(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    for args in (
        ("rank", "q", "a", "--model", "openai:\udcff"),
        ("rank", "q", "a", "--model", "openai:x", "--base-url", "http://\udcff"),
        ("rank", "q", "a", "--model", "local:\udcff.gguf"),
        ("recruit", "q", "-o", "criteria_model=anthropic:\udcff"),
    ):
        assert "it is not UTF-8" in refused("mcranker", *args)
    found = call("mcranker", "doctor", "--model", "openai:\udcff")
    assert "openai:\\udcff' names no model" in found.stdout
    assert found.exit_code == 1
    monkeypatch.setenv("MCRANKER_MODEL", "openai:\udcff")
    assert "it is not UTF-8" in refused("mcranker", "rank", "q", "a")


@pytest.mark.parametrize("columns", ["0", "-1", "9" * 30, "abc", "", "10000"])
def test_a_width_that_is_none(columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:  # pytest reads it as well
        patch.setenv("COLUMNS", columns)
        result = call("mcranker", "models")
    assert result.exit_code == 0
    assert max(map(len, result.stdout.splitlines())) <= 110


# --- files that are none ----------------------------------------------------------------------


@pytest.mark.usefixtures("model")
def test_a_very_long_value_is_cut_in_the_line() -> None:
    written(Path("long.trec"), f"q1 Q0 {'d' * 100_000} 1 1 x\n" * 2)
    said = refused("beir-eval", "evaluate", "long.trec", "--qrels", "qrels.tsv")
    assert said.startswith("long.trec:2: document 'ddd")
    assert len(said) < 4_100


@pytest.mark.usefixtures("model")
def test_a_list_of_ids_may_be_longer_than_the_name_of_a_file() -> None:
    ids = f"q1,q2{300 * ','}"
    run = ("run", "--dataset", "tiny", "--ranker", "direct", "--queries", ids, "--output", "json")
    result = call("beir-eval", *run)
    assert result.exit_code == 0, result.stderr
    (found,) = json.loads(result.stdout)["results"]
    assert list(found["metrics"]["per_query"]["nDCG@10"]) == ["q1", "q2"]


@pytest.mark.skipif(sys.platform == "win32", reason="named pipes")
@pytest.mark.usefixtures("model")
def test_a_named_pipe_is_read_like_a_file_and_as_bounded() -> None:
    os.mkfifo("pipe.jsonl")

    def feed(*pieces: bytes) -> None:
        try:
            with Path("pipe.jsonl").open("wb") as pipe:
                pipe.writelines(pieces)
        except BrokenPipeError:
            pass

    for pieces, words in (
        ((b'{"id": "d1", ', b'"text": "x"}\n'), ""),
        ((b"x" * 1_000_000,) * 80, "pipe.jsonl:1: the line is longer than 64 MB"),
    ):
        writer = threading.Thread(target=feed, args=pieces)
        writer.start()
        if words:
            assert words in refused("mcranker", "rank", "q", "--docs", "pipe.jsonl")
        else:
            assert call("mcranker", "rank", "q", "--docs", "pipe.jsonl").exit_code == 0
        writer.join(timeout=30)
        assert not writer.is_alive()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that is full")
@pytest.mark.usefixtures("model")
@pytest.mark.parametrize("flag", ["--out", "--save", "--report"])
def test_a_disk_that_is_full(flag: str) -> None:
    said = refused("mcranker", "rank", "q", "a", flag, "/dev/full")
    assert "No space left" in said


# --- saved rankings ---------------------------------------------------------------------------


def _nested(value: Any, depth: int) -> Any:
    for _ in range(depth):
        value = [value] if depth % 2 else {"a": value}
    return value


REPLACEMENTS: tuple[Any, ...] = (
    *(None, True, 0, -1, 1, 2, HUGE, -HUGE, 10**400, 2**63, 3.5, 1e308, -1e308),
    *(math.nan, math.inf, -math.inf, "", "x", "10", "\ud800", "\x1b[31m\u202e", b"x"),
    *(
        [],
        {},
        [None],
        {"a": None},
        {"": []},
        {1: 2},
        ["a", "a"],
        _nested(0, 2000),
        _nested(0, 2001),
    ),
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
    assert [repr(ranking), ranking.cost, ranking.missing, ranking.skipped, ranking.usage]
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
    for path, value in chance.sample(cases, min(scaled(1000), len(cases))):
        data = _with(whole, path, value)
        for use in USES:
            try:
                use(data, tmp_path)
            except (InputError, PersonasError) as error:
                refusals.append(str(error))
    assert len(refusals) > scaled(1000)
    assert all(len(said) < 2_000 for said in refusals)


@pytest.mark.usefixtures("model")
def test_saved_rankings_that_are_cut_or_garbled() -> None:
    content = Path("saved.json").read_bytes()
    chance = random.Random(1)
    refusals = 0
    for number in range(scaled(150)):
        at = chance.randrange(len(content))
        flipped = bytearray(content)
        flipped[at] ^= 1 << chance.randrange(8)
        bad = written(Path("bad.json"), bytes(flipped) if number % 2 else content[:at])
        result = call("mcranker", "inspect", bad)
        if result.exit_code:
            refusals += 1
            assert "bad.json" in refused("mcranker", "inspect", bad)
    assert refusals > scaled(150) / 2


def test_scores_of_other_criteria_than_the_rubric_has() -> None:
    data = data_of()
    (name, *_), hit = data["personas"], data["hits"][0]
    hit["criteria"] = {name: {"Unheard of": 3.0}}
    with pytest.raises(InputError, match="scores of other criteria than"):
        Ranking.from_dict(data)
