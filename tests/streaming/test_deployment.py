"""compose.yaml and the metrics: what they name exists."""

from __future__ import annotations

import asyncio
import inspect
import re
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.streaming.log import events_of, wait_until_folded, write_events
from tests.streaming.workers import ROOT, WorkerProcess
from topics import settings as settings_module
from topics.admin import ensure_topics
from topics.broker import free_port
from topics.settings import Settings


def compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())
    return found


def test_every_service_of_compose_says_whether_it_is_well() -> None:
    services = compose()["services"]
    assert sorted(services) == ["kafka", "prometheus", "worker"]
    assert all(service["healthcheck"]["test"] for service in services.values())
    assert services["worker"]["depends_on"] == {"kafka": {"condition": "service_healthy"}}


def test_the_worker_of_compose_is_set_by_variables_that_exist() -> None:
    variables = compose()["services"]["worker"]["environment"]
    source = inspect.getsource(settings_module)
    assert [name for name in variables if f'"{name}"' not in source] == []
    found = Settings.from_environment(variables)
    assert (found.servers, found.instance_id, found.metrics_host) == (["kafka:29092"], "worker-0", "0.0.0.0")


def test_prometheus_of_compose_asks_the_worker_where_it_answers() -> None:
    scraped = yaml.safe_load((ROOT / "deploy" / "prometheus.yaml").read_text())["scrape_configs"]
    worker = compose()["services"]["worker"]["environment"]
    assert scraped[0]["static_configs"] == [{"targets": [f"worker:{worker['QUOTA_LEDGER_METRICS_PORT']}"]}]


def test_the_settings_page_names_every_variable() -> None:
    page = (ROOT / "docs" / "settings.md").read_text()
    read = re.findall(r'"((?:KAFKA|QUOTA_LEDGER)_[A-Z_]+)"', inspect.getsource(settings_module))
    assert sorted({name for name in read if f"`{name}`" not in page}) == []


@pytest.mark.broker
def test_a_worker_answers_prometheus(embedded_settings: Settings, tmp_path: Path) -> None:
    settings = embedded_settings.replaced(metrics_port=free_port())

    async def prepare() -> None:
        await ensure_topics(settings)
        await write_events(settings, [*events_of(30, ["eu-1"]), (b"eu-1", b"poison")])

    asyncio.run(prepare())
    with WorkerProcess(settings, tmp_path / "worker.log") as worker:
        asyncio.run(wait_until_folded(settings, 31))
        with urllib.request.urlopen(f"http://127.0.0.1:{settings.metrics_port}/metrics", timeout=10) as answer:
            text = answer.read().decode()
        assert worker.terminate() == 0
    found = dict(re.findall(r'^quota_ledger_(\w+)\{partition="\d"\} (\S+)$', text, re.MULTILINE))
    assert {name: float(found[name]) for name in ("events_total", "decisions_total", "dead_letters_total")} == {
        "events_total": 31,
        "decisions_total": 30,
        "dead_letters_total": 1,
    }
    assert float(found["next_offset"]) == 31
