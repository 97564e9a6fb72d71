"""Exposition of rows in Prometheus' text format, or in OpenMetrics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector, CollectorRegistry

from .metrics import METRICS, Metric, Row

PROCESS: Final = "process"
"""The label that tells the processes of one server apart."""


class _Once(Collector):
    """Rows that were gathered for one scrape."""

    def __init__(self, families: Sequence[Family]) -> None:
        self._families = families

    def collect(self) -> Iterator[Family]:
        yield from self._families


def written(
    root: Iterable[Row], processes: Mapping[int, Iterable[Row]], accept: str
) -> tuple[bytes, str]:
    """Return the page for a scrape that accepts these types, and its content type."""
    families: dict[str, Family] = {}
    for row in root:
        _add(families, row, ())
    for number, rows in processes.items():
        for row in rows:
            _add(families, row, (str(number),))
    registry = CollectorRegistry()
    registry.register(_Once([families[name] for name in METRICS if name in families]))
    encode, content_type = choose_encoder(accept)
    return encode(registry), content_type


def _add(families: dict[str, Family], row: Row, process: tuple[str, ...]) -> None:
    name, labels, value = row
    metric = METRICS[name]
    family = families.get(name)
    if family is None:
        family = families[name] = _family(metric)
    values = [*process, *labels]
    match family:
        case HistogramMetricFamily() if isinstance(value, tuple):
            family.add_metric(values, _buckets(metric, value[0]), value[1])
        case InfoMetricFamily():
            family.add_metric([], dict(zip(metric.labels, values, strict=True)))
        case GaugeMetricFamily() | CounterMetricFamily() if isinstance(value, int | float):
            family.add_metric(values, value)
        case _:
            raise AssertionError(row)


_FAMILIES: Final[Mapping[str, Callable[..., Family]]] = {
    "gauge": GaugeMetricFamily,
    "counter": CounterMetricFamily,
    "histogram": HistogramMetricFamily,
    "info": InfoMetricFamily,
}


def _family(metric: Metric) -> Family:
    labels = [*([PROCESS] if metric.is_of_process else []), *metric.labels]
    return _FAMILIES[metric.kind](metric.name, metric.help, labels=labels)


def _buckets(metric: Metric, counts: Sequence[int]) -> list[tuple[str, float]]:
    """Return how many values lay below each bound, as Prometheus counts."""
    ends = [*(repr(bound) for bound in metric.bounds), "+Inf"]
    below, found = 0, []
    for end, count in zip(ends, counts, strict=True):
        below += count
        found.append((end, float(below)))
    return found
