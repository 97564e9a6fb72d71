"""The Dockerfile as values: its stages and their steps, and what it says of the container.

Knows the instructions that ours uses, and refuses any other: a step that is not understood must not be
left out of a test unseen.
"""

from __future__ import annotations

import io
import json
import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path

from dockerfile_parse import DockerfileParser

from tests import CHECKOUT


@dataclass(frozen=True, kw_only=True)
class Step:
    """RUN, COPY or WORKDIR, with the folder and the environment in which it happens."""

    instruction: str
    value: str
    folder: str
    environment: dict[str, str]


@dataclass(kw_only=True)
class Stage:
    name: str
    base: str
    steps: list[Step] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    folder: str = "/"
    user: str = "root"
    volumes: list[str] = field(default_factory=list)
    ports: list[int] = field(default_factory=list)
    labels: dict[str, str] = field(default_factory=dict)
    check: list[str] = field(default_factory=list)
    entry: list[str] = field(default_factory=list)
    command: list[str] = field(default_factory=list)


def stages(path: Path = CHECKOUT / "Dockerfile") -> list[Stage]:
    """Return the stages in their order; the last one is the image."""
    found: list[Stage] = []
    arguments: dict[str, str] = {}
    for each in DockerfileParser(fileobj=io.BytesIO(path.read_bytes())).structure:
        instruction, value = str(each["instruction"]), str(each["value"])
        if instruction == "COMMENT":
            continue
        if instruction == "ARG":
            name, _, default = value.partition("=")
            arguments[name] = default
        elif instruction == "FROM":
            value = re.sub(r"\$\{(\w+)\}", lambda match: arguments[match[1]], value)
            base, _, name = value.partition(" AS ")
            found.append(Stage(name=name, base=base))
        else:
            _add(found[-1], instruction, value)
    return found


def _add(stage: Stage, instruction: str, value: str) -> None:
    match instruction:
        case "RUN" | "COPY" | "WORKDIR":
            step = Step(
                instruction=instruction,
                value=value,
                folder=stage.folder,
                environment=dict(stage.environment),
            )
            stage.steps.append(step)
            stage.folder = value if instruction == "WORKDIR" else stage.folder
        case "ENV":
            stage.environment |= dict(pair.split("=", 1) for pair in shlex.split(value))  # type: ignore[misc]
        case "LABEL":
            stage.labels |= dict(pair.split("=", 1) for pair in shlex.split(value))  # type: ignore[misc]
        case "USER":
            stage.user = value
        case "VOLUME":
            stage.volumes.append(value)
        case "EXPOSE":
            stage.ports += [int(port) for port in value.split()]
        case "HEALTHCHECK":
            stage.check = json.loads(value.partition(" CMD ")[2])
        case "ENTRYPOINT":
            stage.entry = json.loads(value)
        case "CMD":
            stage.command = json.loads(value)
        case _:
            raise ValueError(f"the tests know no {instruction}: teach it to them")
