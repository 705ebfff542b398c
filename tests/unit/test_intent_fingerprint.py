"""Equal intents have equal bytes, other intents other ones, in Python and in JavaScript."""

import hashlib
import json
import random
import shutil
import struct
import subprocess
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from acuse.errors import InvalidPayload
from acuse.intent import MAX_PAYLOAD_BYTES, body, canonical, differing_paths, digest, parse, read_body

ACTION, TARGET = "crm.close_case.v1", "case-318"

# JSON texts, as they arrive over a wire.
SAME = {
    "1.0 and 1": ('{"a":1.0}', '{"a":1}'),
    "order of keys": ('{"a":1,"b":{"c":2,"d":3}}', '{"b":{"d":3,"c":2},"a":1}'),
    "blanks between tokens": ('{"a":[1,2]}', '{ "a" : [ 1 ,\n 2 ] }'),
    "negative zero": ('{"a":-0.0}', '{"a":0}'),
    "1e20 in digits": ('{"a":1e20}', '{"a":100000000000000000000}'),
    "1e20 with a point": ('{"a":1E+20}', '{"a":100000000000000000000.0}'),
    "1e-7 in digits": ('{"a":1e-7}', '{"a":0.0000001}'),
    "escaped and plain": ('{"a":"\\u00e9\\/"}', '{"a":"é/"}'),
    "an emoji, escaped and plain": ('{"a":"\\ud83d\\ude00"}', '{"a":"😀"}'),
}
OTHER = {
    "text and number": ('{"a":"1"}', '{"a":1}'),
    "number and true": ('{"a":1}', '{"a":true}'),
    "zero and false": ('{"a":0}', '{"a":false}'),
    "null and missing": ('{"a":null}', "{}"),
    "null and empty": ('{"a":null}', '{"a":""}'),
    "trailing blank": ('{"a":"a"}', '{"a":"a "}'),
    "case": ('{"a":"A"}', '{"a":"a"}'),
    "composed and decomposed accent": ('{"a":"\\u00e9"}', '{"a":"e\\u0301"}'),
    "order of items": ('{"a":[1,2]}', '{"a":[2,1]}'),
}


def fingerprint(text: str) -> bytes:
    payload = parse(text.encode())
    assert isinstance(payload, dict)
    return digest(body(ACTION, TARGET, payload))


@pytest.mark.case("R053")
@pytest.mark.parametrize("pair", SAME.values(), ids=SAME.keys())
def test_two_spellings_of_the_same_payload_have_one_fingerprint(pair: tuple[str, str]) -> None:
    assert fingerprint(pair[0]) == fingerprint(pair[1])


@pytest.mark.case("R053")
@pytest.mark.parametrize("pair", OTHER.values(), ids=OTHER.keys())
def test_two_payloads_that_mean_different_things_have_two_fingerprints(pair: tuple[str, str]) -> None:
    assert fingerprint(pair[0]) != fingerprint(pair[1])


_JAVASCRIPT = """
const sorted = (v) => Array.isArray(v) ? v.map(sorted) : (v && typeof v === "object")
  ? Object.keys(v).sort().map((k) => JSON.stringify(k) + ":" + text(v[k])) : v;
const text = (v) => Array.isArray(v) ? "[" + v.map(text).join(",") + "]"
  : (v && typeof v === "object") ? "{" + sorted(v).join(",") + "}" : JSON.stringify(v);
const lines = require("fs").readFileSync(0, "utf8").split("\\n").filter((l) => l);
process.stdout.write(lines.map((l) => text(JSON.parse(JSON.parse(l)))).join("\\n"));
"""


@pytest.mark.case("R053")
@pytest.mark.skipif(shutil.which("node") is None, reason="needs node, to compare with another language")
def test_javascript_writes_the_same_bytes() -> None:
    # Given the pairs above, keys whose order differs between UTF-8 and UTF-16, and doubles of every size
    chance = random.Random(53)
    doubles = [struct.unpack("<d", chance.randbytes(8))[0] for _ in range(500)]
    doubles += [chance.uniform(-1, 1) * 10.0 ** chance.randint(-9, 23) for _ in range(500)]
    texts = [text for pair in (*SAME.values(), *OTHER.values()) for text in pair]
    texts.append('{"\\ufb33":1,"\\ud83d\\ude00":2,"\\u20ac":3,"a":4}')
    texts += [json.dumps({"n": double}) for double in doubles if double == double and abs(double) != float("inf")]

    # When node parses each text and writes it again with sorted keys
    lines = "\n".join(json.dumps(text) for text in texts)
    done = subprocess.run(["node", "-e", _JAVASCRIPT], input=lines, capture_output=True, text=True, check=True, timeout=60)

    # Then its bytes are ours
    assert done.stdout.split("\n") == [canonical(parse(text.encode())).decode() for text in texts]


_JSON_VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00")),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00")), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(_JSON_VALUES)
def test_canonical_bytes_survive_being_read_and_written_again(value: Any) -> None:
    once = canonical(value)
    assert canonical(parse(once)) == once


@given(_JSON_VALUES)
def test_canonical_bytes_survive_another_json_writer(value: Any) -> None:
    rewritten = json.dumps(value, indent=1, ensure_ascii=True)
    assert canonical(parse(rewritten.encode())) == canonical(value)


@given(st.dictionaries(st.text("abc"), _JSON_VALUES, max_size=3))
def test_a_body_is_the_canonical_form_of_its_three_parts_and_reads_back(payload: dict[str, Any]) -> None:
    data = body(ACTION, TARGET, payload)
    assert data == rfc8785.dumps({"target": TARGET, "payload": payload, "action": ACTION})
    assert digest(data) == hashlib.sha256(data).digest()
    assert body(*read_body(data)) == data


def test_a_damaged_body_is_told_apart() -> None:
    for damaged in (b"", b"[]", b'{"action":1,"payload":{},"target":"t"}', b"\xff", b'{"action":"a","payload":{}}'):
        with pytest.raises(InvalidPayload, match="damaged"):
            read_body(damaged)


def test_the_action_and_the_target_belong_to_the_fingerprint() -> None:
    assert len({body(ACTION, TARGET, {}), body("crm.close_case.v2", TARGET, {}), body(ACTION, "case-319", {})}) == 3


@pytest.mark.case("R058")
def test_differing_paths_name_places_in_order_and_no_values() -> None:
    old = body(ACTION, TARGET, {"same": 1, "flag": 1, "items": [{"price": 10}, {"price": 20}], "gone": None, "a b": "secret-1"})
    new = body(ACTION, "case-9", {"same": 1.0, "flag": True, "items": [{"price": 10}, {"price": 21}, 3], "a b": "secret-2"})
    assert differing_paths(old, new) == [
        '$.payload["a b"]',
        "$.payload.flag",
        "$.payload.gone",
        "$.payload.items[1].price",
        "$.payload.items[2]",
        "$.target",
    ]
    assert differing_paths(old, old) == []


def test_differing_paths_are_bounded() -> None:
    old = body(ACTION, TARGET, {f"k{n:03}": n for n in range(100)})
    new = body(ACTION, TARGET, {f"k{n:03}": n + 1 for n in range(100)})
    assert differing_paths(old, new) == [f"$.payload.k{n:03}" for n in range(20)]


def test_a_payload_of_exactly_the_limit_passes() -> None:
    frame = len(canonical({"a": ""}))
    data = body(ACTION, TARGET, {"a": "x" * (MAX_PAYLOAD_BYTES - frame)})
    assert read_body(data)[2].keys() == {"a"}
