"""The objects of the benchmark: pods of about 5 kB, as a cluster with server-side apply writes them."""

from __future__ import annotations

import json
from typing import Any

NAMESPACES = 100
FIRST_VERSION = 1_000_000_000
"""Resource versions have ten digits from here on, so that every event of an object has the same length."""


def namespace(number: int) -> str:
    """Where object `number` lives."""
    return f"team-{number % NAMESPACES:03d}"


def name(number: int) -> str:
    """What object `number` is called."""
    return f"checkout-5f7d9c6b88-{number:07d}"


def pod(number: int) -> dict[str, Any]:
    """One pod as a LIST has it: without `kind` and `apiVersion`.

    The two drain timeouts are in no pod; they stand for the duration fields of a custom resource, so that checks of two
    fields have something to read. Typed clients skip them as unknown.
    """
    managed: dict[str, Any] = {f"f:{field}": {".": {}, "f:name": {}, "f:value": {}} for field in _MANAGED}
    return {
        "metadata": {
            "name": name(number),
            "generateName": "checkout-5f7d9c6b88-",
            "namespace": namespace(number),
            "uid": f"0c5e2d1a-7b3f-4c68-9e10-{number:012d}",
            "resourceVersion": "@@@@@@@@@@",
            "creationTimestamp": "2026-05-04T08:30:00Z",
            "labels": {
                "app.kubernetes.io/name": "checkout",
                "app.kubernetes.io/part-of": "shop",
                "pod-template-hash": "5f7d9c6b88",
                "shard": f"{number % 10}",
                "team": f"{number % NAMESPACES}",
            },
            "annotations": {
                "example.com/config-digest": "9f86d081884c7d659a2feaa0c55ad015",
                "example.com/row": f"{number}",
            },
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": "checkout-5f7d9c6b88",
                    "uid": "b1946ac9-2f0a-4d5e-8c77-0123456789ab",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
            "managedFields": [
                {
                    "manager": manager,
                    "operation": "Update",
                    "apiVersion": "v1",
                    "time": "2026-05-04T08:30:02Z",
                    "fieldsType": "FieldsV1",
                    "fieldsV1": {"f:spec": managed, "f:status": {"f:conditions": managed}},
                }
                for manager in ("kube-controller-manager", "kubelet")
            ],
        },
        "spec": {
            "containers": [_container("server", 8080), _container("proxy", 15001)],
            "nodeName": f"worker-{number % 500:03d}.example.com",
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "serviceAccountName": "checkout",
            "schedulerName": "default-scheduler",
            "tolerations": [
                {
                    "key": f"node.kubernetes.io/{taint}",
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": 300,
                }
                for taint in ("not-ready", "unreachable")
            ],
            "nodeDrainTimeout": "10m",
            "nodeVolumeDetachTimeout": "1h30m",
        },
        "status": {
            "phase": "Running",
            "conditions": [
                {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": "2026-05-04T08:30:05Z"}
                for kind in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
            ],
            "hostIP": "10.0.4.17",
            "podIP": f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}",
            "startTime": "2026-05-04T08:30:00Z",
            "qosClass": "Burstable",
        },
    }


_MANAGED = (
    "containers",
    "dnsPolicy",
    "restartPolicy",
    "schedulerName",
    "securityContext",
    "tolerations",
    "volumes",
    "hostIP",
)


def _container(title: str, port: int) -> dict[str, Any]:
    return {
        "name": title,
        "image": f"registry.example.com/shop/{title}:2.7.1",
        "ports": [{"name": "http", "containerPort": port, "protocol": "TCP"}],
        "env": [
            {"name": "LOG_LEVEL", "value": "info"},
            {"name": "DATABASE", "value": "orders.db.svc.cluster.local"},
            {"name": "POD_IP", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "status.podIP"}}},
        ],
        "resources": {"limits": {"cpu": "500m", "memory": "512Mi"}, "requests": {"cpu": "100m", "memory": "128Mi"}},
        "readinessProbe": {"httpGet": {"path": "/ready", "port": "http", "scheme": "HTTP"}, "periodSeconds": 10},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
    }


def template(number: int) -> tuple[bytes, bytes]:
    """The JSON text of one pod around its resource version."""
    before, after = json.dumps(pod(number), separators=(",", ":")).split("@@@@@@@@@@")
    return before.encode(), after.encode()
