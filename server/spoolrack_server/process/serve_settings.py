"""The options of `spoolrack serve`, from the command line to the server and to each worker process.

An option is declared once more only as a flag, in `cli/operators/serve_command.py`, under the same
name. No import of gRPC here: the command line reads the defaults before it decides to serve.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, Self

from spoolrack_store.model.disk_watermark import KEPT_BYTES, KEPT_FILES

if TYPE_CHECKING:
    from ..access.security import Security
    from ..system.logs import LogFormat

LOOPBACK: Final = "127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeSettings:
    """The settings of one server. Addresses are (host, port); port 0 takes a free one."""

    root: str = "./data"
    grpc: tuple[str, int] = (LOOPBACK, 0)
    http: tuple[str, int] | None = (LOOPBACK, 0)
    """None: no HTTP."""
    sqs: tuple[str, int] | None = None
    """None: SQS's protocol is not served."""
    sqs_url: str | None = None
    """Where clients of SQS reach this server; None: where each request says."""
    sqs_account: str = "000000000000"
    """The account in ARNs and URLs of queues."""
    health: tuple[str, int] | None = None
    """A plaintext listener for probes alone; None: probes are answered over HTTP only."""
    grace: float = 10.0
    """Seconds that calls have to end when the server stops."""
    log_format: LogFormat = "logfmt"
    workers: int | None = None
    """Bound on concurrent fetches, and on concurrent saves, of the store; None: no bound."""
    mover: bool = True
    """Whether this server brings due messages back."""
    reaper: bool = True
    """Whether this server unlinks what is deleted."""
    shard: str | None = None
    """Which shard the root is or becomes, as `model.shards.parse_shard` reads it; None: as it is."""
    group_access: bool = False
    """Whether a root that is made is open to all processes of its group."""
    hosts: str | None = None
    """Whether servers of "one" host or of "several" serve the root; None: as it was made, one if it is
    new."""
    traces: str | None = None
    """The URL of an OTLP endpoint that spans are exported to; None: no spans."""
    metrics_queues: int = 1_000
    """Queues with metrics of their own, at most."""
    tls_certificate: str | None = None
    tls_key: str | None = None
    tls_client_ca: str | None = None
    tokens: str | None = None
    permissions: str | None = None
    sqs_keys: str | None = None
    """Paths of files; None: there is no such file."""
    insecure: bool = False
    """Whether other machines are served without TLS."""
    connections: int = 1_000
    """Bound on connections at each port of each process."""
    memory_watermark: int | None = None
    """Bytes of this process's memory past which it refuses sends; None: no watermark."""
    min_free_space: int = KEPT_BYTES
    """Bytes of the disk below which sends are refused."""
    min_free_inodes: int = KEPT_FILES
    """Files that the disk can still have, below which sends are refused."""
    number: int = 0
    """The number of this worker process under its supervisor."""
    shares_ports: bool = False
    """Whether other processes of this user may listen at the same ports."""

    @property
    def security(self) -> Security:
        """The access files; raises `AccessUnusable` for a certificate without its key."""
        from ..access.security import Security
        from ..access.tls import TlsFiles
        from ..access.watched_files import AccessUnusable

        tls = None
        if self.tls_certificate is not None and self.tls_key is not None:
            tls = TlsFiles(
                certificate=self.tls_certificate, key=self.tls_key, client_ca=self.tls_client_ca
            )
        elif self.tls_certificate or self.tls_key or self.tls_client_ca:
            raise AccessUnusable("TLS", "give --tls-certificate and --tls-key together")
        return Security(
            tls=tls,
            tokens=self.tokens,
            permissions=self.permissions,
            sqs_keys=self.sqs_keys,
            insecure=self.insecure,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the settings as `from_json` reads them."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Self:
        """Read settings back from JSON, in which an address is a list."""
        found: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in values.items()
        }
        return cls(**found)
