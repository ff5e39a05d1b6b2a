import logging
import multiprocessing
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from mcranker.retrieval.vectors import Vector, VectorCache, default_vectors_path, vectors_in

DIMENSIONS = 4
TURNS = 20


def vector(place: int) -> Vector:
    values = np.zeros(DIMENSIONS, np.float16)
    values[place % DIMENSIONS] = 1.0
    return Vector(values, place)


def cache(path: Path, *, encoder: str = "a", most: int = 1000) -> VectorCache:
    return VectorCache(path, encoder=encoder, dimensions=DIMENSIONS, most=most)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "vectors.sqlite"


def test_what_was_kept_is_found_again_by_another_cache_of_the_file(path: Path) -> None:
    first = cache(path)
    first.keep([("one", vector(1)), ("\ud800", vector(2))])
    first.close()
    second = cache(path)
    found = second.find(["one", "two", "\ud800"])
    second.close()
    assert found.keys() == {"one", "\ud800"}
    assert found["one"].values.tolist() == [0.0, 1.0, 0.0, 0.0]
    assert found["one"].tokens == 1
    assert vectors_in(path) == 2


def test_more_texts_than_one_look_up_takes(path: Path) -> None:
    held = cache(path, most=10_000)
    held.keep([(str(number), vector(number)) for number in range(1200)])
    assert len(held.find([str(number) for number in range(2000)])) == 1200
    held.close()


def test_the_oldest_make_room(path: Path) -> None:
    held = cache(path, most=100)
    for number in range(101):
        held.keep([(str(number), vector(number))])
    # The 101st takes the oldest tenth with it, and one more: 90 are left.
    assert vectors_in(path) == 90
    assert not held.find([str(number) for number in range(11)])
    assert len(held.find([str(number) for number in range(11, 101)])) == 90
    held.close()


@pytest.mark.parametrize(
    "blob", [b"", b"1234", np.full(DIMENSIONS, 1.0, np.float16).tobytes(), "text", None]
)
def test_a_vector_that_cannot_be_one_is_not_found(path: Path, blob: object) -> None:
    held = cache(path)
    held.keep([("one", vector(1)), ("two", vector(2))])
    held.close()
    with sqlite3.connect(path) as connection:
        if blob is None:
            connection.execute("UPDATE vectors SET tokens = 'many' WHERE id = 1")
        else:
            connection.execute("UPDATE vectors SET vector = ? WHERE id = 1", (blob,))
    connection.close()
    assert held.find(["one", "two"]).keys() == {"two"}
    held.keep([("one", vector(3))])  # and is put right
    assert held.find(["one"])["one"].tokens == 3
    held.close()


def other_database(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE mine (x)")
    connection.close()


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(b"no database at all, but long enough to be read as one"),
        lambda path: path.mkdir(),
        other_database,
    ],
)
def test_a_file_that_cannot_be_used_is_told_once_and_left_alone(
    path: Path, damage: object, caplog: pytest.LogCaptureFixture
) -> None:
    path.parent.mkdir()
    assert callable(damage)
    damage(path)
    before = path.read_bytes() if path.is_file() else b""
    held = cache(path)
    with caplog.at_level(logging.WARNING):
        assert held.find(["one"]) == {}
        held.keep([("one", vector(1))])
        assert held.find(["one"]) == {}
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert str(path) in caplog.text
    assert "MCRANKER_VECTORS" in caplog.text
    assert (path.read_bytes() if path.is_file() else b"") == before
    held.close()


def write(path: Path, start: int) -> None:
    held = cache(path)
    for number in range(start, start + TURNS):
        held.keep([(str(number), vector(number))])
    held.close()


def test_processes_write_at_the_same_time(path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=write, args=(path, 10 * place)) for place in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    # 0 to 19, 10 to 29 and 20 to 39: what two have written is there once.
    assert vectors_in(path) == 40


def test_where_vectors_are_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MCRANKER_CACHE", str(tmp_path))
    assert default_vectors_path() is None  # tests keep none
    monkeypatch.setenv("MCRANKER_VECTORS", "OFF")
    assert default_vectors_path() is None
    monkeypatch.setenv("MCRANKER_VECTORS", "")
    assert default_vectors_path() == tmp_path / "vectors.sqlite"
    monkeypatch.setenv("MCRANKER_VECTORS", "~/mine.sqlite")
    assert default_vectors_path() == Path.home() / "mine.sqlite"
