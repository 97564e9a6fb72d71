"""The queues of `config/`, for an inspection, and the faults of their settings. Reads only."""

from __future__ import annotations

from ..files.disk import FileKind
from ..files.layout import CONFIG
from ..model.errors import DamagedSettings
from ..model.settings import Record, decode, parse_settings_path, settings_path
from .findings import Findings


class Registry:
    """The queues, as `config/` is when this is made."""

    def __init__(self, findings: Findings) -> None:
        """Read `config/`, and note the faults of the settings."""
        self.names: set[str] = set()
        """Queues with settings or a tombstone."""
        self.being_deleted: set[str] = set()
        """Those with a tombstone."""
        self.versions: dict[str, int] = {}
        """The highest version of each queue, damaged or not."""
        newest: dict[str, tuple[int, Record]] = {}
        for file in findings.scan(CONFIG):
            path = f"{CONFIG}/{file.name}"
            parsed = parse_settings_path(path)
            if parsed is None or file.kind is not FileKind.FILE:
                findings.add_foreign(path, "not a settings file")
                continue
            queue, version = parsed
            self.versions[queue] = max(version, self.versions.get(queue, 0))
            try:
                content = findings.disk.read(path)
                if not content:
                    # It is being written, or was when the power failed: no answer rests on it.
                    why = f"empty: these settings of the queue {queue} were never written"
                    findings.add_leftover(path, why)
                    continue
                record = decode(content, file.name)
            except FileNotFoundError:
                continue  # A newer version has taken its place.
            except OSError as error:
                findings.add_unrepairable(path, f"it can't be read: {error.strerror}")
                self.names.add(queue)
                continue
            except DamagedSettings as error:
                findings.add_foreign(path, str(error))
                continue
            if queue not in newest or newest[queue][0] < version:
                newest[queue] = version, record
        for queue, (version, record) in newest.items():
            self.names.add(queue)
            if record.settings is None:
                self.being_deleted.add(queue)
                findings.add_leftover(
                    settings_path(queue, version), f"the queue {queue} is being deleted"
                )
