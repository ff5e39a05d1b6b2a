"""The paper's eight data sets: their names, sources and topics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Known:
    """A data set of the paper."""

    name: str  # its key in the paper's tables, e.g. ``"touche"``
    title: str  # its usual name, e.g. ``"Touché 2020"``
    ir_datasets: str | None  # its id in ir_datasets; None if it is not there
    about: str  # what the collection holds and what its queries are, for ``criteria="dataset"``
    queries: int  # how many the paper ranks
    documents: int  # how many the collection has in BEIR
    licence: str = ""  # whom to ask for it, and how; empty if it can be downloaded freely
    # Where its main file is, below the folder of ir_datasets; empty if it is not there.
    files: str = ""
    # Field of the queries that BEIR takes; empty for ir_datasets' default text.
    query_field: str = ""


_ALL = (
    Known(
        name="trec-covid",
        title="TREC-COVID",
        ir_datasets="beir/trec-covid",
        about="Scientific articles about COVID-19 and other coronaviruses, most of them as title "
        "and abstract. The queries are questions that doctors, researchers and policy makers "
        "asked during the pandemic; a relevant article helps to answer the question.",
        queries=50,
        documents=171_332,
        files="beir/trec-covid/source.zip",
    ),
    Known(
        name="touche",
        title="Touché 2020",
        # Of its two versions the second: it has 296 judgements of grade 1 and 636 of grade 2,
        # and Anserini's file for BEIR 1.0.0, which its 0.4422 is measured with, has just those 932.
        ir_datasets="beir/webis-touche2020/v2",
        about="Arguments by users of online debate portals, for and against all kinds of claims. "
        "The queries are controversial questions such as whether something should be allowed; a "
        "relevant passage is an argument for either side of the question, and the better argued, "
        "the more useful it is.",
        queries=49,
        documents=382_545,
        files="beir/webis-touche2020/v2/source.zip",
    ),
    Known(
        name="news",
        title="TREC-News",
        ir_datasets="wapo/v2/trec-news-2019",
        about="Articles and blog posts of a large American newspaper from 2012 to 2017. Each query "
        "is the headline of an article; a relevant passage is another article that gives its "
        "reader the background or context needed to understand the story.",
        queries=57,
        documents=594_977,
        licence="its articles (the Washington Post collection, version 2) are licensed; ask NIST "
        "for them at https://trec.nist.gov/data/wapost/",
        files="wapo/WashingtonPost.v2.tar.gz",
    ),
    Known(
        name="signal",
        title="Signal-1M",
        ir_datasets=None,
        about="Short messages from Twitter, written in 2015. Each query is the headline of a "
        "news article; a relevant message is about the same event or subject as the article.",
        queries=97,
        documents=2_866_316,
        licence="its queries and judgements are given out by Signal AI at "
        "https://research.signal-ai.com/datasets/signal1m-tweetir.html, and its tweets have to be "
        "fetched by their ids",
    ),
    Known(
        name="dbpedia",
        title="DBPedia",
        ir_datasets="beir/dbpedia-entity/test",
        about="Entities of DBpedia (people, places, works, organisations and other things), each "
        "with its name and the first paragraph of its encyclopedia article. The queries are "
        "names, keywords, requests for lists, and questions; a relevant entity is an answer, or "
        "one of the things that are looked for.",
        queries=400,
        documents=4_635_922,
        files="beir/dbpedia-entity/source.zip",
    ),
    Known(
        name="scifact",
        title="SciFact",
        ir_datasets="beir/scifact/test",
        about="Titles and abstracts of scientific articles, mostly from biology and medicine. The "
        "queries are scientific claims of one sentence; a relevant abstract holds evidence that "
        "supports the claim or speaks against it.",
        queries=300,
        documents=5_183,
        files="beir/scifact/source.zip",
    ),
    Known(
        name="robust04",
        title="Robust04",
        ir_datasets="disks45/nocr/trec-robust-2004",
        about="News articles and government notices from about 1989 to 1996: two newspapers, a "
        "service that translates foreign broadcasts, and the United States Federal Register. "
        "Each query is a sentence or two that say what is looked for, on subjects known to be "
        "difficult; a relevant document has information about just that.",
        queries=249,
        documents=528_155,
        licence="its documents (TREC disks 4 and 5) are licensed; ask NIST for them at "
        "https://trec.nist.gov/data/cd45/index.html",
        files="disks45/corpus",
        query_field="description",
    ),
    Known(
        name="nfcorpus",
        title="NFCorpus",
        ir_datasets="beir/nfcorpus/test",
        about="Titles and abstracts of medical research articles, written for experts. The queries "
        "are headings and keywords in everyday words from a website about nutrition and health; "
        "a relevant abstract is research on the subject that the website's page rests on.",
        queries=323,
        documents=3_633,
        files="beir/nfcorpus/source.zip",
    ),
)

CATALOGUE: Mapping[str, Known] = MappingProxyType({each.name: each for each in _ALL})
"""The paper's data sets by name, in the order of its tables' columns."""

_ALIASES = {
    "covid": "trec-covid",
    "treccovid": "trec-covid",
    "touché": "touche",
    "touche2020": "touche",
    "touche-2020": "touche",
    "webis-touche2020": "touche",
    "trec-news": "news",
    "trecnews": "news",
    "signal1m": "signal",
    "signal-1m": "signal",
    "dbpedia-entity": "dbpedia",
    "sci-fact": "scifact",
    "robust": "robust04",
    "nf-corpus": "nfcorpus",
}
_BY_WORD = {
    **{each.ir_datasets: each for each in _ALL if each.ir_datasets},
    **CATALOGUE,
    **{alias: CATALOGUE[name] for alias, name in _ALIASES.items()},
}


def known(name: str) -> Known | None:
    """The paper's data set of that name, alias or ir_datasets id, in any case; None if none is."""
    return _BY_WORD.get(name.lower())
