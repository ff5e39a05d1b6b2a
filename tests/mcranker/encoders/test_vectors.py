import errno
import logging
import multiprocessing
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from mcranker.encoders import vectors as module
from mcranker.encoders.vectors import (
    Vector,
    VectorStore,
    default_vectors_path,
    keys_of,
    vectors_in,
)

DIMENSIONS = 4
TURNS = 20


def vector(place: int) -> Vector:
    values = np.zeros(DIMENSIONS, np.float16)
    values[place % DIMENSIONS] = 1.0
    return Vector(values, place)


def store(folder: Path, *, mark: str = "a", most: int | None = None) -> VectorStore:
    return VectorStore(folder, mark=mark, most=most)


def keep(held: VectorStore, numbers: Sequence[int]) -> None:
    held.keep((str(number), vector(number)) for number in numbers)


def shards(folder: Path) -> list[Path]:
    return sorted(folder.glob("*/*.npy"))


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
    assert found["one"].tokens == 1
    assert (len(second), second.dimensions, vectors_in(folder)) == (3, DIMENSIONS, 3)
    assert store(folder, mark="b").find(["one"]) == {}
    with pytest.raises(ValueError, match="vectors of 4 numbers"):
        second.keep([("two", Vector(np.ones(1, np.float16), 1))])


def test_a_matrix_has_a_row_for_each_text(folder: Path) -> None:
    held = store(folder)
    keep(held, [1, 2])
    keep(held, [2, 3])
    values, tokens, found = held.matrix(keys_of(["3", "9", "1", "3"]))
    assert values.tolist() == [[0, 0, 0, 1], [0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 1]]
    assert tokens.tolist() == [3, 0, 1, 3]
    assert found.tolist() == [True, False, True, True]


def test_small_shards_become_one_and_a_newer_vector_of_a_text_wins(folder: Path) -> None:
    held, other = store(folder), store(folder)
    for number in range(15):
        keep(held, [number])
    assert len(other.find([str(number) for number in range(15)])) == 15
    held.keep([("3", vector(33))])
    assert len(shards(folder)) == 1
    found = other.find([str(number) for number in range(15)])
    assert [found[str(number)].tokens for number in range(5)] == [0, 1, 2, 33, 4]
    assert len(other) == 15


def test_the_oldest_make_room(folder: Path) -> None:
    held = store(folder, most=100)
    for start in range(0, 200, 10):
        keep(held, range(start, start + 10))
    # A shard has 25 at most, a quarter of 100, so shards of 10 are not merged 16 by 16; the
    # 11th and each after it takes the oldest with it.
    assert vectors_in(folder) == 100
    assert held.find(["99"]) == {}
    assert len(held.find([str(number) for number in range(100, 200)])) == 100


def wrong_length(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:-8] + np.ones(DIMENSIONS, "<f2").tobytes())  # of length 2


def not_finite(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-2] + np.array(np.nan, "<f2").tobytes())


@pytest.mark.parametrize("damage", [wrong_length, not_finite])
def test_a_vector_that_cannot_be_one_is_not_found_and_put_right(
    folder: Path, damage: Callable[[Path], None]
) -> None:
    held = store(folder)
    keep(held, [1, 2])
    damage(*shards(folder))
    found = held.find(["1", "2"])
    assert len(found) == 1
    keep(held, [1, 2])
    assert len(held.find(["1", "2"])) == 2


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(path.read_bytes()[:-1]),
        lambda path: path.write_bytes(path.read_bytes()[:40]),
        lambda path: path.write_bytes(b"\x93NUMPY\x01\x00v\x00" + b"(" * 118),
        lambda path: path.write_bytes(b"no shard at all, but long enough to be read as one"),
        lambda path: (path.unlink(), path.mkdir()),
        lambda path: np.save(path, np.zeros(3)),
        lambda path: np.save(path, np.array([{"a": 1}], object), allow_pickle=True),
    ],
)
def test_a_damaged_shard_is_skipped_with_one_warning(
    folder: Path, damage: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    keep(store(folder), [1])
    keep(store(folder), [2])
    first, _ = shards(folder)
    damage(first)
    held = store(folder)
    with caplog.at_level(logging.WARNING):
        found = [held.find(["1", "2"]) for _ in range(3)]
    assert [each.keys() for each in found] == [{"2"}] * 3
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert str(first) in caplog.text
    assert "delete it" in caplog.text
    keep(held, [1])
    assert held.find(["1", "2"]).keys() == {"1", "2"}


def test_a_shard_of_other_dimensions_is_skipped(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    keep(store(folder), [1])
    other = VectorStore(folder, mark="a", dimensions=3)
    assert other.find(["1"]) == {}
    assert "vectors of 4 numbers instead of 3" in caplog.text


def test_a_full_disk_is_an_error_and_leaves_nothing_half_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(number: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    held = store(folder)
    keep(held, [1])
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"No space left on device: .*\.npy"):
        keep(held, [2])
    assert [each.name for each in held.folder.iterdir()] == [each.name for each in shards(folder)]
    assert held.find(["1", "2"]).keys() == {"1"}


def test_what_a_killed_process_left_half_written_goes_after_a_day(folder: Path) -> None:
    held = store(folder)
    keep(held, [1])
    leftover = [held.folder / f".a.npy.{'0' * 11}{number}.unfinished" for number in range(2)]
    for each in leftover:
        each.write_bytes(b"half")
    os.utime(leftover[0], (0, 0))
    for number in range(2, 17):
        keep(held, [number])
    assert [each.exists() for each in leftover] == [False, True]


def write(folder: Path, start: int) -> None:
    for number in range(start, start + TURNS):
        keep(store(folder), [number])


def test_processes_write_and_merge_at_the_same_time(folder: Path) -> None:
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=write, args=(folder, 10 * place)) for place in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    # 0 to 19, 10 to 29 and 20 to 39, in 60 shards: three times 16 became one.
    found = store(folder).find([str(number) for number in range(50)])
    assert sorted(map(int, found)) == list(range(40))
    assert all(int(text) == kept.tokens for text, kept in found.items())
    assert len(shards(folder)) < 16 + module.TOGETHER


def test_where_vectors_are_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MCRANKER_CACHE", str(tmp_path))
    assert default_vectors_path() is None  # tests keep none
    monkeypatch.setenv("MCRANKER_VECTORS", "OFF")
    assert default_vectors_path() is None
    monkeypatch.setenv("MCRANKER_VECTORS", "")
    assert default_vectors_path() == tmp_path / "vectors"
    monkeypatch.setenv("MCRANKER_VECTORS", "~/mine")
    assert default_vectors_path() == Path.home() / "mine"
