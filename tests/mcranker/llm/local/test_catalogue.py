import re
from typing import Any

import pytest
from pydantic import ValidationError

from mcranker.llm.local.catalogue import (
    DEFAULT_MODEL,
    CatalogueEntry,
    HubSource,
    catalogue,
    find,
    not_found,
)


def entry(**changes: Any) -> CatalogueEntry:
    fields: dict[str, Any] = {
        "name": "tiny",
        "file": "tiny.gguf",
        "licence": "MIT",
        "size": 4,
        "sha256": "0" * 64,
        "source": {"kind": "registry", "package": "p", "version": "1", "member": "p/tiny.gguf"},
        "context": 512,
        "weak": True,
        "note": "For tests.",
    }
    return CatalogueEntry.model_validate(fields | changes)


def test_the_default_comes_first_and_is_known_to_be_weak() -> None:
    first = catalogue()[0]
    assert first.name == DEFAULT_MODEL
    assert first.weak
    assert first.source.kind == "registry"


def test_no_two_entries_share_a_name_or_a_file() -> None:
    assert len({e.name for e in catalogue()}) == len(catalogue())
    assert len({e.file for e in catalogue()}) == len(catalogue())


def test_hub_entries_name_a_fixed_revision() -> None:
    hub = [e.source for e in catalogue() if isinstance(e.source, HubSource)]
    assert hub
    assert all(re.fullmatch(r"[0-9a-f]{40}", source.revision) for source in hub)


@pytest.mark.parametrize(
    "name", ["smollm2-135m", "SmolLM2-135M", "smollm2-135m-instruct.q4_1.GGUF"]
)
def test_an_entry_is_found_by_its_name_or_file_in_any_case(name: str) -> None:
    assert find(name) is catalogue()[0]


def test_an_unknown_name_is_not_found() -> None:
    assert find("gpt-5") is None


def test_the_error_for_an_unknown_name_lists_all_and_suggests_close_ones() -> None:
    error = not_found("qwen2.5-05b")
    assert "Did you mean 'qwen2.5-0.5b'" in str(error)
    assert all(e.name in str(error) for e in catalogue())
    assert error.model == "local:qwen2.5-05b"
    assert "Did you mean" not in str(not_found("zzz"))


@pytest.mark.parametrize(
    "changes",
    [
        {"sha256": None},  # only the hub can say the hash itself
        {"sha256": "abc"},
        {"file": "../tiny.gguf"},
        {"file": "tiny.bin"},
        {"size": 0},
        {"licence": 3},
        {"colour": "red"},
        {"source": {"kind": "ftp"}},
    ],
)
def test_an_entry_that_cannot_be_checked_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        entry(**changes)


def test_a_hub_entry_may_leave_its_hash_to_the_hub() -> None:
    source = {"kind": "hub", "repo": "a/b", "revision": "main", "file": "tiny.gguf"}
    assert entry(source=source, sha256=None, size=None).sha256 is None
