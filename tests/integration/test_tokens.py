"""Where tokens come from: over https with an authority of one's own, from servers that are slow, down, or not trusted."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from integration.authority import Authority, pkcs12, trust_store
from integration.secured import TOKEN_MODULE
from integration.token_server import TokenServer, token_server

from sparkmirror.clusters.security.settings import sasl_login
from sparkmirror.errors import ConfigError

URL = "sasl.oauthbearer.token.endpoint.url"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tokens"), "authority")


def keys(server: TokenServer, scope: str, *options: str) -> dict[str, str]:
    """A login of its own for each scope: tokens are kept by process."""
    jaas = " ".join((f'{TOKEN_MODULE} required clientId="ann" clientSecret="canary" scope="{scope}"', *options))
    return {
        "security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER", "sasl.jaas.config": f"{jaas};",
        URL: server.url,
    }  # fmt: skip


def trusting(path: Path, kind: str = "PEM", *more: str) -> Sequence[str]:
    return (f'ssl.truststore.location="{path}"', f'ssl.truststore.type="{kind}"', *more)


def told(security: dict[str, str]) -> str:
    with pytest.raises(ConfigError) as refused:
        sasl_login(security, "broker.example")
    assert "canary" not in str(refused.value)
    return str(refused.value)


def test_a_token_comes_over_https_from_a_server_that_the_options_of_the_jaas_text_trust(
    authority: Authority, tmp_path: Path
) -> None:
    store = trust_store(authority.file, tmp_path / "trusted.p12", "changeit", "PKCS12")
    with token_server("ann", "canary", certificate=authority.issue("tokens")) as server:
        for scope, options in (
            ("pem", trusting(authority.file)),
            ("store", trusting(store, "PKCS12", 'ssl.truststore.password="changeit"')),
        ):
            login = sasl_login(keys(server, scope, *options), "broker.example")
            assert login is not None
            assert next(login.exchange) == f"n,,\x01auth=Bearer {server.given[-1]}\x01\x01".encode()
        assert len(server.given) == 2


@pytest.mark.fault("F38")
def test_a_server_that_is_not_trusted_gets_no_secret_and_the_error_says_why_and_where_trust_is_written(
    authority: Authority,
) -> None:
    for name, issue, words in (
        ("unknown", {}, "unable to get local issuer certificate"),
        ("old", {"from_day": -9, "to_day": -2}, "certificate has expired"),
        ("young", {"from_day": 2, "to_day": 9}, "certificate is not yet valid"),
        ("elsewhere", {"hosts": ("DNS:other.example",)}, "IP address mismatch"),
    ):
        options = () if name == "unknown" else trusting(authority.file)
        with token_server("ann", "canary", certificate=authority.issue(f"tokens-{name}", **issue)) as server:  # type: ignore[arg-type]
            said = told(keys(server, name, *options))
            assert f"OAUTHBEARER: token endpoint {server.url}: its certificate is not trusted: " in said
            assert words in said
            assert "check the ssl.truststore options inside sasl.jaas.config" in said
            assert server.bodies == []


def test_an_option_of_the_jaas_text_that_is_none_is_refused(authority: Authority) -> None:
    with token_server("ann", "canary", certificate=authority.issue("options")) as server:
        said = told(keys(server, "typo", 'ssl.truststore.locaton="/x"'))
        assert "OAUTHBEARER has no option ssl.truststore.locaton here" in said


@pytest.mark.fault("F38")
def test_a_server_whose_answer_trickles_in_or_that_is_down_is_given_up_in_time() -> None:
    with token_server("ann", "canary") as server:
        server.is_slow = True
        began = time.monotonic()
        said = told(keys(server, "slow") | {"sasl.login.read.timeout.ms": "1000"})
        assert "cannot be asked: no answer in time" in said
        assert time.monotonic() - began < 10  # a byte every 0.1 s, 20 s in all
        server.is_slow = False
        server.down()
        assert "cannot be asked: [Errno 111] Connection refused" in told(keys(server, "down"))


@pytest.mark.fault("F38")
def test_a_kept_token_is_used_while_the_server_is_slow_which_is_not_asked_again_at_every_login() -> None:
    with token_server("ann", "canary", life_s=60.0) as server:
        security = keys(server, "kept") | {
            "sasl.login.read.timeout.ms": "500", "sasl.login.refresh.window.factor": "0.0001",
        }  # fmt: skip
        said = [next(login.exchange) for login in [sasl_login(security, "b")] if login is not None]
        server.is_slow = True
        time.sleep(0.02)  # so long it is kept without a question
        for _ in range(5):
            said += [next(login.exchange) for login in [sasl_login(security, "b")] if login is not None]
        assert said == 6 * [f"n,,\x01auth=Bearer {server.given[0]}\x01\x01".encode()]
        assert len(server.bodies) == 2


@pytest.mark.fault("F38")
def test_a_token_that_the_broker_refused_is_not_shown_to_it_again() -> None:
    with token_server("ann", "canary") as server:
        security = keys(server, "refused")
        first, again = sasl_login(security, "b"), sasl_login(security, "b")
        assert first is not None
        assert again is not None
        assert len(server.given) == 1
        first.refused()
        assert sasl_login(security, "b") is not None
        assert len(server.given) == 2
        again.refused()  # of the token before: the new one stays
        assert sasl_login(security, "b") is not None
        assert len(server.given) == 2


def test_a_redirect_is_not_followed() -> None:
    with token_server("ann", "canary") as elsewhere, token_server("ann", "canary") as server:
        server.sends_to = elsewhere.url
        assert "refused client ann: status 307" in told(keys(server, "redirect"))
        assert elsewhere.bodies == []


def test_the_keys_of_client_credentials_win_over_the_options_and_extensions_are_sent_along() -> None:
    with token_server("ben", "canary-of-ben") as server:
        name = "sasl.oauthbearer.client.credentials.client"
        login = sasl_login(keys(server, "of the options", 'extension_team="blue"') | {
            f"{name}.id": "ben", f"{name}.secret": "canary-of-ben", "sasl.oauthbearer.scope": "of the keys",
        }, "b")  # fmt: skip
        assert login is not None
        assert login.who == "client ben"
        assert next(login.exchange) == f"n,,\x01auth=Bearer {server.given[0]}\x01team=blue\x01\x01".encode()
        assert server.bodies == [b"grant_type=client_credentials&scope=of+the+keys"]


def test_a_server_may_want_a_certificate_of_ours_too(authority: Authority) -> None:
    """Its options are those of a broker's listener; here a store that openssl wrote."""
    own = pkcs12(authority.issue("client"), "changeit")
    with token_server("ann", "canary", certificate=authority.issue("mutual")) as server:
        options = (f'ssl.keystore.location="{own}"', 'ssl.keystore.password="changeit"', 'ssl.keystore.type="PKCS12"')
        server.wants_client(authority.file)
        assert "cannot be asked" in told(keys(server, "without", *trusting(authority.file)))
        login = sasl_login(keys(server, "with", *trusting(authority.file), *options), "b")
        assert login is not None
        assert len(server.given) == 1
