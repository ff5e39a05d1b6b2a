from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from mcranker.encoders.encoder import Vector, VectorStore, default_vectors_path

DIMENSIONS = 4
TURNS = 20


def vector(place: int) -> Vector:
    values = np.zeros(DIMENSIONS, np.float16)
    values[place % DIMENSIONS] = 1.0
    return Vector(values, place)


def store(folder: Path, *, mark: str = "a", most: int = 1000) -> VectorStore:
    return VectorStore(folder, mark=mark, most=most)


def keep(held: VectorStore, numbers: Sequence[int]) -> None:
    held.keep((str(number), vector(number)) for number in numbers)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "vectors"


def test_what_was_kept_is_found_again_by_another_store_of_the_folder(folder: Path) -> None:
    second = store(folder)
    assert second.find(["one"]) == {}
    store(folder).keep([("one", vector(1)), ("\ud800", vector(2)), ("", vector(3))])
    found = second.find(["one", "two", "\ud800", "", "one"])
    assert found.keys() == {"one", "\ud800", ""}
    assert found["one"].values.tolist() == [0.0, 1.0, 0.0, 0.0]
    assert (found["one"].tokens, second.dimensions) == (1, DIMENSIONS)
    assert store(folder, mark="b").find(["one"]) == {}
    assert VectorStore(folder, mark="a", dimensions=3).find(["one"]) == {}
    store(folder).keep([("one", vector(5))])
    assert second.find(["one"])["one"].tokens == 5


def test_the_oldest_make_room(folder: Path) -> None:
    held = store(folder, most=100)
    for start in range(0, 200, 10):
        keep(held, range(start, start + 10))
    assert held.find([str(number) for number in range(100)]) == {}
    assert len(held.find([str(number) for number in range(100, 200)])) == 100


@pytest.mark.parametrize("values", [np.ones(DIMENSIONS), np.full(DIMENSIONS, np.nan)])
def test_a_vector_that_cannot_be_one_is_not_found_and_put_right(
    folder: Path, values: np.ndarray
) -> None:
    held = store(folder)
    keep(held, [1])
    held.keep([("2", Vector(values.astype(np.float16), 1))])
    assert held.find(["1", "2"]).keys() == {"1"}
    keep(held, [1, 2])
    assert len(held.find(["1", "2"])) == 2


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(b"no vectors at all, but long enough" * 99),
        lambda path: path.write_bytes(path.read_bytes()[:4000]),
        lambda path: (path.unlink(), path.mkdir()),
    ],
)
def test_a_file_that_cannot_be_used_is_an_error_of_the_disk(
    folder: Path, damage: Callable[[Path], None]
) -> None:
    held = store(folder)
    keep(held, [1])
    held.close()
    damage(held.path)
    with pytest.raises(OSError, match=held.path.name):
        held.find(["1"])


def test_where_vectors_are_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MCRANKER_CACHE", str(tmp_path))
    assert default_vectors_path() is None  # tests keep none
    monkeypatch.setenv("MCRANKER_VECTORS", "OFF")
    assert default_vectors_path() is None
    monkeypatch.setenv("MCRANKER_VECTORS", "")
    assert default_vectors_path() == tmp_path / "vectors"
    monkeypatch.setenv("MCRANKER_VECTORS", "~/mine")
    assert default_vectors_path() == Path.home() / "mine"
