"""As much of Kubernetes' API server as `lookup` of a template asks: objects by their names."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.helm.chart_rig import Object

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

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            missing = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound"}
            answer = answers.get(path, missing | {"code": 404})
            body = json.dumps(answer).encode()
            self.send_response(200 if path in answers else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", f"{len(body)}")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
