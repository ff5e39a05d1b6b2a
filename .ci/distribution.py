#!/usr/bin/env python3
"""Builds the sdist, and from it the wheel; installs the wheel in an empty environment, and uses it.

python .ci/distribution.py FOLDER      emptied first; holds dist/ and the environment afterwards
"""

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

PACKAGES = ("mcranker", "personas", "beir_eval")
ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    folder = Path(sys.argv[1]).resolve()
    shutil.rmtree(folder, ignore_errors=True)
    empty = folder / "empty"
    empty.mkdir(parents=True)
    run(sys.executable, "-m", "build", "--installer", "uv", "--outdir", folder / "dist", ROOT)
    (wheel,), (sdist,) = (folder / "dist").glob("*.whl"), (folder / "dist").glob("*.tar.gz")
    check_files(wheel, sdist)
    uv = Path(sys.executable).parent / "uv"
    run(uv, "venv", "--quiet", folder / "venv")
    tool = folder / "venv/bin"
    python = ("--python", tool / "python")
    run(uv, "pip", "install", "--quiet", *python, "--constraint", ROOT / "constraints.txt", wheel)
    run(uv, "pip", "check", "--quiet", *python)
    # From a folder where nothing of the source can be imported.
    (empty / "passages.txt").write_text("Cloth masks filter little.\nN95 masks filter most.\n")
    run(tool / "mcranker", "--version", cwd=empty)
    run(tool / "personas", "list", cwd=empty)
    run(tool / "beir-eval", "run", "--suites", cwd=empty)
    question = ("rank", "best masks against covid", "--docs", "passages.txt", "--dry-run")
    run(tool / "mcranker", *question, "--model", "openai:gpt-5-mini", cwd=empty)


def check_files(wheel: Path, sdist: Path) -> None:
    """See that nothing is left out that the packages hold, and that they are typed."""
    tracked = subprocess.run(
        ["git", "ls-files", *PACKAGES], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.split("\n")
    expected = {name for name in tracked if name}
    with zipfile.ZipFile(wheel) as archive:
        missing = expected - set(archive.namelist())
    with tarfile.open(sdist) as archive:
        missing |= expected - {name.partition("/")[2] for name in archive.getnames()}
    missing |= {name for name in (f"{each}/py.typed" for each in PACKAGES) if name not in expected}
    if missing:
        sys.exit(f"not in what would be published: {', '.join(sorted(missing))}")


def run(*command: object, cwd: Path = ROOT) -> None:
    environment = {**os.environ, "OPENAI_API_KEY": "none", "MCRANKER_LEDGER": str(cwd / "ledger")}
    words = [str(each) for each in command]
    sys.stderr.write(f"{' '.join(words)}\n")
    subprocess.run(words, cwd=cwd, check=True, env=environment, stdout=subprocess.DEVNULL)


main()
