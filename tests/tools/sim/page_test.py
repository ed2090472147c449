# SPDX-License-Identifier: Apache-2.0
"""page_test.py UROCE [PICTURE [SCENARIO]]: the page of `uroce sim --html` in headless
Chromium: it loads without a network and without an error, draws, zooms, and shows values."""
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests/tools"))
import pages  # noqa: E402

UROCE, PICTURE, SCENARIO = (sys.argv[1:] + [None, None])[:3]
SCENARIO = SCENARIO or "incast"


def make(page):
    subprocess.run([UROCE, "sim", SCENARIO, "--html", page], check=True,
                   stdout=subprocess.DEVNULL)
    # Text of a scenario is text on the page, whatever it holds.
    hostile = page.with_name("hostile.html")
    subprocess.run([UROCE, "sim", "two-hosts", "--set", "duration=1ms", "--set", "warm_up=0s",
                    "--set", "workload.0.name=</script><b>", "--html", hostile], check=True,
                   stdout=subprocess.DEVNULL)


def check(driver, page):
    pages.load(driver, page.with_name("hostile.html"), ("rate",))
    assert "</script><b>" in driver.find_element("id", "workloads").text
    assert not driver.find_element("id", "with-drops").is_displayed(), "no link drops there"
    if PICTURE:  # docs/guide/sim.png is one of "incast".
        driver.set_window_size(1000, 1040)
    pages.load(driver, page, ("rate", "queue"))
    pages.point_at(driver, "rate", 400, 100)
    text = driver.find_element("id", "rate-hover").text
    assert "all: " in text and "b/s" in text, text
    if PICTURE:
        driver.save_screenshot(PICTURE)
    assert pages.zoom(driver, "queue"), "the wheel does not zoom"
    driver.find_element("id", "reset").click()
    assert len(driver.find_elements("css selector", "#links tr")) > 5


if __name__ == "__main__":
    sys.exit(pages.run(make, check))
