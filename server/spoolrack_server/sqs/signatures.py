"""The callers of SQS, by the signatures of their requests (AWS Signature Version 4)."""

from __future__ import annotations

import re
from typing import Final

from aiohttp import web

from ..access.access_control import NOBODY
from ..access.permissions import Identity

DEFAULT_REGION: Final = "us-east-1"
_SCOPE: Final = re.compile(r"Credential=[^/,\s]+/\d{8}/([a-z0-9-]{1,40})/sqs/aws4_request")


class Authenticator:
    """Without keys every request is taken, whatever key it is signed with."""

    @property
    def is_open(self) -> bool:
        """Whether no caller is asked for a key."""
        return True

    def identify(self, request: web.Request, body: bytes) -> tuple[Identity, str]:
        """Return the caller of a request, and the region that it is for."""
        return NOBODY, _region(request)

    def still_known(self, request: web.Request) -> Identity:
        """Return the caller of a request that was identified before; raise if its key is gone."""
        return NOBODY


def _region(request: web.Request) -> str:
    found = _SCOPE.search(request.headers.get("Authorization", ""))
    return found[1] if found else DEFAULT_REGION
