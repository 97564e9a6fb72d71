"""Helm itself, in a process of its own: a line of JSON in, a line of JSON out.

The engine is Go's, loaded into Python: it brings threads and signal handlers of its own, and those
don't belong into the process of the tests. Each question has "values", "name" and "namespace"; the
answer has "manifests", a text for each template, or "error", as a user of `helm install` reads it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests import CHECKOUT

CHART = CHECKOUT / "helm" / "spoolrack"


class Refused(Exception):
    """Helm takes neither these values nor these templates; says so in its own words."""


class Engine:
    """Renders and checks the chart. Not thread-safe."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def render(
        self, values: dict[str, Any], name: str = "demo", namespace: str = "queues"
    ) -> dict[str, str]:
        answer = self._ask({"values": values, "name": name, "namespace": namespace})
        if "error" in answer:
            raise Refused(answer["error"])
        manifests: dict[str, str] = answer["manifests"]
        return manifests

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
    from helm_python.errors import HelmError

    with Chart.load(CHART) as chart:
        for line in sys.stdin:
            question = json.loads(line)
            answer: dict[str, Any]
            if "lint" in question:
                answer = {"report": lint(CHART, question["lint"], strict=True)}
            elif "package" in question:
                answer = {"path": package(CHART, destination=question["package"])}
            else:
                try:
                    answer = {
                        "manifests": chart.render(
                            values=question["values"],
                            name=question["name"],
                            namespace=question["namespace"],
                        )
                    }
                except HelmError as error:
                    answer = {"error": str(error)}
            print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    _serve()
