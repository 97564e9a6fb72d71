"""Runs what a rendered pod would run as processes of this machine, and asks what a kubelet would ask.

Commands, arguments, variables, probes and files come from the rendered objects. Three things are
mapped, and nothing else: paths of the image and of mounts to folders, ports to free ones at loopback,
and the names of the service and of pods to the pods behind them.
"""

from __future__ import annotations

import base64
import http.client
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.helm.chart_rig import Object, Rendered, container
from tests.support import STUCK
from tests.support.ports import free_port

LOOKS = 3_000
PROGRAMS = {
    "/opt/spoolrack/bin/spoolrack": [sys.executable, "-m", "spoolrack_server"],
    "/opt/spoolrack/bin/python": [sys.executable],
}
Secrets = Mapping[str, Mapping[str, bytes]]


@dataclass
class Machine:
    """A node, with the secrets of its cluster."""

    folder: Path
    release: Rendered
    secrets: dict[str, dict[str, bytes]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for each in self.release.all("Secret"):
            values = {key: base64.b64decode(value) for key, value in each["data"].items()}
            self.secrets[each["metadata"]["name"]] = values

    def pod(self, name: str, spec: Object, *behind: Pod, number: int = 0) -> Pod:
        """Return a pod on this node. `behind` are the servers that the service's name leads to, or the
        names of pods; `number` is that of a server in its StatefulSet."""
        return Pod(self, name, spec, behind, number)

    def claim(self, name: str) -> Path:
        """Return the folder of a volume that stays."""
        folder = self.folder / "claims" / name
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o2775)
        (folder / "lost+found").mkdir(mode=0o700, exist_ok=True)  # As every new ext4 has it.
        return folder

    def volume(self, volume: Object, pod: Path) -> Path:
        """Return the folder of a volume, with what the kubelet puts there."""
        if "persistentVolumeClaim" in volume:
            return self.claim(volume["persistentVolumeClaim"]["claimName"])
        folder = pod / "volumes" / volume["name"]
        folder.mkdir(parents=True)
        if "emptyDir" in volume:
            folder.chmod(0o2777)
        elif "secret" in volume:
            secret = self.secrets[volume["secret"]["secretName"]]
            files = {item["path"]: secret[item["key"]] for item in volume["secret"]["items"]}
            project(folder, files, volume["secret"]["defaultMode"])
        elif "configMap" in volume:
            found = self.release.one("ConfigMap", volume["configMap"]["name"])
            files = {name: text.encode() for name, text in found["data"].items()}
            project(folder, files, 0o644)
        else:
            raise AssertionError(f"this machine can't mount {volume}")
        return folder


def project(folder: Path, files: Mapping[str, bytes], mode: int) -> None:
    """Put files there as the kubelet does: links, through one link that is exchanged as a whole."""
    version = folder / f"..version-{len(list(folder.iterdir()))}"
    version.mkdir()
    for name, content in files.items():
        (version / name).write_bytes(content)
        (version / name).chmod(mode)
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(f"..data/{name}")
    (folder / "..new").symlink_to(version.name)
    (folder / "..new").rename(folder / "..data")


