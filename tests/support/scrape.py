"""A scrape, read as Prometheus reads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import aiohttp
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families
from spoolrack_server.process.server import Server


@dataclass(frozen=True)
class Scrape:
    text: str
    families: Mapping[str, Metric]

    def names(self) -> set[str]:
        return set(self.families)

    def labels(self, family: str, label: str) -> set[str]:
        """Return all values of a label."""
        return {sample.labels[label] for sample in self.families[family].samples}

    def value(self, name: str, **labels: str) -> float:
        """Of the one sample that has this name and these labels."""
        (found,) = [
            sample.value
            for family in self.families.values()
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        ]
        return float(found)


def scrape_of(text: str) -> Scrape:
    return Scrape(text, {family.name: family for family in text_string_to_metric_families(text)})


async def scrape_at(url: str) -> Scrape:
    async with aiohttp.ClientSession() as http, http.get(f"{url}/-/metrics") as answer:
        text = await answer.text()
        assert answer.status == 200, text
        return scrape_of(text)


async def scrape(server: Server) -> Scrape:
    assert server.http_url is not None
    return await scrape_at(server.http_url)
