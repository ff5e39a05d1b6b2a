"""Kept work: keys, whole folders, and what damage and full disks do."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path

import pytest

from mcranker.retrieval import bm25 as stored
from mcranker.retrieval import index as index_module
from mcranker.retrieval.index import cached_index

CAT = ("d1", "Cat", "It sleeps.")
DOG = ("d2", "", "caf\u00e9")


def fill(folder: Path) -> None:
    (folder / "below").mkdir()
    (folder / "a.bin").write_bytes(b"weights")
    (folder / "below" / "b.txt").write_text("more")


# --- keys


def test_ids_titles_texts_and_their_order_make_the_digest() -> None:
    corpora = [
        [CAT, DOG],
        [DOG, CAT],
        [CAT],
        [],
        [("d1", "", "Cat It sleeps."), DOG],
        [("d1", "Ca", "tIt sleeps."), DOG],
        [("d", "1Cat", "It sleeps."), DOG],
    ]
    assert len({stored.digest_of(corpus) for corpus in corpora}) == len(corpora)
    assert stored.digest_of(iter([CAT, DOG])) == stored.digest_of([CAT, DOG])
    assert stored.digest_of([("q", "ab")]) != stored.digest_of([("qa", "b")])


# --- whole or not at all


def test_what_is_kept_is_found_again(tmp_path: Path) -> None:
    folder = stored.keep(tmp_path, "indexes", "k", fill)
    assert folder == tmp_path / "indexes" / "k"
    assert stored.find(tmp_path, "indexes", "k") == folder
    assert (folder / "below" / "b.txt").read_text() == "more"
    assert stored.find(tmp_path, "indexes", "other") is None
    assert stored.find(tmp_path, "runs", "k") is None
    (folder / "below" / "b.txt").unlink()
    assert stored.find(tmp_path, "indexes", "k") is None
    assert stored.keep(tmp_path, "indexes", "k", fill) == folder
    (folder / "manifest.json").write_bytes(b'{"files": {"a.bin": 7}}')
    assert stored.find(tmp_path, "indexes", "k") is None


def test_a_full_disk_is_told_and_leaves_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def write(folder: Path) -> None:
        fill(folder)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    assert stored.keep(tmp_path, "indexes", "k", write) is None
    assert list((tmp_path / "indexes").iterdir()) == []
    assert "No space left on device" in caplog.text
    assert "set MCRANKER_CACHE" in caplog.text


def test_indexes_that_are_old_or_too_many_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MCRANKER_CACHE", str(tmp_path))
    monkeypatch.setattr(index_module, "BYTES", 250)
    shelf = tmp_path / "indexes"
    shelf.mkdir()
    days = {"used": 31.0, "new": 0.1, "third": 0.5, "many": 2.0, "old": 31.0}
    for name, age in days.items():
        path = shelf / f"{name}.sqlite"
        path.write_bytes(bytes(100))
        os.utime(path, (time.time() - age * 86_400,) * 2)
    (shelf / "old.sqlite-journal").touch()
    assert cached_index("used") == shelf / "used.sqlite"
    assert {each.stem for each in shelf.iterdir()} == {"used", "new", "third"}


# --- runs


def test_a_run_comes_back_to_the_last_digit(tmp_path: Path) -> None:
    run = {"q2": [("d1", 0.1 + 0.2), ("d2", 1e-300)], "q1": [], "q 3": [("d\u00e9", -2.0)]}
    stored.keep_run(tmp_path, "k", run)
    kept = stored.kept_run(tmp_path, "k")
    assert kept == run
    assert kept is not None
    assert list(kept) == ["q2", "q1", "q 3"]
    assert kept["q2"][0] == ("d1", 0.30000000000000004)
    assert stored.kept_run(tmp_path, "other") is None
