"""What masks find by the names of values, and what they leave: ordinary text stays readable."""

from __future__ import annotations

import json
import logging
import time

import pytest

from headgate.common.masking import MASK, Mask
from headgate.common.process.log_lines import JsonFormatter

SECRETS = [
    ("Server=db;Uid=sa;PWD=hidden;Timeout=3", "Server=db;Uid=sa;PWD=*;Timeout=3"),
    ("DB_PWD=hidden", "DB_PWD=*"),
    (
        "AccountName=a;AccountKey=hidden+/c==;EndpointSuffix=net",
        "AccountName=a;AccountKey=*;EndpointSuffix=net",
    ),
    ("https://a.example/c?sv=1&sig=hidden%3D&se=2", "https://a.example/c?sv=1&sig=*&se=2"),
    ("X-Amz-Signature=hidden&x=1", "X-Amz-Signature=*&x=1"),
    ("password: hidden", "password: *"),
    ("login:\n  password: hidden\n  user: ada", "login:\n  password: *\n  user: ada"),
    ("wrong password: hidden22 for ada", "wrong password: * for ada"),
    ("password: 'hidden words' for ada", "password: * for ada"),
    ("token: ghp_hidden2F292c6912E7710c for ada", "token: * for ada"),
    (str({"password": b"hidden", "n": 1}), "{'password': *, 'n': 1}"),
    (str({"pwd": 'it\'s "hidden"', "n": 1}), "{'pwd': *, 'n': 1}"),
    (json.dumps({"password": 'a "hidden"', "n": 1}), '{"password": *, "n": 1}'),
    ("connect(password=b'hidden', n=1)", "connect(password=*, n=1)"),
    ("cut: password='hidden", "cut: password=*"),
]


@pytest.mark.parametrize(("text", "masked"), SECRETS)
def test_values_with_names_of_secrets_are_masked(text: str, masked: str) -> None:
    """In URLs, connection strings, calls, texts of dicts and YAML; and a masked text stays as it is."""
    assert Mask().text(text) == masked.replace("*", MASK)
    assert Mask().text(Mask().text(text)) == Mask().text(text)


@pytest.mark.parametrize(
    "text",
    [
        "design=5 signal=3 sigma=0.1 OLDPWD=/home/ada",
        "s3.secret-key: expected a text, got 5",
        "password: expected at least one character",
        "unexpected token: '}' in line 5; next token: name",
        "missing secret: s3.secret-key is not set",
        "credentials: none; {'password': None}",
        "primary key: id, partition key: user, 12 key groups: 0..11",
        "KeyError: 'password'",
        "the password is wrong: try again",
    ],
)
def test_ordinary_text_stays(text: str) -> None:
    """A word alone makes no secret of what follows it."""
    assert Mask().text(text) == text


def test_values_of_real_dicts_are_masked_by_their_names() -> None:
    """Plain data, and what a program adds to a log line; numbers and names in the plural are none."""
    facts = {"password": "hidden", "in": [{"Client_Secret": "hidden"}], "tokens": "a b", "token": 17}
    assert Mask().facts(facts) == {
        "password": MASK, "in": [{"Client_Secret": MASK}], "tokens": "a b", "token": 17,
    }  # fmt: skip
    extra = {"password": b"hidden", "login": {"api_key": "hidden"}, "tokens": "a b", "token": 17}
    line = json.loads(JsonFormatter().format(logging.makeLogRecord({"msg": "a", **extra})))
    assert line["extra"] == {
        "password": MASK, "login": f"{{'api_key': {MASK}}}", "tokens": "a b", "token": 17,
    }  # fmt: skip


def test_hostile_texts_take_no_time() -> None:
    """A million characters, made for patterns to try again at each of them."""
    for part in (
        "password:",
        "password: aaaa ",
        "password='\\'",
        "password='\"",
        "secret: aaaaaaaaaaaaaaaaaaa ",
    ):
        began = time.process_time()
        Mask().text(part * (1_000_000 // len(part)))
        assert time.process_time() - began < 20, part
    began = time.process_time()
    Mask().text("password:" + " " * 1_000_000)
    assert time.process_time() - began < 20