class Pod:
    """The one container of ours in it."""

    def __init__(
        self, machine: Machine, name: str, spec: Object, behind: tuple[Pod, ...], number: int
    ) -> None:
        self.spec = spec
        self._number = number
        self.container = container(spec)
        self._release = machine.release
        self._behind = behind
        self._folder = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=machine.folder))
        volumes = {each["name"]: machine.volume(each, self._folder) for each in spec.get("volumes", ())}
        mounts = [each["name"] for each in self.container.get("volumeMounts", ())]
        if "messages" in mounts and "messages" not in volumes:
            volumes["messages"] = machine.claim(machine.release.claims[number])
        self._mounts = {
            each["mountPath"]: volumes[each["name"]] for each in self.container.get("volumeMounts", ())
        }
        ports = self.container.get("ports", ())
        self.ports = {each["name"]: free_port() for each in ports}
        self._mapped = {each["containerPort"]: self.ports[each["name"]] for each in ports}
        self.process: subprocess.Popen[bytes] | None = None

    def local(self, text: str) -> str:
        """Return what a word of the pod is on this machine."""
        for path, folder in self._mounts.items():
            text = re.sub(rf"(^|=){re.escape(path)}(?=/|$)", rf"\g<1>{folder}", text)
        listens = re.fullmatch(r"(--\w+)=0\.0\.0\.0:(\d+)", text)
        if listens is not None:
            return f"{listens[1]}=127.0.0.1:{self._mapped[int(listens[2])]}"
        if self._behind and re.fullmatch(r"grpcs?://[^/]+", text):
            return re.sub(r"(?<=[/,])([^:/,]+):(\d+)", self._at_loopback, text)
        return text.replace("$(POD_INDEX)", f"{self._number}")

    def _at_loopback(self, address: re.Match[str]) -> str:
        """Return where a client comes out that goes to a service of the release, or to a pod of it."""
        *pod, name, namespace, last = address[1].split(".")
        assert last == "svc"
        (service,) = [each for each in self._release.all("Service") if each["metadata"]["name"] == name]
        assert service["metadata"]["namespace"] == namespace
        (target,) = [
            each["targetPort"] for each in service["spec"]["ports"] if each["port"] == int(address[2])
        ]
        server = self._release.one("StatefulSet")
        names = [f"{server['metadata']['name']}-{n}" for n in range(server["spec"]["replicas"])]
        number = names.index(pod[0]) if pod else 0
        assert not pod or server["spec"]["serviceName"] == name
        return f"127.0.0.1:{self._behind[number].ports[target]}"

    def words(self, command: list[str]) -> list[str]:
        return [*PROGRAMS[command[0]], *map(self.local, command[1:])]

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("SPOOLRACK_")}
        ours = {
            each["name"]: self.local(each["value"])
            for each in self.container.get("env", ())
            if "value" in each
        }
        return kept | ours

    def path(self, path: str) -> Path:
        return Path(self.local(path))

    def run(self) -> subprocess.CompletedProcess[str]:
        """To its end, as a job's pod."""
        return subprocess.run(
            self.words([*self.container["command"], *self.container["args"]]),
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=STUCK,
            check=False,
        )

    def start(self) -> None:
        with open(self._folder / "log", "ab") as log:
            self.process = subprocess.Popen(
                self.words([*self.container["command"], *self.container["args"]]),
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    @property
    def log(self) -> str:
        return (self._folder / "log").read_text()

    def asks(self, probe: str) -> int | None:
        """Return the status with which a probe is answered; None without an answer."""
        get = self.container[probe]["httpGet"]
        assert get["scheme"] == "HTTP"
        seconds = self.container[probe]["timeoutSeconds"]
        connection = http.client.HTTPConnection("127.0.0.1", self.ports[get["port"]], timeout=seconds)
        try:
            connection.request("GET", get["path"])
            return connection.getresponse().status
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()

    def becomes_ready(self) -> None:
        """Ask as the kubelet does: liveness and readiness only once it has started."""
        pause = threading.Event()
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            for _ in range(LOOKS):
                if self.asks(probe) == http.client.OK:
                    break
                assert self.process is not None
                assert self.process.poll() is None, self.log
                pause.wait(0.02)
            else:
                raise AssertionError(f"the {probe} never succeeds:\n{self.log}")

    def run_pre_stop(self) -> subprocess.Popen[bytes]:
        command = self.container["lifecycle"]["preStop"]["exec"]["command"]
        return subprocess.Popen(self.words(command), env=self.environment)

    def terminate(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)

    def ended(self, within: float) -> int:
        assert self.process is not None
        return self.process.wait(within)

    def fails(self) -> str:
        """Start it in vain; return what it said."""
        self.start()
        try:
            assert self.ended(STUCK) != 0
        finally:
            self.kill()
        return self.log

    def kill(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()


@contextmanager
def serving(*pods: Pod) -> Iterator[None]:
    """Pods of servers that are ready; killed at the end, if they haven't ended."""
    try:
        for pod in pods:
            pod.start()
        for pod in pods:
            pod.becomes_ready()
        yield
    finally:
        for pod in pods:
            pod.kill()
