"""As much of Kubernetes' API server as `lookup` of a template asks: objects by their names."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tests.helm.chart_rig import Object
from tests.support.fixed_answers import Answer, answering

CLAIMS = {
    "name": "persistentvolumeclaims",
    "singularName": "persistentvolumeclaim",
    "namespaced": True,
    "kind": "PersistentVolumeClaim",
    "verbs": ["get"],
}
KINDS = {"kind": "APIResourceList", "groupVersion": "v1", "resources": [CLAIMS]}


@contextmanager
def cluster_with(claims: Sequence[Object], version: str = "v1.33.0") -> Iterator[str]:
    """Serve a cluster that has these claims, and nothing else; yields the URL."""
    major, minor, _ = version.removeprefix("v").split(".")
    answers: dict[str, Any] = {
        "/api": {"kind": "APIVersions", "versions": ["v1"]},
        "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": []},
        "/api/v1": KINDS,
        "/version": {"major": major, "minor": minor, "gitVersion": version},
    }
    for each in claims:
        metadata = each["metadata"]
        answers[f"/api/v1/namespaces/{metadata['namespace']}/{CLAIMS['name']}/{metadata['name']}"] = (
            each
        )

    missing = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound"}

    def answer_to(path: str) -> Answer:
        found = answers.get(path, missing | {"code": 404})
        return 200 if path in answers else 404, "application/json", json.dumps(found).encode()

    with answering(answer_to) as port:
        yield f"http://127.0.0.1:{port}"
