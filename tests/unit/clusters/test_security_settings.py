"""From keys to a login: what is refused before anything is sent."""

from __future__ import annotations

import os
import ssl
from pathlib import Path

import pytest
from integration.token_server import token_server

from sparkmirror.clusters import rights
from sparkmirror.clusters.security.logins import LoginFailed, kerberos_exchange
from sparkmirror.clusters.security.settings import principal_of, sasl_login, tls_context
from sparkmirror.clusters.security.tls import _file_in_memory
from sparkmirror.clusters.security.tokens import TokenRefused, TokenRequest, token_for
from sparkmirror.config import Secret, parse
from sparkmirror.errors import ConfigError

MODULES = "org.apache.kafka.common.security."
PLAIN = f'{MODULES}plain.PlainLoginModule required username="ann" password="canary";'
SCRAM = f'{MODULES}scram.ScramLoginModule required username="ann" password="canary";'
TOKENS = f'{MODULES}oauthbearer.OAuthBearerLoginModule required clientId="ann" clientSecret="canary"'
URL = "sasl.oauthbearer.token.endpoint.url"


def keys(mechanism: str, jaas: str, **more: str) -> dict[str, str]:
    written = {"security.protocol": "SASL_SSL", "sasl.mechanism": mechanism, "sasl.jaas.config": Secret(jaas)}
    return written | {name.replace("_", "."): text for name, text in more.items()}


def refusal(security: dict[str, str], host: str = "broker.example") -> str:
    with pytest.raises(ConfigError) as refused:
        sasl_login(security, host)
    assert "canary" not in str(refused.value)
    return str(refused.value)


def test_a_protocol_without_sasl_or_tls_needs_nothing() -> None:
    assert sasl_login({"security.protocol": "SSL"}, "h") is None
    assert sasl_login({}, "h") is None
    assert tls_context({}) is None
    assert tls_context({"security.protocol": "SASL_PLAINTEXT"}) is None


def test_plain_without_tls_needs_a_word_of_the_user_unless_it_stays_on_this_machine() -> None:
    security = keys("PLAIN", PLAIN) | {"security.protocol": "SASL_PLAINTEXT"}
    assert "would send the password readable" in refusal(security)
    assert "sasl.plain.without.tls.allowed = true" in refusal(security, "127.0.0.1.example")
    for host in ("localhost", "127.0.0.1", "::1"):
        assert sasl_login(security, host) is not None
    assert sasl_login(security | {"sasl.plain.without.tls.allowed": "true"}, "broker.example") is not None
    assert sasl_login(security | {"sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": SCRAM}, "b.example") is not None
    assert sasl_login(keys("PLAIN", PLAIN), "broker.example") is not None


@pytest.mark.parametrize(
    ("mechanism", "jaas", "words"),
    [
        ("PLAIN", "", "expected `org.apache.kafka.common.security.plain.PlainLoginModule required"),
        ("PLAIN", SCRAM, f"expected the login module {MODULES}plain.PlainLoginModule for PLAIN, found {MODULES}scram"),
        ("PLAIN", 'com.sun.security.auth.module.JndiLoginModule required user.provider.url="ldap://x/canary";',
         "found another one, which is not known here"),
        ("PLAIN", f'{MODULES}plain.PlainLoginModule required username="ann";', "option password is missing"),
        ("PLAIN", PLAIN.replace(";", ' debug="true";'), "PLAIN has no option debug here"),
        ("SCRAM-SHA-256", SCRAM.replace(";", ' tokenauth="true";'), "has no option tokenauth"),
        ("SCRAM-SHA-1", SCRAM, "sasl.mechanism: expected one of PLAIN, SCRAM-SHA-256"),
        ("GSSAPI", "", "pip install 'sparkmirror[kerberos]'"),
        ("OAUTHBEARER", f"{TOKENS};", f"{URL}: expected https://host/…, found nothing"),
        ("OAUTHBEARER", f'{TOKENS} unsecuredLoginStringClaim_sub="x";', "tokens that anybody can make"),
        ("OAUTHBEARER", f'{TOKENS} extension_auth="x";', "extension_auth"),
        ("OAUTHBEARER", f'{TOKENS} extension_a="x\\u0001";'.replace("\\u0001", "\x01"), "extension_a"),
    ],
)  # fmt: skip
def test_another_login_than_that_of_the_mechanism_is_refused(mechanism: str, jaas: str, words: str) -> None:
    assert words in refusal(keys(mechanism, jaas))


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("file:///etc/passwd", "found file:"),
        ("http://tokens.example/t", "http to another machine"),
        ("http://127.0.0.1.example/t", "http to another machine"),
        ("http://localhost@tokens.example/t", "a user or a password in it"),
        ("ftp://tokens.example/t", "found ftp:"),
        ("https:///t", "found https:"),
        ("https://tokens.example:99999/t", "cannot be read"),
        ("https://tokens.example/t\r\nHost: x", "cannot be read"),
        ("/etc/passwd", "nothing of that kind"),
    ],
)
def test_a_token_endpoint_is_https_or_this_machine(url: str, words: str) -> None:
    assert words in refusal(keys("OAUTHBEARER", f"{TOKENS};") | {URL: url})


