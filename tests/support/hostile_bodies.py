"""Bodies below 4 MB that are made to stop the service, by kind."""

from __future__ import annotations

import json

MANY = 1_300_000
NUMBERS = b"[" + b"1," * MANY + b"1]"
KEYS = b",".join(b'"%06x":1' % number for number in range(330_000))
FEW = b",".join(b'"%06x":1' % number for number in range(49_000))


def body(**fields: object) -> bytes:
    """JSON of which values can be given as bytes."""
    asked: dict[str, object] = {"query": "q", "documents": ["a"], **fields}
    values = (
        (name, value if isinstance(value, bytes) else json.dumps(value).encode())
        for name, value in asked.items()
        if value is not None
    )
    return b"{" + b",".join(b'"' + name.encode() + b'":' + value for name, value in values) + b"}"


def texts(count: int, each: str) -> list[str]:
    """Different texts, 4 MB in all."""
    return [f"{number} " + each * (3_900_000 // count // len(each)) for number in range(count)]


_LISTS = {
    f"{route} {name}": (route, body(**{"documents": None, name: NUMBERS}), 413)
    for route, names in {
        "/v2/rerank": ("documents", "texts", "passages", "input", "text_2", "items", "data_2"),
        "/v1/rank": ("documents", "query"),
        "/v1/rank/stream": ("documents",),
    }.items()
    for name in names
}
KINDS: dict[str, tuple[str, bytes, int]] = {
    **_LISTS,
    "lists": ("/v2/rerank", body(documents=b"[" + b"[]," * MANY + b"[]]"), 413),
    "objects": ("/v2/rerank", body(documents=b"[" + b"{}," * MANY + b"{}]"), 413),
    "keys": ("/v2/rerank", body()[:-1] + b"," + KEYS + b"}", 413),
    "keys of options": ("/v1/rank", body(options=b"{" + KEYS + b"}"), 413),
    "keys of a document": ("/v2/rerank", body(documents=b"[{" + KEYS + b"}]"), 413),
    "the same key": ("/v2/rerank", b"{" + b'"query":"q",' * 300_000 + b'"documents":["a"]}', 413),
    "documents by id": ("/v1/rank", body(documents=b"{" + KEYS + b"}"), 413),
    "rank_fields": ("/v2/rerank", body(rank_fields=NUMBERS), 413),
    "members": ("/v1/rank", body(options=b'{"team":{"members":' + NUMBERS + b"}}"), 413),
    "fewer members": ("/v1/rank", body(options={"team": {"members": [1] * 9_000}}), 400),
    "fewer keys": ("/v2/rerank", body()[:-1] + b"," + FEW + b"}", 200),
    "fewer keys of a document": ("/v2/rerank", body(documents=b"[{" + FEW + b"}]"), 400),
    "rank_fields of documents": (
        "/v2/rerank",
        body(
            rank_fields=[f"f{number}" for number in range(100)],
            documents=[{f"f{number}": "x" for number in range(45)}] * 1_000,
        ),
        200,
    ),
    "1,000 levels": ("/v1/rank", body(options=b'{"a":' * 1_000 + b"1" + b"}" * 1_000), 400),
    "100,000 levels": ("/v1/rank", body(documents=b"[" * 100_000 + b"]" * 100_000), 413),
    "30,000 levels": ("/v1/rank", body(documents=b"[" * 30_000 + b"]" * 30_000), 400),
    "open levels": ("/v1/rank", b"[" * 3_900_000, 413),
    "a long number": ("/v2/rerank", body(top_n=b"1" * 3_900_000), 400),
    "a long text": ("/v2/rerank", body(documents=texts(1, "word, ")), 200),
    "many texts": ("/v2/rerank", body(documents=texts(1_000, "word, ")), 200),
    "all that is known": ("/v1/rank", body(documents=texts(1_000, "word, ")), 200),
    "texts of separators": ("/v2/rerank", body(documents=texts(10, ",[{")), 200),
    "escapes": ("/v2/rerank", body(documents=b'["' + rb"\",\\" * 700_000 + b'"]'), 200),
    "a text of tags": ("/v2/rerank", body(documents=texts(1, "<a>")), 200),
    "a text of brackets": ("/v2/rerank", body(documents=texts(1, "[")), 200),
    "texts of brackets": ("/v2/rerank", body(documents=texts(1_000, "<")), 200),
    "lone surrogates": ("/v2/rerank", body(documents=b'["' + rb"\ud800" * 600_000 + b'"]'), 400),
    "NaN": ("/v2/rerank", body(timeout=b"NaN"), 400),
    "Infinity": ("/v2/rerank", body(timeout=b"1e999"), 400),
    "no end": ("/v2/rerank", b'{"query":"' + b"a" * 3_900_000, 400),
    "no Unicode": ("/v2/rerank", body(query=b'"' + b"\xff" * 3_900_000 + b'"'), 400),
}
"""Kind -> route, body and the status of the answer."""
