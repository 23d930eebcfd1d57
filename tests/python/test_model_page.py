"""The page of `feedline model`, in a real browser: its sliders say what the crate says."""

import itertools
import json
import subprocess
import sys

import pytest

from feedline import model
from patience import PATIENCE

# Names of the page and of the package.
NAMES = {
    "throughput": "throughput",
    "wait": "wait",
    "waitingShare": "waiting_share",
    "ready": "ready",
    "utilisation": "utilisation",
    "knee": "knee",
    "oneMore": "one_more",
}


@pytest.fixture(scope="module")
def page_address(tmp_path_factory):
    page = tmp_path_factory.mktemp("model") / "page.html"
    question = "loading --workers 6 --cost 12ms --step 90ms --spread 1"
    subprocess.run(
        [sys.executable, "-m", "feedline", "model", *question.split(), "--page", str(page)],
        check=True,
        capture_output=True,
        timeout=PATIENCE,
    )
    return page.as_uri()


# Puts the sliders where they are told and reads the figures, for each place of a list.
MOVE = """
(places) => places.map((place) => {
  const form = document.getElementById("sliders");
  for (const [name, value] of Object.entries(place)) form.elements[name].value = value;
  form.dispatchEvent(new Event("input", { bubbles: true }));
  const figures = {};
  for (const it of document.querySelectorAll("dd[id^=figure-]")) {
    figures[it.id.slice(7)] = it.dataset.value === "" ? null : Number(it.dataset.value);
  }
  const sliders = [...form.querySelectorAll("input")];
  return { figures, seen: Object.fromEntries(sliders.map((it) => [it.name, it.value])) };
})
"""


def said(place):
    """What the crate says at a place of the sliders, under the page's names."""
    found = model.loading(
        int(place["workers"]),
        cost=place["cost"] * 1e-3,
        step=place["step"] * 1e-3,
        batch_size=int(place["batchSize"]),
        prefetch=int(place["prefetch"]),
        spread=place["spread"],
    )
    return {page: getattr(found, name) for page, name in NAMES.items()}


def test_the_sliders_say_what_the_crate_says_over_a_grid(visit):
    page = visit()
    grid = itertools.product(
        (1, 2, 7, 8, 33, 64),  # workers
        (0, 1, 80, 500),  # step
        (0.1, 10, 99.9),  # cost
        (0, 0.5, 1, 4),  # spread
        (1, 64),  # samples of a batch
        (1, 2, 16),  # batches read ahead
    )
    names = ("workers", "step", "cost", "spread", "batchSize", "prefetch")
    places = [dict(zip(names, place, strict=True)) for place in grid]
    answers = page.evaluate(MOVE, places)
    assert len(answers) == len(places) == 1728
    for place, answer in zip(places, answers, strict=True):
        assert {name: float(value) for name, value in answer["seen"].items()} == place
        for name, value in said(place).items():
            shown = answer["figures"][name]
            if value is None:
                assert shown is None, (place, name)
            else:
                assert shown == pytest.approx(value, rel=1e-9, abs=1e-9), (place, name)


def test_the_sliders_begin_where_the_question_was(visit):
    page = visit()
    answer = page.evaluate(MOVE, [{}])[0]
    place = {name: float(value) for name, value in answer["seen"].items()}
    asked = {"workers": 6, "step": 90, "cost": 12, "spread": 1, "batchSize": 64, "prefetch": 2}
    assert place == asked
    assert answer["figures"]["throughput"] == pytest.approx(said(place)["throughput"])
    assert page.locator("#figure-throughput").inner_text() == "500"
    assert page.locator("#figure-waitingShare").inner_text() == "29.7 %"


def test_a_key_moves_a_slider_and_with_it_figure_and_curve(visit):
    page = visit()
    before = page.locator("#curve polyline").get_attribute("points")
    workers = page.get_by_role("slider", name="workers", exact=False).first
    workers.focus()
    workers.press("ArrowRight")
    assert workers.get_attribute("aria-valuetext") == "7"
    expected = model.loading(7, cost=0.012, step=0.09, spread=1).throughput
    shown = page.locator("#figure-throughput").get_attribute("data-value")
    assert json.loads(shown) == pytest.approx(expected)
    assert page.locator("#curve circle").get_attribute("cx")
    assert page.locator("#curve polyline").get_attribute("points") == before


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_it_fits_a_phone_and_follows_the_scheme(visit, scheme, width):
    page = visit(width=width, scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    ground, ink = page.evaluate(
        "[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]"
    )

    def light(colour):
        return sum(int(part) for part in colour[4:-1].split(",")[:3])

    assert (light(ground) > light(ink)) == (scheme == "light")
    for slider in page.locator("#sliders input").all():
        box = slider.bounding_box()
        assert box["width"] >= 120
        assert box["height"] >= 24
