"""The page of a report, in a real browser."""

import json
import re
import subprocess
import sys

import pytest

from patience import PATIENCE


def results():
    """Lines of a `workers` run: the published table for torch, a straight line for feedline."""
    published = [36.14, 39.83, 21.79, 15.67, 13.16, 11.60, 10.35, 10.36, 9.64]
    axes = [{"name": name, "label": name} for name in ("contestants", "prefetch", "workers")]
    header = {
        "kind": "experiment",
        "schema": 1,
        "experiment": "workers",
        "title": "What more workers bring",
        "question": "How fast?",
        "axes": axes,
        "unit": "items",
        "rounds": 1,
        "quick": False,
        "page_cache": "no files are read",
        "settings": {"contestants": ["torch", "feedline"], "batch_size": 64},
        "machine": {"cores": 2},
        "versions": {"torch": "2"},
        "notes": [],
        "points": 18,
        "started_unix_s": 1_700_000_000,
    }
    lines = [header]
    for workers, torchs in enumerate(published):
        for name, seconds in (("torch", torchs), ("feedline", 32.2 / max(workers, 1))):
            moments = [
                {"at_s": at, "cores": 0.5, "pss_bytes": 1 << 28, "processes": 1} for at in range(4)
            ]
            lines.append(
                {
                    "kind": "measurement",
                    "point": {"contestants": name, "prefetch": 2, "workers": workers},
                    "round": 1,
                    "seconds": seconds,
                    "items": 3200,
                    "figures": {"fetch_s": 0.01, "start_s": 0.1},
                    "waits_s": [0.6, 0.1, 0.05],
                    "usage": {"cpu_s": 1.0, "pss_peak_bytes": 1 << 28},
                    "moments": moments,
                    "trace": [[worker, worker, 0.0, 0.6] for worker in range(max(workers, 1))],
                }
            )
    return "".join(json.dumps(line) + "\n" for line in lines)


@pytest.fixture(scope="module")
def page_address(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    (folder / "results.jsonl").write_text(results())
    subprocess.run(
        [sys.executable, "-m", "feedline", "report", str(folder)],
        check=True,
        capture_output=True,
        timeout=PATIENCE,
    )
    return (folder / "report.html").as_uri()


def test_every_chart_is_there_with_a_name(visit):
    page = visit()
    charts = page.locator("figure svg.chart:visible")
    assert charts.count() >= 7
    for place in range(charts.count()):
        chart = charts.nth(place)
        assert chart.get_attribute("aria-label")
        box = chart.bounding_box()
        assert box["width"] > 300
        assert box["height"] > 80
    titles = page.locator("figure h2").all_inner_texts()
    assert "Throughput against workers" in titles
    assert "Wait for each batch" in titles
    assert sum(title.startswith("Who worked on which sample") for title in titles) == 2


def test_fits_and_ideal_are_drawn(visit):
    chart = visit().locator("figure svg.wide").first
    words = " ".join(chart.locator("text").all_text_contents())
    for word in ("ideal", "Amdahl", "USL", "torch", "feedline"):
        assert word in words


def column(page, place):
    cells = page.locator(f"tbody tr td:nth-child({place})").all_inner_texts()
    return [cell.strip() for cell in cells]


def test_the_table_sorts_by_number_both_ways(visit):
    page = visit()
    head = page.locator("th", has_text=re.compile("^items/s"))
    head.get_by_role("button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    values = [float(it) for it in column(page, 3)]
    assert values == sorted(values)
    head.get_by_role("button").click()
    assert head.get_attribute("aria-sort") == "descending"
    assert [float(it) for it in column(page, 3)] == sorted(values, reverse=True)
    page.locator("th", has_text="contestants").get_by_role("button").click()
    assert column(page, 1) == ["feedline"] * 9 + ["torch"] * 9


def test_dark_follows_the_system_and_the_button(visit):
    ground = "getComputedStyle(document.body).backgroundColor"
    light, dark = visit().evaluate(ground), visit(scheme="dark").evaluate(ground)
    assert light != dark
    page = visit()
    button = page.get_by_role("button", name="Change between light and dark")
    button.click()
    assert page.evaluate(ground) == dark
    button.click()
    assert page.evaluate(ground) == light


def test_a_phone_needs_no_sideways_scrolling(visit):
    page = visit(width=390)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.locator("svg.narrow:visible").count() >= 7
    assert page.locator("svg.wide:visible").count() == 0
    sizes = page.locator("svg.narrow:visible text").evaluate_all(
        "texts => texts.map(text => text.getBoundingClientRect().height)"
    )
    assert min(size for size in sizes if size > 0) >= 8


def test_another_drawing_can_be_chosen(visit):
    page = visit()
    figure = page.locator("figure", has_text="Who worked on which sample: torch")
    shown = figure.locator("svg.wide:visible")
    before = shown.inner_html()
    figure.locator("select").select_option(index=0)
    assert shown.count() == 1
    assert shown.inner_html() != before


def test_the_verdict_says_what_was_published(visit):
    words = visit().locator(".verdict").inner_text()
    assert "torch is best with 8 workers" in words
    assert "torch dips: one worker is 9 % slower than none" in words
    assert "feedline has no dip" in words
