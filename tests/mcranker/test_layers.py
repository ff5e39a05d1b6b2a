"""Dependencies point one way and in no circle, and SDKs are imported in few files."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("mcranker", "personas", "beir_eval")
FORBIDDEN = {"personas": {"mcranker", "beir_eval"}, "mcranker": {"beir_eval"}}
ONLY_IN: dict[str, set[str]] = {
    "xllamacpp": {"mcranker/llm/local/llama_local.py"},
    "onnxruntime": {"mcranker/encoders/open_encoder.py"},
    "tokenizers": {"mcranker/encoders/open_encoder.py", "mcranker/retrieval/chunks.py"},
    "transformers": {"mcranker/llm/local/cross_encoder.py"},
    "sentence_transformers": {"mcranker/llm/local/cross_encoder.py"},
}


def _files(package: str) -> list[Path]:
    files = sorted((ROOT / package).rglob("*.py"))
    assert files, package
    return files


@functools.cache
def _nodes(path: Path, *, top: bool = False) -> list[ast.AST]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return list(tree.body if top else ast.walk(tree))


def _imports(path: Path, *, top: bool = False) -> Iterator[tuple[int, str]]:
    """Line and name of every module that a file imports: anywhere, or at its top level."""
    for node in _nodes(path, top=top):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: write imports in full"
            yield node.lineno, node.module or ""
        elif (
            isinstance(node, ast.Call)
            and getattr(node.func, "attr", getattr(node.func, "id", ""))
            in {"import_module", "__import__"}
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


def _module(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@functools.cache
def _graph() -> dict[str, set[str]]:
    """Module -> the modules of ours that it imports, wherever in its text."""
    files = {_module(path): path for package in PACKAGES for path in _files(package)}
    graph: dict[str, set[str]] = {}
    for module, path in files.items():
        graph[module] = set()
        for node in _nodes(path):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                below = [f"{node.module}.{alias.name}" for alias in node.names]
                names = [each if each in files else node.module or "" for each in below]
            graph[module].update(name for name in names if name in files and name != module)
    return graph


def _circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """A circle of modules for each that is found, going depth first."""
    found, done = [], set[str]()

    def visit(module: str, way: list[str]) -> None:
        if module in way:
            found.append([*way[way.index(module) :], module])
        elif module not in done:
            for other in sorted(graph[module]):
                visit(other, [*way, module])
            done.add(module)

    for module in sorted(graph):
        visit(module, [])
    return found


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert _circles({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == [["b", "c", "b"]]
    # What a package offers lazily, by name, is no import of the package itself.
    offered = {"mcranker", "personas", "beir_eval"}
    graph = {module: names - offered for module, names in _graph().items() if module not in offered}
    assert len(graph) > 200
    assert _circles(graph) == []


LAYERS = (
    ("errors", "logs", "paths"),
    ("inputs", "runtime", "llm.chat"),
    ("encoders", "llm"),
    ("replies",),
    ("config",),
    ("llm.models", "retrieval"),
    ("ranking",),
    ("events",),
    ("method",),
    ("estimate", "tracing"),
    ("rankers",),
    ("rag",),
    ("comparing", "demo", "integrations", "replayed", "scale"),
    ("serve", "cli", "__main__"),
)
"""The rooms of `mcranker`, the lowest first; one imports only those below, and of its own layer."""


def _layer(module: str) -> int:
    names = module.removeprefix("mcranker.").split(".")
    fits = [".".join(names[:length]) for length in range(len(names), 0, -1)]
    return next(n for each in fits for n, layer in enumerate(LAYERS) if each in layer)


def test_within_mcranker_imports_point_down() -> None:
    graph = {module: names for module, names in _graph().items() if module != "mcranker"}
    own = {module for module in graph if module.startswith("mcranker.")}
    assert {_layer("mcranker.llm.chat"), _layer("mcranker.config")} == {1, 4}
    assert {
        (module, name)
        for module in own
        for name in graph[module] & own
        if _layer(name) > _layer(module)
    } == set()


def test_what_is_no_command_imports_nothing_of_one() -> None:
    commands = {"mcranker.cli", "beir_eval.cli"}
    entries = {"mcranker.__main__", "beir_eval.__main__"}

    def is_command(module: str) -> bool:
        return any(module == each or module.startswith(f"{each}.") for each in commands)

    assert {
        (module, name)
        for module, names in _graph().items()
        for name in names
        if is_command(name) and not is_command(module) and module not in entries
    } == set()


def test_an_sdk_is_imported_where_it_is_used_and_not_before() -> None:
    uses = [use for package in PACKAGES for use in _uses(package, set(ONLY_IN))]
    found = {(use.rsplit(" ", 1)[1].partition(".")[0], use.partition(":")[0]) for use in uses}
    allowed = {(sdk, file) for sdk, files in ONLY_IN.items() for file in files}
    assert found == allowed
    for sdk, file in allowed:
        at_import = {name.partition(".")[0] for _, name in _imports(ROOT / file, top=True)}
        assert sdk not in at_import


def test_personas_neither_waits_nor_talks() -> None:
    banned = {"anyio", "asyncio", "aiohttp", "httpx", "requests", "urllib", "socket", "openai"}
    assert _uses("personas", banned) == set()
    for path in _files("personas"):
        waits = (ast.AsyncFunctionDef, ast.Await)
        assert not any(isinstance(node, waits) for node in _nodes(path)), path
