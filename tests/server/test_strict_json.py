"""Bodies that are not quite JSON are refused, never read in some way or other."""

import json

import pytest

from decobandit.support.validation import MAX_DEPTH, JsonError, parse

BAD = {
    "nothing": b"",
    "words": b"hello",
    "half": b'{"a": 1',
    "trailing": b'{"a": 1} 2',
    "trailing comma": b"[1,]",
    "comment": b"[1] // one",
    "single quotes": b"{'a': 1}",
    "nan": b"[NaN]",
    "infinity": b"[Infinity]",
    "minus infinity": b"[-Infinity]",
    "overflow": b"[1e999]",
    "minus overflow": b"[-1e999]",
    "long integer": b"[" + b"9" * 5000 + b"]",
    "long fraction": b"[0." + b"3" * 5000 + b"]",
    "leading zero": b"[01]",
    "plus": b"[+1]",
    "bare point": b"[1.]",
    "duplicate": b'{"a": 1, "a": 2}',
    "same key escaped": b'{"a": 1, "\\u0061": 1}',
    "inner duplicate": b'[{"b": {"a": 1, "a": 1}}]',
    "lone surrogate": b'["\\ud800"]',
    "lone surrogate as key": b'{"\\udfff": 1}',
    "reversed pair": b'["\\udc00\\ud800"]',
    "nul": b'["a\\u0000b"]',
    "nul as key": b'{"\\u0000": 1}',
    "raw newline": b'["a\nb"]',
    "latin-1": '["é"]'.encode("latin-1"),
    "utf-16": '["e"]'.encode("utf-16"),
    "utf-32": '["e"]'.encode("utf-32-le"),
    "byte order mark": b'\xef\xbb\xbf{"a": 1}',
    "overlong": b'["\xc0\xaf"]',
    "encoded surrogate": b'["\xed\xa0\x80"]',
    "deep list": b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1),
    "deep object": b'{"a":' * (MAX_DEPTH + 1) + b"1" + b"}" * (MAX_DEPTH + 1),
    "very deep": b"[" * 5000,
    "very deep objects": b'{"a":' * 2000,
}


@pytest.mark.parametrize("name", BAD)
def test_bad_bodies_are_refused_in_a_sentence(name: str) -> None:
    with pytest.raises(JsonError) as refused:
        parse(BAD[name])
    message = str(refused.value)
    assert message.isprintable()
    assert len(message) < 80


GOOD = [
    b"{}",
    b" [1, -2.5e3, true, false, null] ",
    '{"naïve": "日本 \\ud83d\\ude00"}'.encode(),
    b"[" * MAX_DEPTH + b"]" * MAX_DEPTH,
    b'"\\n\\t\\\\"',
    b"1e-999",
    b"12345678901234567890",
]


@pytest.mark.parametrize("body", GOOD)
def test_good_bodies_are_read_as_by_any_reader(body: bytes) -> None:
    assert parse(body) == json.loads(body)
