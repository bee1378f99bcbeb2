"""Every mistake that can be made in a login, and what must be said of it."""

from __future__ import annotations

from dataclasses import dataclass

from integration.authority import pkcs12, trust_store
from integration.mirroring import flow_settings
from integration.secured import Secured

from sparkmirror.local import LocalCluster

__all__ = ["Mistake", "mistaken_flow", "mistakes"]


@dataclass
class Mistake:
    """Which listener, with which keys, and what must be said."""

    listener: str
    keys: dict[str, str]
    words: tuple[str, ...]

    def address(self, cluster: LocalCluster) -> str:
        """Where that listener is on a cluster."""
        return cluster.address_of(self.listener) if self.listener else cluster.bootstrap


def mistakes(secured: Secured) -> dict[str, Mistake]:
    """All of them, by a word that may be an alias."""
    files, tls = secured.files, secured.files.trust() | {"security.protocol": "SSL"}
    outlived = files.authority.issue("outlived", from_day=-9, to_day=-2)
    unborn = files.authority.issue("unborn", from_day=2, to_day=9)
    jks = files.folder / "trusted.jks"
    if not jks.exists():
        trust_store(files.authority.file, jks, files.passwords["store"], "JKS")
    keys, trusted = files.stores()
    old = pkcs12(files.intruder, "old-password", "-certpbe", "PBE-SHA1-3DES", "-keypbe", "PBE-SHA1-3DES")
    wrong = {"sasl.jaas.config": files.login("plain")["sasl.jaas.config"].replace("canary", "wrong")}
    scram = files.scram("scram256", "SCRAM-SHA-256")
    own = {"ssl.keystore.type": "PEM"}
    down = {"sasl.oauthbearer.token.endpoint.url": "http://127.0.0.1:1/token"}
    p12 = {"ssl.truststore.type": "PKCS12", "ssl.truststore.location": str(trusted), "ssl.truststore.password": "wrong"}
    return {
        "wrongpassword": Mistake("PLAIN", files.login("plain") | wrong,
                                 ("PLAIN login of user plain was refused", "check username and password")),
        "wrongscram": Mistake("SCRAM256", scram | {"sasl.jaas.config": scram["sasl.jaas.config"].replace("canary", "x")},
                              ("SCRAM-SHA-256 login of user scram256 was refused", "sasl.jaas.config")),
        "expired": Mistake("OLD", tls, ("the broker's certificate expired on 20", "must replace it")),
        "young": Mistake("YOUNG", tls, ("the broker's certificate is not valid before 20",)),
        "otherhost": Mistake("ELSEWHERE", tls, ("is not for 127.0.0.1", "ssl.endpoint.identification.algorithm")),
        "stranger": Mistake("STRANGER", tls, ("not signed by an authority that is trusted", str(files.authority.file))),
        "nocertificate": Mistake("MTLS", tls, ("wants a client certificate", "ssl.keystore.location")),
        "intruder": Mistake("MTLS", tls | own | {"ssl.keystore.location": str(files.intruder)},
                            ("refused our certificate", str(files.intruder), "truststore")),
        "outlived": Mistake("MTLS", tls | own | {"ssl.keystore.location": str(outlived)},
                            ("our own certificate expired on 20", str(outlived))),
        "unborn": Mistake("MTLS", tls | own | {"ssl.keystore.location": str(unborn)},
                          ("our own certificate is not valid before 20", str(unborn))),
        "tlstoplain": Mistake("", tls, ("does this listener speak TLS?",)),
        "plaintotls": Mistake("TLS", {}, ("the listener speaks TLS", "security.protocol = SSL")),
        "nologin": Mistake("PLAIN", tls, ("is the listener's security protocol the configured one?",)),
        "needlesslogin": Mistake("", files.login("plain") | {"security.protocol": "SASL_PLAINTEXT"},
                                 ("wants no SASL login", "security.protocol")),
        "notoffered": Mistake("PLAIN", scram, ("SCRAM-SHA-256 is not offered, only PLAIN", "sasl.mechanism")),
        "tokensdown": Mistake("OAUTH", files.token(secured.tokens) | down,
                              ("token endpoint http://127.0.0.1:1/token cannot be asked", "check sasl.oauthbearer")),
        "tokensrefused": Mistake(
            "OAUTH", files.token(secured.tokens) | {"sasl.oauthbearer.client.credentials.client.secret": "wrong-secret"},
            ("refused client oauth: status 401 (invalid_client)", "clientSecret")),
        "jks": Mistake("TLS", {"security.protocol": "SSL", "ssl.truststore.location": str(jks)},
                       (f"keytool -importkeystore -srckeystore {jks} -destkeystore", "-deststoretype PKCS12")),
        "oldstore": Mistake("MTLS", tls | {"ssl.keystore.location": str(old), "ssl.keystore.password": "old-password"},
                            ("refused our certificate", str(old), "truststore")),
        "storepassword": Mistake("TLS", {"security.protocol": "SSL"} | p12,
                                 (str(trusted), "the password is wrong", "check ssl.truststore.password")),
        "keypassword": Mistake("MTLS", tls | {"ssl.keystore.location": str(keys), "ssl.keystore.password": "wrong"},
                               (str(keys), "the password is wrong")),
        "missing": Mistake("TLS", {"security.protocol": "SSL", "ssl.truststore.location": "/no/such.p12"},
                           ("ssl.truststore.location: /no/such.p12 cannot be read",)),
        "kerberos": Mistake("PLAIN", files.trust() | {"security.protocol": "SASL_SSL"},
                            ("GSSAPI", "pip install 'sparkmirror[kerberos]'")),
    }  # fmt: skip


def mistaken_flow(secured: Secured, alias: str, mistake: Mistake, *sides: str) -> dict[str, str]:
    """A flow with a mistake on these sides."""
    flow = flow_settings(secured.source, secured.target, alias=alias, topics="none")
    for side, name, cluster in (("source", alias, secured.source), ("target", f"{alias}-to", secured.target)):
        if side in sides:
            flow[f"{name}.bootstrap.servers"] = mistake.address(cluster)
            flow |= {f"{name}.{key}": text for key, text in mistake.keys.items()}
    return flow
