"""The settings of the HTTP endpoint: whether a job has one, its address, port and TLS certificate."""

from __future__ import annotations

import ipaddress
import socket
import ssl
from dataclasses import dataclass
from pathlib import Path

from headgate.common.errors import ConfigError
from headgate.common.process.children import hide
from headgate.common.process.loopback import is_loopback
from headgate.common.settings import options as o
from headgate.common.settings.config import Config
from headgate.common.settings.config_option import ConfigOption
from headgate.runtime.driver.endpoint.listening_sockets import ListeningSocket


@dataclass(frozen=True, slots=True)
class EndpointSettings:
    """Settings of a job's HTTP endpoint: the address at which it listens, and its TLS files. One instance is
    made per run from the job's configuration; None in its place: no endpoint.
    """

    bind: str
    port: int  # 0: the system chooses a free port
    certfile: str | None = None  # PEM file of the certificate; None: no TLS
    keyfile: str | None = None
    demanded: bool = False  # the user set the option: without an endpoint the job fails

    @property
    def scheme(self) -> str:
        return "http" if self.certfile is None else "https"

    def reached_at(self, port: int) -> str:
        """Return the URL at which processes of the same user reach the endpoint when it listens on `port`.

        An endpoint that is bound to all addresses is reached at the loopback address.
        """
        host = self.bind
        if _is_any(host):
            host = "::1" if ":" in host else "127.0.0.1"
        return f"{self.scheme}://{f'[{host}]' if ':' in host else host}:{port}"


def endpoint_settings(config: Config, by_default: bool) -> EndpointSettings | None:
    """Return the endpoint's settings, None if the job has none; `by_default` counts if the option is unset.
    Raises ConfigError for a bad certificate, and for an address that other machines reach without TLS.
    """
    enabled = config.get(o.REST_ENABLED)
    if not (by_default if enabled is None else enabled):
        return None
    bind = config.get(o.REST_BIND_ADDRESS)
    certfile, keyfile = config.get(o.REST_CERTFILE), config.get(o.REST_KEYFILE)
    if (certfile is None) != (keyfile is None):
        here, missing = (
            (o.REST_CERTFILE, o.REST_KEYFILE) if keyfile is None else (o.REST_KEYFILE, o.REST_CERTFILE)
        )
        raise ConfigError(f"{here.key} is set and {missing.key} is not; TLS needs both")
    if certfile is not None and keyfile is not None:
        _check_certificate(certfile, keyfile)
    elif not is_loopback(bind):
        raise ConfigError(
            f"{o.REST_BIND_ADDRESS.key} is {bind!r}, which other machines reach, and without TLS they could "
            f"read the job's secret on its way; set {o.REST_CERTFILE.key} and {o.REST_KEYFILE.key}, or bind "
            "to 127.0.0.1"
        )
    return EndpointSettings(bind, config.get(o.REST_PORT), certfile, keyfile, enabled is True)


def listening(
    settings: EndpointSettings,
    address: ConfigOption[str] = o.REST_BIND_ADDRESS,
    port: ConfigOption[int] | ConfigOption[int | None] = o.REST_PORT,
) -> ListeningSocket:
    """Return a socket that listens at the configured address; ConfigError if the system refuses that, which
    names the options `address` and `port`.
    """
    family = socket.AF_INET6 if ":" in settings.bind else socket.AF_INET
    made = hide(ListeningSocket(family, socket.SOCK_STREAM))
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((settings.bind, settings.port))
        made.listen()
    except OSError as error:
        made.close()
        raise ConfigError(
            f"nothing can listen on {settings.bind}:{settings.port} ({error.strerror or error}), as "
            f"{address.key} and {port.key} demand; choose another port, or 0"
        ) from None
    return made


def _is_any(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def _check_certificate(certfile: str, keyfile: str) -> None:
    for option, path in ((o.REST_CERTFILE, certfile), (o.REST_KEYFILE, keyfile)):
        if not Path(path).is_file():
            raise ConfigError(f"{option.key} names {path!r}, and there is no such file")
    try:
        # An encrypted key would ask on the terminal.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certfile, keyfile, password=lambda: "")
    except (ssl.SSLError, OSError, ValueError) as error:
        raise ConfigError(
            f"{o.REST_CERTFILE.key} and {o.REST_KEYFILE.key} do not make a certificate and its key without "
            f"passphrase ({error})"
        ) from None
