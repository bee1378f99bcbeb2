"""Two clusters whose brokers have a listener for every way to log in, and for every way a certificate can be wrong."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from integration.authority import Authority, pkcs12, trust_store
from integration.mirroring import flow_settings
from integration.token_server import TokenServer, token_server
from kafka import KafkaAdminClient
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
    UserScramCredentialUpsertion,
)

from sparkmirror.clusters import ClusterClient
from sparkmirror.config import SECURITY_KEYS, Secret
from sparkmirror.config.values import ClusterSettings
from sparkmirror.local import Listener, LocalCluster, open_clusters
from sparkmirror.local.tools import dump_log
from sparkmirror.model import TopicPartition

MODULES = "org.apache.kafka.common.security."
PLAIN_MODULE, SCRAM_MODULE = f"{MODULES}plain.PlainLoginModule", f"{MODULES}scram.ScramLoginModule"
TOKEN_MODULE = f"{MODULES}oauthbearer.OAuthBearerLoginModule"
SUPER = ("ANONYMOUS", "CN=mirror", "plain", "scram256", "scram512", "oauth")
MECHANISMS = ("tls", "mtls", "plain", "scram256", "scram512", "oauth")
# One flow for each login on the source, into a target with another one: a ring, so that each login is proved on each side
# by itself, and beside a side without any.
RING = ("open", *MECHANISMS)
# Of the logins with SCRAM-SHA-512 and OAUTHBEARER. They are renewed after 85 %: the rest must be enough for a busy machine.
SESSION_MS = 5_000
ODD = '"\\ é='  # what a JAAS text and a properties file must be told apart
# Who may do nothing by itself.
PLAIN_USERS = ("plain", "reader", "watcher", "writer")


def canary(name: str) -> str:
    """A secret that is found wherever it leaks to."""
    return f"canary-{name}-{secrets.token_hex(8)}"


@dataclass
class Files:
    """Certificates and passwords of one pair of clusters."""

    folder: Path
    authority: Authority
    stranger: Authority
    passwords: dict[str, str]
    mirror: Path
    intruder: Path

    @classmethod
    def make(cls, folder: Path) -> Files:
        authority, stranger = Authority(folder, "authority"), Authority(folder, "stranger")
        names = (*PLAIN_USERS, "scram256", "scram512", "oauth", "store")
        passwords = {name: canary(name) for name in names}
        passwords["scram512"] += ODD
        return cls(
            folder, authority, stranger, passwords,
            mirror=authority.issue("mirror"), intruder=stranger.issue("intruder"),
        )  # fmt: skip

    def listeners(self) -> list[Listener]:
        """All of them."""
        issue = self.authority.issue
        broker = issue("broker")
        users = " ".join(f'user_{name}="{self.passwords[name]}"' for name in PLAIN_USERS)
        reauth = {"connections.max.reauth.ms": str(SESSION_MS)}
        return [
            Listener("TLS", "SSL", _keys(broker)),
            Listener("MTLS", "SSL", _keys(broker) | self._wants_client()),
            Listener("OLD", "SSL", _keys(issue("old", from_day=-9, to_day=-2))),
            Listener("YOUNG", "SSL", _keys(issue("young", from_day=2, to_day=9))),
            Listener("ELSEWHERE", "SSL", _keys(issue("elsewhere", hosts=("DNS:other.example",)))),
            Listener("STRANGER", "SSL", _keys(self.stranger.issue("broker"))),
            Listener("BARE", "SASL_PLAINTEXT", _sasl("PLAIN", f"{PLAIN_MODULE} required {users};")
                     | _sasl("SCRAM-SHA-256", f"{SCRAM_MODULE} required;")
                     | {"sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256"}),
            Listener("PLAIN", "SASL_SSL", _keys(broker) | _sasl("PLAIN", f"{PLAIN_MODULE} required {users};")),
            Listener("SCRAM256", "SASL_SSL", _keys(broker) | _sasl("SCRAM-SHA-256", f"{SCRAM_MODULE} required;")),
            Listener("SCRAM512", "SASL_SSL",
                     _keys(broker) | _sasl("SCRAM-SHA-512", f"{SCRAM_MODULE} required;", reauth)),
            Listener("BOTH", "SASL_SSL", _keys(broker) | self._wants_client()
                     | _sasl("SCRAM-SHA-512", f"{SCRAM_MODULE} required;", reauth)),
            Listener("OAUTH", "SASL_SSL", _keys(broker) | _sasl(
                "OAUTHBEARER", f'{TOKEN_MODULE} required unsecuredLoginStringClaim_sub="broker";', reauth)),
        ]  # fmt: skip

    def _wants_client(self) -> dict[str, str]:
        trusted = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.authority.file)}
        return {"ssl.client.auth": "required"} | trusted

    def cluster(self, name: str) -> LocalCluster:
        """A cluster of one broker with all listeners; everybody else than `SUPER` needs rights."""
        rules = {
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": ";".join(f"User:{name}" for name in SUPER),
            "num.network.threads": "1",  # for each of the listeners, most of which see one client
        }
        return LocalCluster(name, overrides=rules, listeners=self.listeners())

    # --- the clients' side -------------------------------------------------------------------------------------

    def trust(self) -> dict[str, str]:
        """PEM."""
        return {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.authority.file)}

    def stores(self) -> tuple[Path, Path]:
        """Our certificate and the authority in stores that openssl and Java's keytool wrote."""
        keys, trusted = self.mirror.with_suffix(".p12"), self.folder / "trusted.p12"
        if not trusted.exists():
            pkcs12(self.mirror, self.passwords["store"], "-name", "mirror")
            trust_store(self.authority.file, trusted, self.passwords["store"], "PKCS12")
        return keys, trusted

    def login(self, user: str) -> dict[str, str]:
        """SASL PLAIN over TLS."""
        jaas = f'{PLAIN_MODULE} required username="{user}" password="{self.passwords[user]}";'
        return self.trust() | {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.jaas.config": jaas}

    def scram(self, user: str, mechanism: str) -> dict[str, str]:
        """SCRAM over TLS."""
        password = self.passwords[user].replace("\\", r"\\").replace('"', r"\"")
        jaas = f'{SCRAM_MODULE} required username="{user}" password="{password}";'
        return self.trust() | {"security.protocol": "SASL_SSL", "sasl.mechanism": mechanism, "sasl.jaas.config": jaas}

    def token(self, server: TokenServer) -> dict[str, str]:
        """OAUTHBEARER over TLS."""
        jaas = f'{TOKEN_MODULE} required clientId="oauth" clientSecret="{self.passwords["oauth"]}" scope="copy all";'
        return self.trust() | {
            "security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER", "sasl.jaas.config": jaas,
            "sasl.oauthbearer.token.endpoint.url": server.url,
        }  # fmt: skip

    def certificate(self) -> dict[str, str]:
        """mTLS with texts instead of files, their line breaks lost as in a properties file."""
        lines = self.mirror.read_text().splitlines()
        middle = lines.index("-----END PRIVATE KEY-----") + 1
        authority = "".join(self.authority.file.read_text().splitlines())
        return {
            "ssl.truststore.type": "PEM", "ssl.truststore.certificates": authority,
            "security.protocol": "SSL", "ssl.keystore.type": "PEM",
            "ssl.keystore.key": "".join(lines[:middle]), "ssl.keystore.certificate.chain": "".join(lines[middle:]),
        }  # fmt: skip

    def of_mechanism(self, name: str, side: str, server: TokenServer) -> dict[str, str]:
        """What the file says for one side; the two sides read different kinds of stores."""
        keys, trusted = self.stores()
        password = self.passwords["store"]
        java_trust = {"ssl.truststore.location": str(trusted), "ssl.truststore.password": password}
        java_keys = {"ssl.keystore.location": str(keys), "ssl.keystore.password": password, "ssl.keystore.type": "PKCS12"}
        tls = {"security.protocol": "SSL"}
        return {
            "open": {},
            "tls": tls | (self.trust() if side == "source" else java_trust),
            "mtls": self.certificate() if side == "source" else tls | java_trust | java_keys,
            "plain": self.login("plain"),
            "scram256": self.scram("scram256", "SCRAM-SHA-256"),
            "scram512": self.scram("scram512", "SCRAM-SHA-512"),
            "oauth": self.token(server),
        }[name]


def _keys(pem: Path) -> dict[str, str]:
    return {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(pem)}


def _sasl(mechanism: str, jaas: str, more: Mapping[str, str] | None = None) -> dict[str, str]:
    own = {"sasl.jaas.config": jaas} | dict(more or {})
    return {"sasl.enabled.mechanisms": mechanism} | {f"{mechanism.lower()}.{key}": text for key, text in own.items()}


@dataclass
class Secured:
    """The clusters, and what is needed to log in."""

    source: LocalCluster
    target: LocalCluster
    files: Files
    tokens: TokenServer

    def flow(
        self, alias: str, *, source: str, target: str, topics: str, more: Mapping[str, str] | None = None
    ) -> dict[str, str]:
        """A flow whose two sides log in by these mechanisms of `RING`."""
        flow = flow_settings(self.source, self.target, alias=alias, topics=topics, more=more)
        for side, name, cluster, mechanism in (
            ("source", alias, self.source, source), ("target", f"{alias}-to", self.target, target),
        ):  # fmt: skip
            if mechanism != "open":
                flow[f"{name}.bootstrap.servers"] = cluster.address_of(mechanism.upper())
            keys = self.files.of_mechanism(mechanism, side, self.tokens)
            flow |= {f"{name}.{key}": in_properties(text) for key, text in keys.items()}
        return flow


def in_properties(text: str) -> str:
    """A value as a properties file must have it."""
    return "".join(rf"\u{ord(c):04x}" if ord(c) > 126 else c for c in text.replace("\\", r"\\"))


@contextmanager
def secured_clusters(folder: Path) -> Iterator[Secured]:
    """Two clusters of one broker with every listener, and a token endpoint."""
    files = Files.make(folder)
    clusters = open_clusters(files.cluster("secured-a"), files.cluster("secured-b"))
    with clusters as (source, target), token_server("oauth", files.passwords["oauth"]) as tokens:
        for cluster in (source, target):
            set_scram_password(cluster, "scram256", "SCRAM-SHA-256", files.passwords["scram256"])
            set_scram_password(cluster, "scram512", "SCRAM-SHA-512", files.passwords["scram512"])
        yield Secured(source, target, files, tokens)


def dumped(cluster: LocalCluster, places: Sequence[TopicPartition]) -> dict[TopicPartition, list[str]]:
    """The values that lie in partitions, as kafka-dump-log prints them: one JVM for all of them."""
    folders = {cluster.log_dirs[1] / str(place): place for place in places}
    files = [file for folder in folders for file in sorted(folder.glob("*.log"))]
    found: dict[TopicPartition, list[str]] = {place: [] for place in places}
    for part in re.split(r"^Dumping ", dump_log(files, "--print-data-log"), flags=re.MULTILINE)[1:]:
        place = folders[Path(part.splitlines()[0]).parent]
        found[place] += re.findall(r"^\| offset: .* payload: (.*)$", part, re.MULTILINE)
    return found


def set_scram_password(cluster: LocalCluster, user: str, mechanism: str, password: str) -> None:
    """Makes the user, or changes the password."""
    with closing(KafkaAdminClient(bootstrap_servers=cluster.bootstrap)) as admin:
        answer = admin.alter_user_scram_credentials([UserScramCredentialUpsertion(user, mechanism, password)])
    assert answer == {user: None}


def client_of(alias: str, address: str, keys: dict[str, str]) -> ClusterClient:
    """A client of ours with these keys."""
    host, _, port = address.rpartition(":")
    security = {name: Secret(text) if SECURITY_KEYS[name].secret else text for name, text in keys.items()}
    return ClusterClient(ClusterSettings(alias, ((host, int(port)),), security))


# --- rights ----------------------------------------------------------------------------------------------------

ROW = re.compile(r"\| (source|target) \| (\w+) \| `([^`]+)` \| ([\w, ]+) \| (?:`([^`]+)` )?\|")
RESOURCES = {
    "Topic": ResourceType.TOPIC,
    "Group": ResourceType.GROUP,
    "Cluster": ResourceType.CLUSTER,
    "TransactionalId": ResourceType.TRANSACTIONAL_ID,
}


@dataclass(frozen=True)
class Right:
    """A row of the table in docs/security.md."""

    side: str
    resource: str
    name: str
    operations: tuple[str, ...]
    only_with: str

    def grant(self, cluster: LocalCluster, user: str, names: Mapping[str, str]) -> None:
        """Gives a user the rights of this row; `names` are what the table's capital words stand for."""
        kind, name = self._pattern(names)
        pattern = ResourcePattern(RESOURCES[self.resource], name, kind)
        allow, principal = ACLPermissionType.ALLOW, f"User:{user}"
        wanted = [ACL(principal, "*", ACLOperation[_constant(word)], allow, pattern) for word in self.operations]
        with closing(KafkaAdminClient(bootstrap_servers=cluster.bootstrap)) as admin:
            assert not admin.create_acls(wanted)["failed"]

    def revoke(self, cluster: LocalCluster, user: str, names: Mapping[str, str], operations: Sequence[str]) -> None:
        """Takes rights of this row away again."""
        kind, name = self._pattern(names)
        pattern = ResourcePatternFilter(RESOURCES[self.resource], name, kind)
        filters = [
            ACLFilter(f"User:{user}", "*", ACLOperation[_constant(word)], ACLPermissionType.ALLOW, pattern)
            for word in operations
        ]
        with closing(KafkaAdminClient(bootstrap_servers=cluster.bootstrap)) as admin:
            removed = [len(acls) for _, acls, _ in admin.delete_acls(filters)]
        assert removed == [1] * len(operations), "there was no such right"

    def _pattern(self, names: Mapping[str, str]) -> tuple[ACLResourcePatternType, str]:
        name = re.sub(r"\b(A|B|TOPIC|GROUP)\b", lambda word: names[word[1]], self.name)
        kind = ACLResourcePatternType.PREFIXED if name.endswith("*") else ACLResourcePatternType.LITERAL
        return kind, name.removesuffix("*")


def documented_rights() -> list[Right]:
    """The whole table."""
    page = (Path(__file__).parents[2] / "docs" / "security.md").read_text(encoding="utf-8")
    return [Right(*row[:3], tuple(row[3].split(", ")), row[4]) for row in ROW.findall(page)]


def _constant(word: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", word).upper()
