"""The list of local models: sound in itself, and found by name."""

from __future__ import annotations

import re
from typing import Any

import pytest
from pydantic import ValidationError

from mcranker.errors import ModelNotFound
from mcranker.llm.local.catalogue import (
    DEFAULT_MODEL,
    SUGGESTED_MODEL,
    CatalogueEntry,
    HubSource,
    RegistrySource,
    catalogue,
    find,
    not_found,
)


def test_the_entries_are_sound() -> None:
    entries = catalogue()
    files = [each for entry in entries for each in entry.files]
    assert len({each.name for each in files}) == len({each.file for each in files}) == len(files)
    assert entries[0].name == DEFAULT_MODEL
    assert all(isinstance(each.source, RegistrySource) for each in entries[0].files)
    for entry in entries:
        assert (entry.tokenizer is not None) == entry.file.endswith(".onnx")
        if entry.otherwise is not None:
            other = find(entry.otherwise)
            assert other is not None
            assert (other.tokenizer is None) == (entry.tokenizer is None)
            assert other.otherwise is None
        if isinstance(entry.source, HubSource):
            assert re.fullmatch(r"[0-9a-f]{40}", entry.source.revision)
    suggested = find(SUGGESTED_MODEL)
    assert suggested is not None
    assert suggested.tokenizer is None


@pytest.mark.parametrize("name", ["SmolLM2-135M", "smollm2-135m-instruct.q4_1.GGUF"])
def test_an_entry_is_found_by_its_name_or_file_in_any_case(name: str) -> None:
    found = find(name)
    assert found is not None
    assert found.name == "smollm2-135m"


def test_the_error_for_an_unknown_name_lists_all_and_suggests_close_ones() -> None:
    assert find("gpt-5") is None
    error = not_found("qwen3-4bb")
    assert isinstance(error, ModelNotFound)
    assert "Did you mean 'qwen3-4b'" in str(error)
    assert all(entry.name in str(error) for entry in catalogue())


@pytest.mark.parametrize(
    "changes", [{"size": 0}, {"sha256": None}, {"file": "../m.gguf"}, {"source": {"kind": "web"}}]
)
def test_an_entry_that_cannot_be_checked_is_refused(changes: dict[str, Any]) -> None:
    entry = catalogue()[-1].model_dump()
    with pytest.raises(ValidationError):
        CatalogueEntry.model_validate(entry | changes)
