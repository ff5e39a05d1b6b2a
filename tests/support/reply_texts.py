"""Texts that models might write, for property tests of reading them."""

from __future__ import annotations

import json

from hypothesis import strategies as st

_PIECES = [
    *('{"Score": ', "{'Scores': [", '"Criteria": [', '{"Weight": ', '"Identities": ["', "7", "1"),
    *("0", "}", "]", '"', "'", ",", " ", "\n", "```", "json", "null", "1e9", "\\ud800", "a"),
]

any_text = (
    st.text()
    | st.text(st.sampled_from("{}[]\"'`:,. \n0123456789Score\\-"))
    | st.lists(st.sampled_from(_PIECES), max_size=20).map("".join)
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
keyed = st.dictionaries(
    st.sampled_from(["Score", "Scores", "Criteria", "Identities", "Reason", "1", "2"])
    | st.sampled_from(["Criterion", "Explanation", "Weight", "Identity", "Name"]),
    json_values
    | st.lists(
        st.dictionaries(
            st.sampled_from(["Criterion", "Explanation", "Weight", "Identity", "Reason"]),
            st.text(min_size=1) | st.integers(-1, 100) | st.floats() | st.none(),
        ),
        max_size=4,
    )
    | st.lists(st.text(), max_size=4)
    | st.dictionaries(st.text(), st.text() | st.integers(0, 100), max_size=4),
)
replies = any_text | keyed.map(json.dumps) | keyed.map(repr)
