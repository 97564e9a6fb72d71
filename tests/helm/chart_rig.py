"""The rendered chart: objects as Kubernetes would get them, and ways to find one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from tests.helm.chart_cases import CASES, ROUTED, Values
from tests.helm.helm_engine import Engine

Object = dict[str, Any]
ORDER = ("startupProbe", "livenessProbe", "readinessProbe")


@dataclass(frozen=True)
class Rendered:
    """One release."""

    objects: tuple[Object, ...]
    notes: str

    def all(self, kind: str) -> list[Object]:
        return [each for each in self.objects if each["kind"] == kind]

    def one(self, kind: str, end: str = "") -> Object:
        (found,) = [each for each in self.all(kind) if each["metadata"]["name"].endswith(end)]
        return found

    @property
    def pod(self) -> Object:
        """The spec of the server's pods."""
        spec: Object = self.one("StatefulSet")["spec"]["template"]["spec"]
        return spec

    @property
    def server(self) -> Object:
        """The server's container."""
        return container(self.pod)

    @property
    def arguments(self) -> dict[str, str]:
        """The arguments of `spoolrack serve`, by flag; "" for those without a value."""
        command, *flags = self.server["args"]
        assert command == "serve"
        return {flag.partition("=")[0]: flag.partition("=")[2] for flag in flags}

    @property
    def claims(self) -> list[str]:
        """The claim of each server, in their order: of the pod, or of the StatefulSet's template."""
        server = self.one("StatefulSet")
        name, spec = server["metadata"]["name"], server["spec"]
        mounted = [
            each["persistentVolumeClaim"]["claimName"]
            for each in self.pod.get("volumes", ())
            if "persistentVolumeClaim" in each
        ]
        templates = [each["metadata"]["name"] for each in spec.get("volumeClaimTemplates", ())]
        numbered = [f"{each}-{name}-{n}" for each in templates for n in range(spec["replicas"])]
        return [*mounted, *numbered]

    def pods(self) -> Iterator[tuple[Object, Object]]:
        """Yield every pod that comes of it: its object, and the spec."""
        for each in self.objects:
            match each["kind"]:
                case "Pod":
                    yield each, each["spec"]
                case "StatefulSet" | "Deployment" | "Job":
                    yield each, each["spec"]["template"]["spec"]


def container(pod: Object) -> Object:
    (found,) = [each for each in pod["containers"] if each["name"] == "spoolrack"]
    return dict(found)


def rendered(engine: Engine, values: Values, **release: str) -> Rendered:
    manifests = engine.render(values, **release)
    notes = next(text for path, text in manifests.items() if path.endswith("NOTES.txt"))
    objects = [
        document
        for path, text in manifests.items()
        if not path.endswith("NOTES.txt")
        for document in yaml.safe_load_all(text)
        if document is not None
    ]
    return Rendered(tuple(objects), notes)


__all__ = ["CASES", "ORDER", "ROUTED", "Object", "Rendered", "Values", "container", "rendered"]
