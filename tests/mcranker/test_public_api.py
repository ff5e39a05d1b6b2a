"""What `mcranker` and `personas` offer by name, and what importing them costs."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import mcranker
import personas

SUBMODULES = {"mcranker": set[str](), "personas": {"library"}}
HEAVY = {"numpy", "pydantic", "openai", "anthropic", "aiohttp", "xllamacpp"}


def test_every_public_name_is_there() -> None:
    for name in mcranker.__all__:
        assert getattr(mcranker, name) is not None
    assert sorted(mcranker.__all__) == mcranker.__all__
    assert len(set(mcranker.__all__)) == len(mcranker.__all__)


@pytest.mark.parametrize("package", [mcranker, personas])
def test_all_is_the_lazy_table(package: ModuleType) -> None:
    assert set(package.__all__) == set(package._MODULE_OF) | SUBMODULES[package.__name__]
    names = [name for names in package._EXPORTS.values() for name in names.split()]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("package", [mcranker, personas])
def test_imports_for_type_checkers_are_the_lazy_table(package: ModuleType) -> None:
    tree = ast.parse(Path(str(package.__file__)).read_text(encoding="utf-8"))
    block = next(
        node
        for node in tree.body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    )
    imported = {
        alias.asname or alias.name: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    submodules = dict.fromkeys(SUBMODULES[package.__name__], package.__name__)
    assert imported == {**package._MODULE_OF, **submodules}


def _loaded_by(code: str) -> set[str]:
    script = f"{code}\nimport sys\nprint('\\n'.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", script],
        check=True,
        capture_output=True,
        text=True,
        cwd=Path(mcranker.__file__).parent.parent,
        timeout=60,
    )
    return {name.partition(".")[0] for name in done.stdout.split()}


def test_importing_mcranker_imports_nothing_heavy() -> None:
    assert not _loaded_by("import mcranker") & HEAVY
    assert not _loaded_by("import mcranker; mcranker.ModelError; dir(mcranker)") & HEAVY


def test_importing_personas_imports_nothing_heavy() -> None:
    assert not _loaded_by("import personas.sanitize") & (HEAVY | {"yaml", "jinja2", "rich"})


def test_importing_personas_imports_nothing_of_the_other_packages() -> None:
    assert not _loaded_by("import personas") & {"mcranker", "beir_eval", "openai", "numpy"}
