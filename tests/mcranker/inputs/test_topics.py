"""TREC topics and tables of queries."""

from __future__ import annotations

import pytest

from mcranker.errors import InputError
from mcranker.inputs.topics import TopicField, read_topics
from personas.ranking.types import Query

SGML = """
<top>

<num> Number: 301
<title> International Organized Crime

<desc> Description:
Identify organizations that participate in
international criminal activity.

<narr> Narrative:
AT&amp;T, a < b & <b>bold</b>.
</top>

<top>
<num>302</num><title>Poliomyelitis: Query and Post-Polio</title>
<dom> Domain: Medicine
<desc>Is polio gone?</desc>
</top>
"""
COVID = """<?xml version="1.0" encoding="ISO-8859-1"?>
<topics task="COVIDSearch">
  <topic number="1">
    <query>coronavirus origin &amp; caf\u00e9</query>
    <question>what is the
      origin?</question>
    <narrative>seeking the origin</narrative>
  </topic>
  <topic><number>2</number><title>second</title><subtopic>a</subtopic><subtopic>b</subtopic></topic>
</topics>
"""


def read(text: str, topic_field: TopicField = "title") -> list[tuple[str, str]]:
    lines = ((f"f:{n}", line) for n, line in enumerate(text.splitlines(keepends=True), 1))
    found = read_topics(((w, line) for w, line in lines if line.strip()), "f", topic_field)
    assert all(isinstance(each, Query) for each in found)
    return [(each.id, each.text) for each in found]


def test_sgml_with_and_without_end_tags() -> None:
    assert read(SGML) == [
        ("301", "International Organized Crime"),
        ("302", "Poliomyelitis: Query and Post-Polio"),
    ]
    assert read(SGML, "desc") == [
        ("301", "Identify organizations that participate in international criminal activity."),
        ("302", "Is polio gone?"),
    ]


def test_what_is_no_tag_of_a_field_is_text() -> None:
    one = SGML.partition("</top>")[0] + "</top>"
    assert read(one, "narr") == [("301", "AT&T, a < b & <b>bold</b>.")]


def test_xml_by_attribute_or_element() -> None:
    assert read(COVID) == [("1", "coronavirus origin & caf\u00e9"), ("2", "second")]
    first = COVID.partition("  <topic><number>")[0] + "</topics>"
    assert read(first, "desc") == [("1", "what is the origin?")]
    assert read(first, "narr") == [("1", "seeking the origin")]


def test_a_topic_may_be_its_own_text() -> None:
    trial = '<topics>\n<topic number="7">A man of 58\nyears.</topic></topics>'
    assert read(trial) == [("7", "A man of 58 years.")]
    with pytest.raises(InputError, match="topic '7' has no text for the field 'desc'; it has none"):
        read(trial, "desc")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("qid\tquery\n1\tcat food\n2\tdogs\n", [("1", "cat food"), ("2", "dogs")]),
        ("1\tcat food\n2\tdogs\n", [("1", "cat food"), ("2", "dogs")]),
        ("docno\tquery\tqid\nd\tcat  food\t1\n", [("1", "cat food")]),
        ('qid\tquery\n1\tthe "cat\n', [("1", 'the "cat')]),
    ],
)
def test_tables(text: str, expected: list[tuple[str, str]]) -> None:
    assert read(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "f: there is no query in it"),
        ("<top>\n<num>1<title>a\n<top>", "f:1: the topic has no end; put </top> behind it"),
        ("<top><num>1<title>a</top>\n</top>", "f:2: </top> ends no topic"),
        ("<top><num>1<title>a</top>\n<title>b", "f:2: '<title>b' is outside of <top>"),
        ("<top><num>1<title>a</top>\nwords", "f:2: 'words' is outside of <top> and </top>"),
        ("<top><num>1\n<title>a\n<title>b</top>", "f:3: <title> occurs twice in a topic"),
        ("<top>\n<title>a</top>", "f:1: the topic has no id; give one without white space"),
        ("<top><num>1<desc>a</top>", "topic '1' has no text for the field 'title'; choose desc"),
        (
            "<top><num>1<title>a</top>\n<top><num>1<title>b</top>",
            "f:2: the id '1' is at f:1 already",
        ),
        ('<topics>\n<topic number="1"><query>a</query>', "f:2: the topic has no end; put </topic>"),
        ('<!DOCTYPE topics [<!ENTITY a "b">]>\n<topics/>', "is outside of <top>"),
        ("1\ta\n2\n", "f:2: 1 columns instead of 2, parted by tabs"),
        ("qid\tquery\n1\t \n", "f:2: query '1' has no text"),
        ("qid\tquery\n1 2\ta\n", "f:2: the id '1 2' is empty or holds white space"),
        ("1\ta\n1\tb\n", "f:2: the id '1' is at f:1 already; make ids unique"),
    ],
)
def test_what_is_wrong_is_named(text: str, message: str) -> None:
    with pytest.raises(InputError) as failure:
        read(text)
    assert message in str(failure.value)
