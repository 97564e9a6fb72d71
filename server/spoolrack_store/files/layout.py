"""The files and folders of a root. `model.names` has the grammar of the names in them."""

from __future__ import annotations

from typing import Final

from ..model.names import is_owner

FORMAT: Final = "FORMAT"
FORMAT_CONTENT: Final = b"spoolrack 4\n"
ONE_HOST: Final = "one"
SEVERAL_HOSTS: Final = "several"
FORMAT_OF_HOSTS: Final = b"spoolrack 4 several hosts\n"
HOSTS_OF: Final = {FORMAT_CONTENT: ONE_HOST, FORMAT_OF_HOSTS: SEVERAL_HOSTS}
"""Which hosts may have the root open at once, by the content of `FORMAT`. The content is compared as a
whole: it is its own check."""
UPGRADING: Final = b"spoolrack 3 to 4\n"
UPGRADING_OF_HOSTS: Final = b"spoolrack 3 to 4 several hosts\n"
"""While a start upgrades the root: earlier versions refuse it, and the next start goes on."""
UPGRADABLE: Final = {
    b"spoolrack 3\n": ONE_HOST,
    b"spoolrack 3 several hosts\n": SEVERAL_HOSTS,
    UPGRADING: ONE_HOST,
    UPGRADING_OF_HOSTS: SEVERAL_HOSTS,
}
"""As `HOSTS_OF`, of roots that a start upgrades."""
IDENTITY: Final = "IDENTITY"
"""A UUID, sealed, drawn when the root is made: a copy of the root has the same."""
SHARD: Final = "SHARD"
"""Which shard the root is, sealed; of a root that is none it isn't there."""
RESERVE: Final = "RESERVE"
"""Takes up room and holds nothing: see `reserved_room`."""

CONFIG: Final = "config"
OWNERS: Final = "owners"
NEW: Final = "new"
QUEUES: Final = "queues"
DELAY: Final = "delay"
REMOVE: Final = "remove"
QUARANTINE: Final = "quarantine"
KEYS: Final = "keys"
STAGED: Final = "staged"
PUBLISHED: Final = "published"
RESERVED: Final = "reserved"
REDRIVES: Final = "redrives"
ARCHIVE: Final = "archive"
BODIES: Final = "bodies"
"""Bodies that are in files of their own, by the ids of their messages: see `names.body_path`."""
DEAD_LETTERS: Final = "dead_letters"
"""How messages died, where their names have no room for it: see `model.dead_letter_records`."""
FOLDERS: Final = (
    *(CONFIG, OWNERS, NEW, QUEUES, DELAY, REMOVE, QUARANTINE, KEYS),
    *(STAGED, PUBLISHED, RESERVED, REDRIVES, DEAD_LETTERS, ARCHIVE, BODIES),
)
"""Made when the root is."""

COPY: Final = ".copy"
"""The end of the name of a file in `new/` that is being written, and is to be renamed."""
BODY: Final = ".body"
"""The end of the name of a body in `new/` that is being written: see `body_file`."""
SPARE: Final = ".spare"
"""The end of the name of a file in `new/` that was made for a later send: see `spares`."""


def new_body_path(owner: str, number: int) -> str:
    """Return the path of a body that a process writes in pieces, before it is a message's."""
    return f"{NEW}/{owner}-{number}{BODY}"


def body_owner(name: str) -> str:
    """Return the owner in the name of such a body; "" for any other name in `new/`."""
    return _owner_of(name, BODY)


def spare_path(owner: str, number: int) -> str:
    """Return the path of a spare file."""
    return f"{NEW}/{owner}-{number}{SPARE}"


def spare_owner(name: str) -> str:
    """Return the owner in the name of a spare file; "" for any other name in `new/`."""
    return _owner_of(name, SPARE)


def _owner_of(name: str, end: str) -> str:
    owner, _, rest = name.partition("-")
    number = rest.removesuffix(end)
    return owner if rest != number and number.isdecimal() and is_owner(owner) else ""


def owner(owner: str) -> str:
    """Return the path of the file by which a process marks the root as open under `owner`."""
    return f"{OWNERS}/{owner}"
