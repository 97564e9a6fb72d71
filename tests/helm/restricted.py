"""The restricted Pod Security Standard, as data.

From https://kubernetes.io/docs/concepts/security/pod-security-standards/: of each control the fields
that it restricts, and what they may be. "[*]" is every element; an `absent` field may be left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

CONTAINERS = ("containers", "initContainers", "ephemeralContainers")
VOLUMES = {
    *("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim"),
    *("projected", "secret"),
}
CAPABILITIES = {"NET_BIND_SERVICE"}
SYSCTLS = {
    *("kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_unprivileged_port_start"),
    *("net.ipv4.tcp_syncookies", "net.ipv4.ping_group_range", "net.ipv4.ip_local_reserved_ports"),
    *("net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl"),
    "net.ipv4.tcp_keepalive_probes",
}
SELINUX = {"container_t", "container_init_t", "container_kvm_t", "container_engine_t", ""}


@dataclass(frozen=True, kw_only=True)
class Control:
    """The values that a field of a pod, or of each container, may have."""

    name: str
    field: str
    of: str
    """ "pod" or "container"."""
    allowed: tuple[Any, ...] = ()
    """All but these are refused; with `anything_but`, these are."""
    absent: bool = True
    or_in_pod: bool = False
    """If the container leaves it out, the pod's counts."""
    anything_but: bool = False


CONTROLS = (
    Control(name="host namespaces", field="hostNetwork", of="pod", allowed=(False,)),
    Control(name="host namespaces", field="hostPID", of="pod", allowed=(False,)),
    Control(name="host namespaces", field="hostIPC", of="pod", allowed=(False,)),
    Control(name="privileged", field="securityContext.privileged", of="container", allowed=(False,)),
    Control(name="host ports", field="ports[*].hostPort", of="container", allowed=(0,)),
    Control(name="proc mount", field="securityContext.procMount", of="container", allowed=("Default",)),
    Control(
        name="host process",
        field="securityContext.windowsOptions.hostProcess",
        of="container",
        allowed=(False,),
    ),
    Control(
        name="privilege escalation",
        field="securityContext.allowPrivilegeEscalation",
        of="container",
        allowed=(False,),
        absent=False,
    ),
    Control(
        name="running as non-root",
        field="securityContext.runAsNonRoot",
        of="container",
        allowed=(True,),
        absent=False,
        or_in_pod=True,
    ),
    Control(
        name="running as a non-root user",
        field="securityContext.runAsUser",
        of="container",
        allowed=(0,),
        anything_but=True,
    ),
    Control(
        name="running as a non-root user",
        field="securityContext.runAsUser",
        of="pod",
        allowed=(0,),
        anything_but=True,
    ),
    Control(
        name="seccomp",
        field="securityContext.seccompProfile.type",
        of="container",
        allowed=("RuntimeDefault", "Localhost"),
        absent=False,
        or_in_pod=True,
    ),
    Control(
        name="selinux",
        field="securityContext.seLinuxOptions.type",
        of="container",
        allowed=tuple(SELINUX),
    ),
    Control(name="selinux", field="securityContext.seLinuxOptions.user", of="container", allowed=("",)),
    Control(
        name="apparmor",
        field="securityContext.appArmorProfile.type",
        of="container",
        allowed=("RuntimeDefault", "Localhost"),
    ),
)


def violations(pod: dict[str, Any]) -> Iterator[str]:
    """Everything in a pod's spec that the standard doesn't permit."""
    containers = [each for kind in CONTAINERS for each in pod.get(kind, ())]
    for control in CONTROLS:
        subjects = [pod] if control.of == "pod" else containers
        for subject in subjects:
            name = subject.get("name", "the pod")
            found = list(_values(subject, control.field))
            if not found and control.or_in_pod:
                found = list(_values(pod, control.field))
            if not found and not control.absent:
                yield f"{name}: {control.name}: {control.field} must be one of {control.allowed}"
            for value in found:
                if (value in control.allowed) is control.anything_but:
                    yield f"{name}: {control.name}: {control.field} is {value!r}"
    for each in containers:
        capabilities = each.get("securityContext", {}).get("capabilities", {})
        if "ALL" not in capabilities.get("drop", ()):
            yield f"{each['name']}: capabilities: drop must have ALL"
        if not set(capabilities.get("add", ())) <= CAPABILITIES:
            yield f"{each['name']}: capabilities: add may only have {CAPABILITIES}"
    for volume in pod.get("volumes", ()):
        if not set(volume) - {"name"} <= VOLUMES:
            yield f"the volume {volume['name']} is of a kind that may not be used"
    for sysctl in pod.get("securityContext", {}).get("sysctls", ()):
        if sysctl["name"] not in SYSCTLS:
            yield f"sysctls: {sysctl['name']}"


def _values(subject: Any, field: str) -> Iterator[Any]:
    first, _, rest = field.partition(".")
    name = first.removesuffix("[*]")
    if not isinstance(subject, dict) or subject.get(name) is None:
        return
    found = subject[name]
    for each in found if first.endswith("[*]") else [found]:
        if rest:
            yield from _values(each, rest)
        else:
            yield each
