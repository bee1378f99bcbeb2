"""What is said in a SASL login, with the examples of the standards and with brokers that lie."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest

from sparkmirror.clusters.security.logins import Exchange, LoginFailed, plain_exchange, scram_exchange, token_exchange

# RFC 7677 §3.
NONCE = "rOprNGfwEbeRWgbNEkqO"
FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def ended(exchange: Exchange, answer: bytes) -> bool:
    try:
        exchange.send(answer)
    except StopIteration:
        return True
    return False


def test_scram_says_what_the_standard_says() -> None:
    exchange = scram_exchange("SCRAM-SHA-256", "user", "pencil", NONCE)
    assert next(exchange) == FIRST
    assert exchange.send(SERVER_FIRST) == FINAL
    assert ended(exchange, SERVER_FINAL)


def test_scram_512_is_believed_when_the_broker_knows_the_password() -> None:
    exchange = scram_exchange("SCRAM-SHA-512", "a,b=c", "pä$$", "mine")
    assert next(exchange) == b"n,,n=a=2Cb=3Dc,r=mine"
    first = b"r=minetheirs,s=" + base64.b64encode(b"salt") + b",i=5000"
    said = b"n=a=2Cb=3Dc,r=mine," + first + b",c=biws,r=minetheirs"
    salted = hashlib.pbkdf2_hmac("sha512", "pä$$".encode(), b"salt", 5000)
    signature = hmac.digest(hmac.digest(salted, b"Server Key", "sha512"), said, "sha512")
    exchange.send(first)
    assert ended(exchange, b"v=" + base64.b64encode(signature))


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"", "malformed"),
        (b"e=other-error", "malformed"),
        (SERVER_FIRST.replace(b"i=4096", b"i=4095"), "4095 iterations"),
        (SERVER_FIRST.replace(b"i=4096", b"i=999999999"), "999999999 iterations"),
        (SERVER_FIRST.replace(b"i=4096", b"i=-1"), "malformed"),
        (SERVER_FIRST.replace(b"rOpr", b"xOpr"), "nonce"),
        (b"r=rOprNGfwEbeRWgbNEkqO,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "nonce"),
        (SERVER_FIRST.replace(b"gQ==", b"gQ="), "base64"),
        (b"m=ext," + SERVER_FIRST, "malformed"),
        (b"\xff" * 100_000, "malformed"),
    ],
)
def test_a_broker_that_asks_for_something_else_is_refused(answer: bytes, words: str) -> None:
    exchange = scram_exchange("SCRAM-SHA-256", "user", "pencil", NONCE)
    next(exchange)
    with pytest.raises(LoginFailed, match=words):
        exchange.send(answer)


@pytest.mark.parametrize("answer", [b"", b"v=", b"v=AAAA", b"e=invalid-proof", SERVER_FINAL.replace(b"6r", b"7r"), b"v=6rr"])
def test_a_broker_that_does_not_know_the_password_is_refused(answer: bytes) -> None:
    exchange = scram_exchange("SCRAM-SHA-256", "user", "pencil", NONCE)
    next(exchange)
    exchange.send(SERVER_FIRST)
    with pytest.raises(LoginFailed):
        exchange.send(answer)


def test_nonces_differ() -> None:
    assert next(scram_exchange("SCRAM-SHA-256", "u", "p")) != next(scram_exchange("SCRAM-SHA-256", "u", "p"))


def test_plain_says_user_and_password_once() -> None:
    exchange = plain_exchange("ann", "pä")
    assert next(exchange) == "\0ann\0pä".encode()
    assert ended(exchange, b"")
    exchange = plain_exchange("ann", "p")
    next(exchange)
    with pytest.raises(LoginFailed):
        exchange.send(b"more?")


def test_a_token_goes_out_with_its_extensions_and_a_complaint_is_answered() -> None:
    exchange = token_exchange("a.b.", {"logicalCluster": "lkc-1"})
    assert next(exchange) == b"n,,\x01auth=Bearer a.b.\x01logicalCluster=lkc-1\x01\x01"
    assert ended(exchange, b"")
    exchange = token_exchange("a.b.", {})
    assert next(exchange) == b"n,,\x01auth=Bearer a.b.\x01\x01"
    assert exchange.send(b'{"status":"invalid_token"}') == b"\x01"
