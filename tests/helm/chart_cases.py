"""The values that the chart is rendered with, by a name that says what is special about them."""

from __future__ import annotations

from typing import Any

Values = dict[str, Any]

TLS: Values = {"tls": {"secretName": "spoolrack-tls"}}
CERT_MANAGER: Values = {
    "tls": {"certManager": {"enabled": True, "issuerRef": {"name": "ca", "kind": "ClusterIssuer"}}}
}
TOKENS = f"worker sha256:{'0' * 64}\nscraper sha256:{'1' * 64}\n"
PERMISSIONS = "worker send,receive jobs*\nscraper monitor *\n"
SHARED: Values = {"persistence": {"accessMode": "ReadWriteMany", "storageClass": "nfs"}}
QUEUES: Values = {
    "jobs": {
        "visibilityTimeout": "5m",
        "deliveryDelay": "1s",
        "maxReceives": 5,
        "deadLetterQueue": "jobs.failed",
        "retention": "14d",
        "maxMessages": 1_000_000,
        "maxBytes": "1G",
        "maxMessageSize": 65_536,
        "leaseDurability": "relaxed",
        "deduplicationWindow": 60,
        "groupOrder": "strict",
        "archiveRetention": "7d",
        "expires": "30d",
        "messagesPerFile": 1,
    },
    "jobs.failed": {},
    "mail": None,
}
EVERYTHING: Values = {
    **SHARED,
    "tls": {"secretName": "spoolrack-tls", "clientCA": {"secretName": "clients", "key": "bundle.crt"}},
    "nameOverride": "spool",
    "commonLabels": {"team": "messaging"},
    "image": {"repository": "registry.example/spoolrack", "digest": f"sha256:{'a' * 64}"},
    "imagePullSecrets": [{"name": "registry"}],
    "access": {"tokens": TOKENS, "permissions": PERMISSIONS},
    "client": {"tokenSecret": {"name": "client-token"}, "tlsSecretName": "client-tls"},
    "sqs": {
        "enabled": True,
        "keysSecret": {"name": "sqs-keys", "key": "k"},
        "url": "https://sqs.example.com",
    },
    "server": {
        "processes": 2,
        "workers": 64,
        "minFreeSpace": "2G",
        "minFreeInodes": 2_000_000,
        "traces": "http://collector.observability:4317",
    },
    "queues": QUEUES,
    "service": {
        "type": "LoadBalancer",
        "grpcPort": 443,
        "httpPort": 8443,
        "sqsPort": 9443,
        "grpcNodePort": 30443,
        "sqsNodePort": 30444,
        "annotations": {"example.com/internal": "true"},
        "loadBalancerClass": "example.com/lb",
        "loadBalancerSourceRanges": ["10.0.0.0/8"],
        "externalTrafficPolicy": "Local",
    },
    "ingress": {
        "enabled": True,
        "className": "nginx",
        "hosts": ["queues.example.com"],
        "tls": [{"secretName": "front", "hosts": ["queues.example.com"]}],
        "annotations": {"nginx.ingress.kubernetes.io/backend-protocol": "HTTPS"},
    },
    "networkPolicy": {
        "from": [{"namespaceSelector": {"matchLabels": {"uses": "queues"}}}],
        "httpFrom": [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}],
        "extraIngress": [{"from": [{"ipBlock": {"cidr": "10.1.0.0/16"}}]}],
        "extraEgress": [{"to": [{"ipBlock": {"cidr": "10.2.0.0/16"}}]}],
    },
    "podDisruptionBudget": {"maxUnavailable": "50%"},
    "nodeSelector": {"disk": "fast"},
    "tolerations": [{"key": "queues", "operator": "Exists", "effect": "NoSchedule"}],
    "priorityClassName": "important",
    "runtimeClassName": "gvisor",
    "resources": {"requests": {"cpu": 1, "memory": "1Gi"}, "limits": {"memory": "4Gi"}},
    "serviceAccount": {"name": "queues", "annotations": {"example.com/role": "none"}},
    "podAnnotations": {"example.com/a": "b"},
    "podLabels": {"example.com/tier": "storage"},
    "annotations": {"example.com/owner": "messaging"},
    "extraArgs": ["--no-reaper"],
    "extraEnv": [{"name": "TZ", "value": "UTC"}],
    "extraEnvFrom": [{"configMapRef": {"name": "more"}}],
    "extraVolumes": [{"name": "scratch", "emptyDir": {}}],
    "extraVolumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
    "extraContainers": [
        {
            "name": "beside",
            "image": "example/beside:1",
            "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        }
    ],
    "initContainers": [
        {
            "name": "before",
            "image": "example/before:1",
            "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        }
    ],
    "serviceMonitor": {
        "enabled": True,
        "labels": {"release": "prometheus"},
        "relabelings": [{"action": "labeldrop", "regex": "endpoint"}],
        "metricRelabelings": [{"action": "labeldrop", "regex": "code"}],
        "tokenSecret": {"name": "scraper"},
    },
    "prometheusRule": {"enabled": True, "labels": {"release": "prometheus"}},
    "grafanaDashboard": {"enabled": True, "annotations": {"grafana_folder": "Queues"}},
}

TOGETHER: Values = {
    "jobs": {"maxReceives": 5, "deadLetterQueue": "jobs--failed"},
    "jobs--failed": {},
    "orders.fifo": {"maxReceives": 2, "deadLetterQueue": "orders--dead.fifo"},
    "orders--dead.fifo": {},
    "mail": None,
}
"""Queues whose dead-letter queues are on their shards."""
SHARDS: Values = {
    **{key: each for key, each in EVERYTHING.items() if key not in ("ingress", "service")},
    "shards": 8,
    "queues": TOGETHER,
}

HOSTS: Values = {
    "hosts": "several",
    "replicas": 2,
    "persistence": {"accessMode": "ReadWriteMany", "storageClass": "cephfs-fuse"},
}

CASES: dict[str, Values] = {
    "insecure": {"insecure": True},
    "tls from a secret": TLS,
    "tls of a public ca": {"tls": {"secretName": "spoolrack-tls", "caKey": ""}},
    "tls from cert-manager": CERT_MANAGER,
    "more names in the certificate": {
        "tls": {
            "certManager": {
                "enabled": True,
                "issuerRef": {"name": "ca"},
                "dnsNames": ["queues.example.com"],
            }
        }
    },
    "mutual tls": {
        "tls": {"secretName": "spoolrack-tls", "clientCA": {"secretName": "clients"}},
        "client": {"tlsSecretName": "client-tls"},
    },
    "tokens": {**TLS, "access": {"tokens": TOKENS}},
    "tokens and permissions": {
        **TLS,
        "access": {"tokens": TOKENS, "permissions": PERMISSIONS},
        "client": {"tokenSecret": {"name": "client-token", "key": "value"}},
    },
    "tokens without a restart": {**TLS, "access": {"tokens": TOKENS, "restartOnChange": False}},
    "access of one's own": {
        **TLS,
        "access": {"existingSecret": {"name": "mine", "tokensKey": "t", "permissionsKey": "p"}},
    },
    "tokens of one's own alone": {
        **TLS,
        "access": {"existingSecret": {"name": "mine", "permissionsKey": ""}},
    },
    "sqs with keys": {**TLS, "sqs": {"enabled": True, "keysSecret": {"name": "sqs-keys"}}},
    "sqs with any key": {"insecure": True, "sqs": {"enabled": True}},
    "a volume that many nodes can mount": {**TLS, **SHARED},
    "several processes": {**TLS, "server": {"processes": 4, "logFormat": "logfmt"}},
    "no drain": {**TLS, "drain": {"delaySeconds": 0, "graceSeconds": 1}},
    "a long drain": {**TLS, "drain": {"delaySeconds": 15, "graceSeconds": 600}},
    "a larger volume": {**TLS, "persistence": {"size": "100Gi", "annotations": {"a": "b"}}},
    "a claim from a snapshot": {
        **TLS,
        "persistence": {
            "dataSource": {
                "name": "last-night",
                "kind": "VolumeSnapshot",
                "apiGroup": "snapshot.storage.k8s.io",
            }
        },
    },
    "a claim of one's own": {**TLS, "persistence": {"existingClaim": "mine"}},
    "a claim that goes": {**TLS, "persistence": {"keep": False, "accessMode": "ReadWriteOncePod"}},
    "no volume": {"insecure": True, "persistence": {"enabled": False}},
    "queues": {**TLS, "queues": QUEUES},
    "a node's port": {
        **TLS,
        "service": {"type": "NodePort", "grpcNodePort": 30051, "httpNodePort": 30080},
    },
    "no network policy": {**TLS, "networkPolicy": {"enabled": False}},
    "traces": {**TLS, "server": {"traces": "https://collector.example.com"}},
    "no budget": {**TLS, "podDisruptionBudget": {"enabled": False}},
    "an address of ipv6": {**TLS, "server": {"listen": "::"}},
    "a user of the cluster's choice": {
        **TLS,
        "security": {"runAsUser": None, "runAsGroup": None, "fsGroup": None},
    },
    "an existing account": {**TLS, "serviceAccount": {"create": False}},
    "placed by hand": {
        **TLS,
        "affinity": {"nodeAffinity": {}},
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule"}
        ],
    },
    "watched": {
        **TLS,
        "client": {"tokenSecret": {"name": "client-token"}},
        "serviceMonitor": {"enabled": True},
        "prometheusRule": {"enabled": True},
        "grafanaDashboard": {"enabled": True},
    },
    "watched without tls": {"insecure": True, "serviceMonitor": {"enabled": True}},
    "everything": EVERYTHING,
    "several hosts": {"insecure": True, **HOSTS},
    "several hosts, one pod": {**TLS, **HOSTS, "replicas": 1},
    "several hosts with a claim of one's own": {
        **TLS,
        **HOSTS,
        "persistence": {"existingClaim": "mine", "accessMode": "ReadWriteMany"},
    },
    "several hosts with everything": {**EVERYTHING, **HOSTS, "replicas": 3},
    "shards": {"insecure": True, "shards": 2, "queues": TOGETHER},
    "shards without volumes": {"insecure": True, "shards": 2, "persistence": {"enabled": False}},
    "shards of cert-manager": {**CERT_MANAGER, "shards": 3, "serviceMonitor": {"enabled": True}},
    "shards with everything": SHARDS,
}

ROUTED: dict[str, Values] = {
    "shards behind a router": {"insecure": True, "shards": 2, "router": {"enabled": True}},
    "shards behind a router with tls": {**CERT_MANAGER, "shards": 3, "router": {"enabled": True}},
    "shards behind a router with everything": {
        **SHARDS,
        **{key: EVERYTHING[key] for key in ("ingress", "service")},
        "tls": {"secretName": "spoolrack-tls", "caKey": ""},
        "client": {"tokenSecret": {"name": "client-token"}},
        "router": {"enabled": True, "replicas": 3, "image": "registry.example/haproxy:3.2"},
    },
}
"""Releases with a deployment beside the servers."""
