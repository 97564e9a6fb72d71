"""The server with a bug planted: it calls durable what it has not synced. The tests must find it out.

    forgetful_server.py everything|folders serve ...

everything  no sync of any kind reaches the disk
folders     what is written is synced, and the names in a folder are not
"""

from __future__ import annotations

import os
import sys
from typing import Final

from spoolrack_server.cli import main
from spoolrack_store.files.local_disk import LocalDisk

BUGS: Final = ("everything", "folders")


def plant(bug: str) -> None:
    """Replace syncs of this process by nothing."""
    assert bug in BUGS

    def forget(*_: object) -> None:
        """Say that it is done."""

    LocalDisk.sync_folder = forget  # type: ignore[assignment, method-assign]
    if bug == "everything":
        LocalDisk.sync_all = forget  # type: ignore[assignment, method-assign]
        # For the files' contents.
        os.fsync = forget  # type: ignore[assignment]


if __name__ == "__main__":
    plant(sys.argv.pop(1))
    main()