def test_a_token_is_kept_and_renewed_before_its_end() -> None:
    with token_server("ann", "canary", life_s=600) as server:
        security = keys("OAUTHBEARER", f'{TOKENS} scope="a b";') | {URL: server.url}
        logins = [sasl_login(security, "broker.example") for _ in range(3)]
        assert [next(login.exchange) for login in logins if login is not None] == 3 * [
            f"n,,\x01auth=Bearer {server.given[0]}\x01\x01".encode()
        ]
        assert server.bodies == [b"grant_type=client_credentials&scope=a+b"]
        assert "canary" not in repr(logins[0])
        server.life_s = 0.0
        other = security | {"sasl.oauthbearer.scope": "short"}
        for _ in range(3):
            sasl_login(other, "broker.example")
        assert len(server.given) == 4


def test_a_kept_token_is_used_while_the_endpoint_is_down() -> None:
    with token_server("ann", "canary", life_s=2.0) as server:
        request = TokenRequest(server.url, "ann", "canary", None, None, 1.0, 1.0, 0.0001, False)
        token = token_for(request)
    assert token_for(request) == token
    assert "canary" not in repr(request)


BAD_ANSWERS = [b"", b"[]", b"{}", b'{"access_token": 3}', b'{"access_token": "a\\u0001b"}', b"\xff",
               b"[" * 9999]  # fmt: skip


@pytest.mark.parametrize("body", BAD_ANSWERS)
def test_an_answer_that_is_no_token_is_refused(body: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sparkmirror.clusters.security.tokens._post", lambda connection, request: (200, body))
    with token_server("ann", "canary") as server:
        request = TokenRequest(server.url, "ann", "canary", repr(body), None, 1.0, 1.0, 0.8, False)
        with pytest.raises(TokenRefused, match="token endpoint"):
            token_for(request)


def test_a_context_is_made_once_and_checks_by_default() -> None:
    security = {"security.protocol": "SSL"}
    context = tls_context(security)
    assert context is not None
    assert tls_context(dict(security)) is context
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
    unchecked = tls_context(security | {"ssl.endpoint.identification.algorithm": ""})
    assert unchecked is not None
    assert (unchecked.verify_mode, unchecked.check_hostname) == (ssl.CERT_REQUIRED, False)


def test_old_versions_of_tls_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"ssl\.enabled\.protocols: expected TLSv1\.2 or TLSv1\.3"):
        tls_context({"security.protocol": "SSL", "ssl.enabled.protocols": "TLSv1, TLSv1.1"})


def test_a_key_file_that_others_may_read_is_a_warning(tmp_path: Path) -> None:
    file = tmp_path / "key.pem"
    file.touch()
    text = "clusters=A,B\nA.bootstrap.servers=a:1\nB.bootstrap.servers=b:1\nA->B.enabled=true\n"
    text += f"A.ssl.keystore.location={file}\n"
    for mode, warnings in ((0o600, 0), (0o640, 1), (0o604, 1)):
        os.chmod(file, mode)
        found = [line for line in parse(text, "f", {}).warnings if "may read the private key" in line]
        assert len(found) == warnings


def test_kerberos_wants_a_service_name_and_a_keytab_that_kerberos_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sparkmirror.clusters.security.settings.has_kerberos", lambda: True)
    monkeypatch.delenv("KRB5_CLIENT_KTNAME", raising=False)
    module = "com.sun.security.auth.module.Krb5LoginModule required"
    assert "sasl.kerberos.service.name: expected" in refusal(keys("GSSAPI", ""))
    security = keys("GSSAPI", f'{module} useKeyTab=true keyTab="/k" principal="m@X";', sasl_kerberos_service_name="kafka")
    assert "start with KRB5_CLIENT_KTNAME=/k" in refusal(security)
    monkeypatch.setenv("KRB5_CLIENT_KTNAME", "FILE:/k")
    login = sasl_login(security, "broker.example")
    assert login is not None
    assert (login.mechanism, login.who) == ("GSSAPI", "principal m@X")


def test_kerberos_without_its_library_is_a_failed_login() -> None:
    with pytest.raises(LoginFailed, match="Kerberos: GSSAPI lib not found"):
        next(kerberos_exchange("kafka", "broker.example"))


def test_a_private_key_is_in_a_file_that_is_on_no_disk() -> None:
    with _file_in_memory("secret") as path:
        assert os.readlink(path).startswith("/memfd:")
        assert Path(path).read_text() == "secret"
    assert not os.path.exists(path)


@pytest.mark.parametrize(
    ("security", "who"),
    [
        (keys("PLAIN", PLAIN), "user ann"),
        (keys("SCRAM-SHA-512", SCRAM), "user ann"),
        (keys("OAUTHBEARER", f"{TOKENS};"), "client ann"),
        (keys("GSSAPI", 'com.sun.security.auth.module.Krb5LoginModule required principal="m@X";'), "principal m@X"),
        (keys("PLAIN", "what?"), "whoever sasl.jaas.config names"),
        (keys("SCRAM-SHA-1", SCRAM), "whoever sasl.jaas.config names"),
        ({"security.protocol": "SSL", "ssl.keystore.location": "/k.p12"},
         "the subject of the certificate of ssl.keystore.location /k.p12"),
        ({"security.protocol": "SSL"}, "User:ANONYMOUS (there is no login)"),
        ({}, "User:ANONYMOUS (there is no login)"),
    ],
)  # fmt: skip
def test_who_must_be_given_a_missing_right_is_told(security: dict[str, str], who: str) -> None:
    assert principal_of(security) == who
    assert rights.refusal(29, who, "Read on topic t") == f"TOPIC_AUTHORIZATION_FAILED (29): {who} needs Read on topic t"
    assert rights.refusal(7, who, "Read on topic t") == "REQUEST_TIMED_OUT (7)"
