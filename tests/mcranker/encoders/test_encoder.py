import asyncio
import logging
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from mcranker.encoders.encoder import MAX_TOKENS, Encoder
from mcranker.encoders.open_encoder import onnx_encoder
from mcranker.errors import ConfigError, ModelFileError
from tests.support.tiny_encoder import DIMENSIONS, TinyEngine, similarity, tiny_encoder, use

pytestmark = pytest.mark.anyio

ONE, TWO, THREE = "masks against viruses", "masks in the theatre", "how bread is baked"


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> TinyEngine:
    return use(monkeypatch)


@pytest.fixture
def vectors(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("MCRANKER_VECTORS", str(tmp_path / "vectors"))
    return tmp_path / "vectors"


@pytest.fixture
def encoder(engine: TinyEngine) -> Iterator[Encoder]:
    made = tiny_encoder()
    yield made
    engine.session.gate.set()
    made.release(wait=True)


async def test_a_vector_is_the_mean_over_the_texts_own_tokens(encoder: Encoder) -> None:
    encoded = await encoder.encode([ONE, THREE, TWO])
    a, b, c = encoded.vectors
    assert np.allclose(np.linalg.norm(encoded.vectors, axis=1), 1, atol=1e-3)
    assert float(a @ c) == pytest.approx(similarity(ONE, TWO), abs=1e-3)
    assert float(a @ b) == pytest.approx(similarity(ONE, THREE), abs=1e-3)
    assert encoded.tokens == (4, 5, 5)  # with the one that begins every text
    assert encoded.known == (False, False, False)


async def test_a_text_is_encoded_once(encoder: Encoder, engine: TinyEngine) -> None:
    first = await encoder.encode([ONE, TWO, ONE])
    second = await encoder.encode([TWO, THREE])
    assert (first.vectors[0] == first.vectors[2]).all()
    assert second.known == (True, False)
    assert sum(rows for rows, _ in engine.session.shapes) == 3
    assert engine.loads == 1


async def test_batches_hold_texts_of_about_one_length_and_no_more_than_a_long_text(
    encoder: Encoder, engine: TinyEngine
) -> None:
    lengths = [3, 400, 60, 3, 61, 3, 60, 255]
    texts = [f"n{place} " + "word " * (length - 1) for place, length in enumerate(lengths)]
    await encoder.encode(texts)
    # With the token that begins each: 256 (cut), 256, then 62 + 61 + 61 + 4 in one batch of
    # 4 x 62 = 248 tokens, and the two short ones that are left.
    assert sorted(engine.session.shapes) == [(1, MAX_TOKENS), (1, MAX_TOKENS), (2, 4), (4, 62)]


async def test_those_who_ask_at_the_same_time_are_served_together(
    encoder: Encoder, engine: TinyEngine
) -> None:
    engine.session.gate.clear()
    calls = [asyncio.ensure_future(encoder.encode([ONE, text])) for text in (TWO, THREE, TWO)]
    await asyncio.sleep(0)
    assert not any(call.done() for call in calls)  # and the loop goes on meanwhile
    engine.session.gate.set()
    for call in calls:
        assert (await call).vectors.shape == (2, DIMENSIONS)
    assert sum(rows for rows, _ in engine.session.shapes) == 3


async def test_one_who_gives_up_takes_nothing_from_the_others(
    encoder: Encoder, engine: TinyEngine
) -> None:
    engine.session.gate.clear()
    first = asyncio.ensure_future(encoder.encode([ONE]))
    second = asyncio.ensure_future(encoder.encode([ONE]))
    await asyncio.sleep(0)
    first.cancel()
    engine.session.gate.set()
    assert (await second).vectors.shape == (1, DIMENSIONS)
    assert first.cancelled()


def damage(path: Path) -> None:
    path.write_bytes(b"the file of an older version")


async def test_a_cache_that_cannot_be_used_stops_nothing(
    vectors: Path, encoder: Encoder, caplog: pytest.LogCaptureFixture
) -> None:
    damage(vectors)
    with_cache = tiny_encoder("other", mark="tiny")
    with caplog.at_level(logging.WARNING):
        encoded = await with_cache.encode([ONE, TWO])
        with_cache.release(wait=True)
    assert (encoded.vectors == (await encoder.encode([ONE, TWO])).vectors).all()
    assert str(vectors) in caplog.text


async def test_a_text_that_cannot_be_encoded_fails_those_who_want_it(
    encoder: Encoder, engine: TinyEngine
) -> None:
    engine.session.error = RuntimeError("out of memory")
    with pytest.raises(ModelFileError, match=r"local:tiny cannot encode a text: out of memory"):
        await encoder.encode([ONE])
    engine.session.error = None
    assert (await encoder.encode([ONE])).known == (False,)


async def test_files_that_cannot_be_loaded_are_reported_with_what_to_do(tmp_path: Path) -> None:
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"no model")
    made = onnx_encoder(broken, broken, name="local:minilm", mark="mark")
    with pytest.raises(ModelFileError, match=r"mcranker models --download minilm"):
        await made.encode([ONE])
    made.release(wait=True)


async def test_without_its_packages_the_advice_is_to_install_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    path = tmp_path / "tiny.onnx"
    path.touch()
    made = onnx_encoder(path, path, name="local:tiny", mark="mark")
    with pytest.raises(ConfigError, match=r"pip install --force-reinstall onnxruntime"):
        await made.encode([ONE])
    made.release(wait=True)


async def test_all_users_share_an_encoder_and_the_last_one_ends_it(engine: TinyEngine) -> None:
    one, two = (tiny_encoder("shared") for _ in range(2))
    assert one is two
    one.release(wait=True)
    await two.encode([ONE])
    two.release(wait=True)
    assert not [each for each in threading.enumerate() if "mcranker-encoder" in each.name]
    three = tiny_encoder("shared")
    assert three is not one
    three.release(wait=True)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
async def test_a_forked_process_encodes_with_threads_of_its_own(
    encoder: Encoder, engine: TinyEngine
) -> None:
    before = (await encoder.encode([ONE])).vectors
    child = os.fork()
    if child == 0:
        code = 1
        try:
            after = asyncio.run(encoder.encode([ONE, TWO])).vectors
            code = 0 if (after[0] == before[0]).all() and engine.loads == 2 else 1
        finally:
            os._exit(code)
    assert await asyncio.to_thread(os.waitpid, child, 0) == (child, 0)
