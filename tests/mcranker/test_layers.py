"""Dependencies point one way, and each provider's SDK is imported in one file."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FORBIDDEN = {
    "personas": {"mcranker", "beir_eval"},
    "mcranker": {"beir_eval"},
}
ONLY_IN = {
    "openai": "mcranker/llm/providers/openai_chat.py",
    "anthropic": "mcranker/llm/providers/anthropic_messages.py",
    "xllamacpp": "mcranker/llm/local/llama_local.py",
    "onnxruntime": "mcranker/llm/local/encoder.py",
    "tokenizers": "mcranker/llm/local/encoder.py",
}


def _files(package: str) -> list[Path]:
    files = sorted((ROOT / package).rglob("*.py"))
    assert files, package
    return files


def _imports(path: Path, *, top: bool = False) -> Iterator[tuple[int, str]]:
    """Line and name of every module that a file imports: anywhere, or at its top level."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in tree.body if top else ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: write imports in full"
            yield node.lineno, node.module or ""
        elif (
            isinstance(node, ast.Call)
            and ast.unparse(node.func).split(".")[-1] in {"import_module", "__import__"}
            and node.args
            and isinstance(node.args[0], ast.Constant)
        ):
            yield node.lineno, str(node.args[0].value)


def _uses(package: str, names: set[str]) -> set[str]:
    return {
        f"{path.relative_to(ROOT).as_posix()}:{line}: {name}"
        for path in _files(package)
        for line, name in _imports(path)
        if name.partition(".")[0] in names
    }


@pytest.mark.parametrize("package", FORBIDDEN)
def test_dependencies_point_one_way(package: str) -> None:
    assert _uses(package, FORBIDDEN[package]) == set()


@pytest.mark.parametrize("package", ["mcranker", "personas", "beir_eval"])
def test_no_package_imports_its_tests_or_benchmarks(package: str) -> None:
    assert _uses(package, {"tests", "benchmarks", "examples", "pytest", "hypothesis"}) == set()


@pytest.mark.parametrize("package", ["mcranker", "personas", "beir_eval"])
def test_only_a_command_line_imports_a_command_line(package: str) -> None:
    users = {
        path.relative_to(ROOT).as_posix()
        for path in _files(package)
        for _, name in _imports(path)
        if ".cli" in name or name == "click"
    }
    assert {use for use in users if "/cli/" not in use} <= {f"{package}/__main__.py"}


@pytest.mark.parametrize("sdk", ONLY_IN)
def test_an_sdk_is_imported_in_one_file(sdk: str) -> None:
    files = {
        use.partition(":")[0]
        for package in ("mcranker", "personas", "beir_eval")
        for use in _uses(package, {sdk})
    }
    assert files == {ONLY_IN[sdk]}


@pytest.mark.parametrize("sdk", ONLY_IN)
def test_an_sdk_is_imported_where_it_is_used_and_not_before(sdk: str) -> None:
    at_import = {name.partition(".")[0] for _, name in _imports(ROOT / ONLY_IN[sdk], top=True)}
    assert sdk not in at_import


def test_personas_neither_waits_nor_talks() -> None:
    banned = {"anyio", "asyncio", "aiohttp", "httpx", "requests", "urllib", "socket", "openai"}
    assert _uses("personas", banned) == set()
    for path in _files("personas"):
        nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        assert not any(isinstance(node, ast.AsyncFunctionDef | ast.Await) for node in nodes), path
