"""The options of read_kafka: a topic's, and the settings that are passed to librdkafka unchanged."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from ...errors import StatementError
from ...options import option

PREFIX = "kafka."
"""The prefix of parameters that are settings of librdkafka, as in Spark."""
ENVIRONMENT = "env:"
"""The prefix of values that name an environment variable."""
SECRET = re.compile(r"password|secret|jaas|token|\.pem$|oauthbearer\.config")
LOGIN = re.compile(r"""\b(username|password)\s*=\s*(?:"([^"]*)"|'([^']*)')""")
"""The parts of a `sasl.jaas.config` (of Java's client) for which librdkafka has settings."""
JAVA = {
    "ssl.truststore.location": "ssl.ca.location, a PEM file",
    "ssl.truststore.password": "ssl.ca.location, a PEM file without a password",
    "ssl.keystore.location": "ssl.certificate.location and ssl.key.location, PEM files",
    "ssl.keystore.password": "ssl.key.password",
    "ssl.truststore.type": "ssl.ca.location, a PEM file",
    "ssl.keystore.type": "ssl.certificate.location and ssl.key.location, PEM files",
}
"""Settings of Java's client for which librdkafka has others."""
OWN = ("bootstrap.servers", "group.id")
"""Settings that cannot be given with the prefix: the first has its own parameter, and no consumer group is used."""


@dataclass(frozen=True)
class KafkaOptions:
    """Options of read_kafka."""

    bootstrap_servers: str | None = option(None, "brokers to connect to first, 'host:port,host:port'")
    schema: str | None = option(
        None,
        "columns of the JSON objects that values are, 'user STRING, ts TIMESTAMP'; without it the columns are key, value, "
        "topic, partition, offset and timestamp",
    )
    starting_offsets: str = option(
        "earliest",
        "where a model that has not learned from the topic begins: 'earliest', or an offset of each partition, "
        '\'{"samples": {"0": 23, "1": -2}}\'; -2 is the earliest',
    )
    on_error: str = option(
        "fail",
        "a value that does not fit the schema: an error, or skipped and recorded with the version",
        choices=("fail", "skip"),
    )
    kafka: dict[str, str] | None = option(  # noqa: RUF009  `option` makes a field
        None,
        "settings of librdkafka, each as `kafka.name` => value, such as `kafka.security.protocol` => 'SASL_SSL'; secrets as "
        "'env:NAME', an environment variable",
    )


@dataclass(frozen=True)
class ClientSettings:
    """Settings of librdkafka, bootstrap.servers among them; some may be secrets, so that none is shown.

    Attributes:
        secrets: what no message may contain.
    """

    values: Mapping[str, str] = field(repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)

    @property
    def servers(self) -> str:
        """The brokers to begin with."""
        return self.values["bootstrap.servers"]

    def shown(self, text: object) -> str:
        """Return a text without secrets."""
        masked = str(text)
        for secret in self.secrets:
            masked = masked.replace(secret, "***")
        return masked


def check_settings(options: KafkaOptions) -> None:
    """Require brokers, and refuse settings that are secrets or that users cannot set.

    Raises:
        StatementError: says which, and how it is written.
    """
    if not options.bootstrap_servers:
        raise StatementError("read_kafka expects bootstrapServers => 'host:port'.")
    for name, value in (options.kafka or {}).items():
        if name in OWN:
            raise StatementError(
                f"read_kafka takes no kafka.{name}: brokers are bootstrapServers, and no consumer group is used."
            )
        if name in JAVA:
            raise StatementError(f"kafka.{name} is for Java's stores, which librdkafka does not read. Give kafka.{JAVA[name]}.")
        if SECRET.search(name) and not value.startswith(ENVIRONMENT):
            raise StatementError(
                f"kafka.{name} is a secret, and the model would keep it with its statement. Set an environment variable, "
                f"and write kafka.{name} => 'env:NAME'."
            )


def settings_of(options: KafkaOptions) -> ClientSettings:
    """Return the settings with the values of the variables that they name.

    Raises:
        StatementError: a variable is not set.
    """
    assert options.bootstrap_servers is not None  # check_settings
    values, secrets = {"bootstrap.servers": options.bootstrap_servers}, []
    for name, value in (options.kafka or {}).items():
        if value.startswith(ENVIRONMENT):
            variable = value.removeprefix(ENVIRONMENT)
            if not (value := os.environ.get(variable, "")):
                raise StatementError(f"kafka.{name} names the environment variable {variable}, which is not set. Set it.")
            secrets.append(value)
        login = logged_in(value) if name == "sasl.jaas.config" else {name: value}
        values |= login
        secrets += [login["sasl.password"]] if "sasl.password" in login else []
    return ClientSettings(values, tuple(secrets))


def logged_in(jaas: str) -> dict[str, str]:
    """Return the settings of librdkafka that correspond to a `sasl.jaas.config`.

    Raises:
        StatementError: it has no username and password, as PLAIN and SCRAM need.
    """
    found = {name: double or single for name, double, single in LOGIN.findall(jaas)}
    if len(found) < 2:
        raise StatementError(
            "kafka.sasl.jaas.config expects a login module with username='...' password='...', as PLAIN and SCRAM have. For "
            "others give kafka.sasl.mechanism, and the settings of librdkafka."
        )
    return {f"sasl.{name}": value for name, value in found.items()}
