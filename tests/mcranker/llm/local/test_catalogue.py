import re
from typing import Any

import pytest
from pydantic import ValidationError

from mcranker.llm.local.catalogue import (
    DEFAULT_MODEL,
    SUGGESTED_MODEL,
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


def test_the_default_comes_first_and_is_an_encoder_from_the_package_index() -> None:
    first = catalogue()[0]
    assert first.name == DEFAULT_MODEL
    assert first.tokenizer is not None
    assert [each.source.kind for each in first.files] == ["registry", "registry"]


def test_what_stands_in_for_an_entry_is_the_same_kind_of_model_from_the_hub() -> None:
    standing_in = [(e, find(e.otherwise)) for e in catalogue() if e.otherwise is not None]
    assert standing_in
    for entry, other in standing_in:
        assert other is not None
        assert other.source.kind == "hub"
        assert (other.tokenizer is None) == (entry.tokenizer is None)
        assert other.otherwise is None


def test_the_model_that_is_suggested_is_a_chat_model_of_known_size() -> None:
    suggested = find(SUGGESTED_MODEL)
    assert suggested is not None
    assert suggested.size is not None
    assert suggested.tokenizer is None
    assert not suggested.weak


def test_no_two_entries_share_a_name_or_a_file() -> None:
    assert len({e.name for e in catalogue()}) == len(catalogue())
    files = [part.file for e in catalogue() for part in e.files]
    assert len(set(files)) == len(files)


def test_hub_entries_name_a_fixed_revision() -> None:
    hub = [e.source for e in catalogue() if isinstance(e.source, HubSource)]
    assert hub
    assert all(re.fullmatch(r"[0-9a-f]{40}", source.revision) for source in hub)


@pytest.mark.parametrize(
    "name", ["smollm2-135m", "SmolLM2-135M", "smollm2-135m-instruct.q4_1.GGUF"]
)
def test_an_entry_is_found_by_its_name_or_file_in_any_case(name: str) -> None:
    found = find(name)
    assert found is not None
    assert found.name == "smollm2-135m"


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
        {"sha256": None},  # only the hub can say size and hash itself
        {"size": None},
        {"sha256": "abc"},
        {"file": "../tiny.gguf"},
        {"file": "tiny.bin"},
        {"size": 0},
        {"licence": 3},
        {"colour": "red"},
        {"file": "tiny.onnx"},  # without a tokenizer
        {"tokenizer": {"name": "t", "file": "t.json", "size": 1, "sha256": "0" * 64}},
        {"source": {"kind": "ftp"}},
    ],
)
def test_an_entry_that_cannot_be_checked_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        entry(**changes)


def test_a_hub_entry_may_leave_its_hash_to_the_hub() -> None:
    source = {"kind": "hub", "repo": "a/b", "revision": "main", "file": "tiny.gguf"}
    assert entry(source=source, sha256=None, size=None).sha256 is None
