"""Model files from the Hugging Face hub, with a stand-in for its client."""

import hashlib
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from mcranker.errors import ConfigError, DownloadError
from mcranker.llm.local.catalogue import CatalogueEntry
from mcranker.llm.local.model_files import download

CONTENT = b"GGUF" + bytes(range(256)) * 40


def make_entry(**changes: Any) -> CatalogueEntry:
    fields: dict[str, Any] = {
        "name": "tiny",
        "file": "tiny.gguf",
        "licence": "MIT",
        "size": len(CONTENT),
        "sha256": hashlib.sha256(CONTENT).hexdigest(),
        "source": {"kind": "hub", "repo": "a/tiny", "revision": "abc", "file": "deep/tiny.gguf"},
        "context": 512,
        "weak": True,
        "note": "For tests.",
    }
    return CatalogueEntry.model_validate(fields | changes)


def kept(folder: Path) -> list[str]:
    """What is in the folder apart from the lock, which stays."""
    return sorted(path.name for path in folder.iterdir() if path.suffix != ".lock")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MCRANKER_CACHE", str(tmp_path))
    return tmp_path / "models"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, cache: Path) -> Any:
    """A hub that has one file, and the calls it got."""
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    module: Any = types.ModuleType("huggingface_hub")
    module.content = CONTENT
    module.failure = None

    def hf_hub_download(
        repo: str, file: str, *, revision: str, local_dir: Path, tqdm_class: Any
    ) -> str:
        assert (repo, file, revision) == ("a/tiny", "deep/tiny.gguf", "abc")
        if module.failure:
            raise module.failure
        with tqdm_class(total=len(CONTENT), unit="B", desc=file) as bar:
            bar.update(len(CONTENT))
        path = Path(local_dir, file)
        path.parent.mkdir(parents=True)
        path.write_bytes(module.content)
        return str(path)

    module.hf_hub_download = hf_hub_download
    monkeypatch.setitem(sys.modules, "huggingface_hub", module)
    return module


def test_a_hub_file_is_fetched_with_progress(hub: Any, cache: Path) -> None:
    seen: list[tuple[int, int | None]] = []
    entry = make_entry()
    path = download(entry, progress=lambda done, total: seen.append((done, total)))
    assert path.read_bytes() == CONTENT
    assert seen == [(len(CONTENT), len(CONTENT))]
    assert kept(cache) == ["tiny.gguf", "tiny.gguf.sha256"]


def test_a_hub_that_fails_is_reported(hub: Any, cache: Path) -> None:
    hub.failure = RuntimeError("no route to host")
    with pytest.raises(DownloadError, match="no route to host"):
        download(make_entry())
    assert kept(cache) == []


def test_a_failure_is_shown_on_one_line_without_tokens(hub: Any, cache: Path) -> None:
    address = "https://cdn.example/tiny.gguf?X-Signature=hunter2"
    hub.failure = RuntimeError(f"403 Forbidden\nfor {address} " + "x" * 5000)
    with pytest.raises(DownloadError, match="HF_TOKEN") as caught:
        download(make_entry())
    assert "403 Forbidden for https://cdn.example/tiny.gguf?X-Signature=[key]" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "hunter2" not in str(caught.value)
    assert len(str(caught.value)) < 1300


def test_the_hub_is_left_alone_when_offline(hub: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    hub.failure = AssertionError("asked")
    with pytest.raises(DownloadError, match="HF_HUB_OFFLINE"):
        download(make_entry())


def test_without_the_hubs_client_its_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ConfigError, match=r"pip install 'mcranker\[hub\]'"):
        download(make_entry())
