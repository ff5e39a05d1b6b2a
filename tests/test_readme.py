"""Blocks of pages, run in order in an empty folder.

A block that begins with "# needs" (a key, a server, data) is not run.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import redirect_stdout, suppress
from io import StringIO
from pathlib import Path
from unittest.mock import patch

import pytest
from click import Context

from mcranker.rankers.keys import keys_of
from personas import Team, load
from tests.mcranker.cli.test_cli_process import environment, reply
from tests.support.commands import COMMANDS, call
from tests.support.loopback import deaf_port, serve_in_thread

ROOT = Path(__file__).parents[1]
README, TUTORIAL = ROOT / "README.md", ROOT / "docs" / "tutorial.md"
RUN = "tutorial rag serve calls scale security evaluation models prompts rankers report teams"
RUN_PAGES = [README, *(ROOT / "docs" / f"{name}.md" for name in RUN.split())]
PAGES = [README, *sorted((ROOT / "docs").rglob("*.md"))]
SECONDS = 120  # after which a block counts as stuck
# Lines of our commands alone, with nothing for a shell to do.
OWN = re.compile(r"((mcranker|beir-eval|personas) [^<>&|\\\n]*\n)+")
INSTALLED = re.compile(r'^pip install "\.\[(.*)\]"$', re.MULTILINE)


def blocks(page: Path) -> list[tuple[str, str]]:
    """The page's blocks: language and content."""
    return re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)


@pytest.fixture
def model() -> Iterator[dict[str, str]]:
    """Variables under which a hosted model is a server of the loopback."""
    with serve_in_thread(reply) as server:
        yield {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "-", "ANTHROPIC_API_KEY": "-"}


@pytest.mark.local_model
@pytest.mark.parametrize("page", RUN_PAGES, ids=lambda page: page.stem)
@pytest.mark.filterwarnings("ignore")
def test_the_blocks_run_in_order(
    page: Path, model: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    given = environment(COLUMNS="100", MCRANKER_LEDGER=str(tmp_path / "ledger.sqlite"))
    given |= {"PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}
    given["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{given['PATH']}"
    output = ""
    with deaf_port() as port:
        pass  # free again, for the service
    for language, content in blocks(page):
        if content.startswith("# needs "):
            continue
        match language:
            case "text":
                assert_shown(content, output)
            case "sh":
                lines = INSTALLED.sub("", content).replace("8080", str(port)).replace("\\\n", "")
                hosted = model if "openai:" in lines else {}
                if OWN.fullmatch(lines):
                    with patch.dict(os.environ, given | hosted, clear=True):
                        output = "".join(map(run_here, lines.splitlines()))
                else:
                    output = run(["bash", "-euc", lines], tmp_path, given | hosted)
            case "python":
                env = given | (model if "openai:" in content else {})
                with patch.dict(os.environ, env, clear=True), redirect_stdout(StringIO()) as said:
                    exec(compile(content, page.name, "exec"), {"__name__": "__main__"})
                output = said.getvalue()
            case "json":
                assert json.loads(content)
            case "yaml":
                (tmp_path / "mine.yaml").write_text(content, "utf-8")
                assert load(Team, tmp_path / "mine.yaml").members
            case "toml":
                (tmp_path / "mine.toml").write_text(content, "utf-8")
            case _:
                pytest.fail(f"{page.name} has a block of the kind {language!r}")


def run_here(line: str) -> str:
    done = call(*shlex.split(line, comments=True))
    assert done.exit_code == 0, f"{line}\n{done.output}"
    return done.stdout


def run(command: list[str], folder: Path, environment: dict[str, str]) -> str:
    """Return standard output; what runs in the background is ended afterwards."""
    with (folder / "output").open("w+b") as output, (folder / "errors").open("w+b") as errors:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdout=output,
            stderr=errors,
            start_new_session=True,
        )
        try:
            status = process.wait(SECONDS)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
        errors.seek(0)
        assert status == 0, f"{command[-1]}\n{errors.read().decode()}"
        output.seek(0)
        return output.read().decode()


def assert_shown(shown: str, output: str) -> None:
    """Every line that is shown was printed, in this order; fractions may differ by processor."""

    def plain(line: str) -> str:
        return " ".join(re.sub(r"\d+\.\d+", "0.0", line).split())

    printed = iter([plain(line) for line in output.splitlines()])
    for line in shown.splitlines():
        assert plain(line) in printed, f"{line!r} is not in\n{output}"


def test_the_extras_of_install_lines_exist() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    texts = "".join(page.read_text("utf-8") for page in RUN_PAGES)
    named = {name for found in INSTALLED.findall(texts) for name in found.split(",")}
    assert named
    assert named <= extras["optional-dependencies"].keys()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_verbs_and_flags_of_blocks_exist(page: Path) -> None:
    text = "".join(text for kind, text in blocks(page) if kind in ("", "sh"))
    for line in re.findall(
        r"^(?:mcranker|beir-eval|personas) [a-z].*", text.replace("\\\n", ""), re.MULTILINE
    ):
        program, verb, *words = shlex.split(line, comments=True)
        command = COMMANDS[program].get_command(Context(COMMANDS[program]), verb)
        assert command
        known = {"--help", *(flag for each in command.params for flag in each.opts)}
        assert {word.partition("=")[0] for word in words if word.startswith("--")} <= known, line


def test_the_readmes_options_exist() -> None:
    rows = re.findall(r"^\| `(\w+)=", README.read_text("utf-8"), re.MULTILINE)
    assert len(rows) > 5
    assert set(rows) <= keys_of("mcranker").keys()


def test_files_that_pages_link_to_exist() -> None:
    # The site's build checks pages and anchors, but no pictures; it has the files of docs/ alone.
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text("utf-8")):
            file = (page.parent / target).resolve()
            assert file.exists(), f"{page.name} links to {target}"
            assert page == README or file.is_relative_to(ROOT / "docs"), f"{page.name}: {target}"


def test_the_site_has_every_page_in_its_menu() -> None:
    menu = re.findall(r'= "(\S+\.md)"', (ROOT / "zensical.toml").read_text())
    assert sorted(menu) == sorted(str(page.relative_to(ROOT / "docs")) for page in PAGES[1:])


@pytest.mark.parametrize(("page", "words"), [(README, 1200), (TUTORIAL, 900)])
def test_first_pages_are_short(page: Path, words: int) -> None:
    assert len(page.read_text("utf-8").split()) <= words


def test_the_files_that_contributing_names_exist() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    paths = re.findall(r"`([a-z]\w*(?:/[\w.*-]+)+/?)", page)
    assert len(paths) > 40
    made = re.compile("build|\\.venv")
    there = [bool(list(ROOT.glob(path))) for path in paths if not made.match(path)]
    assert all(there), dict(zip(paths, there, strict=False))


def test_what_the_page_on_architecture_names_exists() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    packages = [ROOT / name for name in ("mcranker", "personas", "beir_eval")]
    found = [path for package in packages for path in (package, *package.rglob("*"))]
    folders = {path.name for path in found if path.is_dir()}
    assert set(re.findall(r"(?<![\w/])(\w+)/(?!\w)", page)) <= folders
    for path in re.findall(r"\w+(?:/\w+)+(?:/|\.py)", page):
        assert (ROOT / path).exists(), path
    sources = "".join(path.read_text("utf-8") for path in found if path.suffix == ".py")
    classes = set(re.findall(r"^class (\w+)", sources, re.MULTILINE))
    assert set(re.findall(r"\b[A-Z][a-z]+(?:[A-Z]\w+|ed\b)", page)) <= classes | {
        "LangChain",
        "LlamaIndex",
    }
