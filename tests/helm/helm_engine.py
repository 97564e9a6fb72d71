"""Helm itself, in a process of its own: a line of JSON in, a line of JSON out.

The engine is Go's, loaded into Python: it brings threads and signal handlers of its own, and those
don't belong into the process of the tests. Each question has "values", "name" and "namespace", and
"cluster", the URL of an API server in which templates look things up, or null; the answer has
"manifests", a text for each template, or "error", as a user of `helm install` reads it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

CHART = Path(__file__).resolve().parents[2] / "helm" / "spoolrack"


class Refused(Exception):
    """Helm takes neither these values nor these templates; says so in its own words."""


class Engine:
    """Renders and checks the chart. Not thread-safe."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def render(
        self,
        values: dict[str, Any],
        name: str = "demo",
        namespace: str = "queues",
        cluster: str | None = None,
    ) -> dict[str, str]:
        asked = {"values": values, "name": name, "namespace": namespace, "cluster": cluster}
        answer = self._ask(asked)
        if "error" in answer:
            raise Refused(answer["error"])
        manifests: dict[str, str] = answer["manifests"]
        return manifests

    def try_install(self, values: dict[str, Any], cluster: str) -> str:
        """Return why the cluster doesn't get the release: a small one takes no object in any case."""
        return str(self._ask({"install": values, "cluster": cluster})["error"])

    def lint(self, values: dict[str, Any]) -> dict[str, Any]:
        report: dict[str, Any] = self._ask({"lint": values})["report"]
        return report

    def package(self, folder: Path) -> str:
        return str(self._ask({"package": str(folder)})["path"])

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()

    def _ask(self, question: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the engine has ended"
        answer: dict[str, Any] = json.loads(line)
        return answer


def _serve() -> None:
    from helm_python.chart import Chart, lint, package
    from helm_python.config import Config
    from helm_python.errors import HelmError

    with Chart.load(CHART) as chart:
        for line in sys.stdin:
            question = json.loads(line)
            answer: dict[str, Any]
            if "lint" in question:
                answer = {"report": lint(CHART, question["lint"], strict=True)}
            elif "package" in question:
                answer = {"path": package(CHART, destination=question["package"])}
            elif "install" in question:
                options: dict[str, Any] = {"kube_apiserver": question["cluster"], "namespace": "queues"}
                with Config(kubeconfig_path="/dev/null", storage_driver="memory", **options) as config:
                    try:
                        config.install(chart, "demo", question["install"], dry_run="server")
                    except HelmError as error:
                        answer = {"error": str(error)}
            else:
                cluster = question.pop("cluster")
                try:
                    if cluster is None:
                        answer = {"manifests": chart.render(**question)}
                    else:
                        with Config(kubeconfig_path="/dev/null", kube_apiserver=cluster) as config:
                            answer = {"manifests": config.render(chart, **question)}
                except HelmError as error:
                    answer = {"error": str(error)}
            print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    _serve()
