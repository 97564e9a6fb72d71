"""Schemas of the objects that are not Kubernetes' own: as much of cert-manager's, the
Prometheus operator's and KEDA's as the chart and the documentation use, written from their references
(cert-manager.io/v1, monitoring.coreos.com/v1, keda.sh/v1alpha1).

A field that is not listed is refused, so that a slip of the pen in a template is found; that the
operators themselves take the objects is not shown.
"""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]
TEXT: Schema = {"type": "string", "minLength": 1}
TEXTS: Schema = {"type": "array", "items": TEXT, "minItems": 1}
LABELS: Schema = {"type": "object", "additionalProperties": {"type": "string"}}


def exactly(required: str = "", **properties: Schema) -> Schema:
    return {
        "type": "object",
        "additionalProperties": False,
        "required": required.split(),
        "properties": properties,
    }


def custom(kind: str, version: str, spec: Schema) -> Schema:
    metadata = exactly("name namespace", name=TEXT, namespace=TEXT, labels=LABELS, annotations=LABELS)
    return exactly(
        "apiVersion kind metadata spec",
        apiVersion={"const": version},
        kind={"const": kind},
        metadata=metadata,
        spec=spec,
    )


SPAN: Schema = {"type": "string", "pattern": "^([0-9]+(ms|s|m|h|d|w|y))+$"}
SELECTOR = exactly("name key", name=TEXT, key=TEXT)
RELABEL = exactly(
    action=TEXT,
    regex={"type": "string"},
    sourceLabels=TEXTS,
    targetLabel=TEXT,
    replacement={"type": "string"},
    separator={"type": "string"},
    modulus={"type": "integer"},
)
RULE = exactly(
    "expr",
    alert=TEXT,
    record=TEXT,
    expr={"type": ["string", "integer"]},
    **{"for": SPAN, "keep_firing_for": SPAN, "labels": LABELS, "annotations": LABELS},
)

NUMBER: Schema = {"type": "string", "pattern": "^[0-9]+$"}
FLAG: Schema = {"enum": ["true", "false"]}
URL: Schema = {"type": "string", "pattern": "^https?://[^/]+"}
SQS_SCALER = exactly(
    "queueURL awsRegion",
    queueURL={"type": "string", "pattern": "^https?://[^/]+/[^/]+/[^/]+$"},
    queueURLFromEnv=TEXT,
    queueLength=NUMBER,
    activationQueueLength=NUMBER,
    scaleOnInFlight=FLAG,
    scaleOnDelayed=FLAG,
    awsRegion=TEXT,
    awsEndpoint=URL,
    identityOwner={"enum": ["pod", "operator"]},
)
"""The metadata of KEDA's `aws-sqs-queue`, from its page of 2.15: keda.sh/docs/2.15/scalers/aws-sqs."""
SQS_SCALER_SECRETS = ("awsAccessKeyID", "awsSecretAccessKey", "awsSessionToken", "awsRoleArn")
"""The parameters that it takes from a `TriggerAuthentication`, from the same page."""

SCHEMAS: dict[tuple[str, str], Schema] = {
    ("TriggerAuthentication", "keda.sh/v1alpha1"): custom(
        "TriggerAuthentication",
        "keda.sh/v1alpha1",
        exactly(
            "secretTargetRef",
            secretTargetRef={
                "type": "array",
                "items": exactly("parameter name key", parameter=TEXT, name=TEXT, key=TEXT),
            },
        ),
    ),
    ("ScaledObject", "keda.sh/v1alpha1"): custom(
        "ScaledObject",
        "keda.sh/v1alpha1",
        exactly(
            "scaleTargetRef triggers",
            scaleTargetRef=exactly("name", name=TEXT, kind=TEXT, apiVersion=TEXT),
            pollingInterval={"type": "integer"},
            cooldownPeriod={"type": "integer"},
            minReplicaCount={"type": "integer"},
            maxReplicaCount={"type": "integer"},
            triggers={
                "type": "array",
                "minItems": 1,
                "items": exactly(
                    "type metadata",
                    type={"enum": ["external", "external-push", "aws-sqs-queue"]},
                    metadata=LABELS,
                    authenticationRef=exactly("name", name=TEXT),
                ),
            },
        ),
    ),
    ("Certificate", "cert-manager.io/v1"): custom(
        "Certificate",
        "cert-manager.io/v1",
        exactly(
            "secretName issuerRef dnsNames",
            secretName=TEXT,
            duration={"type": "string", "pattern": "^([0-9]+(h|m|s))+$"},
            renewBefore={"type": "string", "pattern": "^([0-9]+(h|m|s))+$"},
            privateKey=exactly(
                algorithm={"enum": ["RSA", "ECDSA", "Ed25519"]},
                size={"type": "integer"},
                rotationPolicy={"enum": ["Never", "Always"]},
            ),
            usages={"type": "array", "items": {"enum": ["digital signature", "server auth"]}},
            issuerRef=exactly("name", name=TEXT, kind=TEXT, group=TEXT),
            dnsNames=TEXTS,
        ),
    ),
    ("ServiceMonitor", "monitoring.coreos.com/v1"): custom(
        "ServiceMonitor",
        "monitoring.coreos.com/v1",
        exactly(
            "selector endpoints",
            selector=exactly(matchLabels=LABELS),
            namespaceSelector=exactly(matchNames=TEXTS),
            endpoints={
                "type": "array",
                "items": exactly(
                    port=TEXT,
                    path=TEXT,
                    scheme={"enum": ["http", "https"]},
                    interval=SPAN,
                    scrapeTimeout=SPAN,
                    authorization=exactly(type=TEXT, credentials=SELECTOR),
                    tlsConfig=exactly(
                        serverName=TEXT,
                        ca=exactly(secret=SELECTOR),
                        cert=exactly(secret=SELECTOR),
                        keySecret=SELECTOR,
                    ),
                    relabelings={"type": "array", "items": RELABEL},
                    metricRelabelings={"type": "array", "items": RELABEL},
                ),
            },
        ),
    ),
    ("PrometheusRule", "monitoring.coreos.com/v1"): custom(
        "PrometheusRule",
        "monitoring.coreos.com/v1",
        exactly(
            "groups",
            groups={
                "type": "array",
                "items": exactly(
                    "name rules", name=TEXT, interval=SPAN, rules={"type": "array", "items": RULE}
                ),
            },
        ),
    ),
}
