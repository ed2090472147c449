# SPDX-License-Identifier: Apache-2.0
"""page_test.py PAGE [SCREENSHOT]: a page of `uroce stat --html --watch`, made while a program sent
and packets were lost, in headless Chromium: it loads without a network and without an error, draws,
zooms, and shows values. tests/e2e/tools/stat_page_test.py makes the page."""
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests/tools"))
import pages  # noqa: E402

MADE, SCREENSHOT = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None


def make(page):
    shutil.copy(MADE, page)


def check(driver, page):
    pages.load(driver, page, ("rate", "events"))
    assert "looks in" in driver.find_element("id", "files").text
    pages.point_at(driver, "rate", 400, 100)
    text = driver.find_element("id", "rate-hover").text
    assert "sent: " in text and "received: " in text and "b/s" in text, text
    devices = driver.find_elements("css selector", "#device option")
    assert [device.text for device in devices] == ["uroce0", "uroce1"], devices
    devices[1].click()  # The sender, of whose packets some are dropped.
    assert "retransmitted_pkts" in driver.find_element("id", "events-legend").text
    rows = {row.text.split()[0]: row.text.split() for row in
            driver.find_elements("css selector", "#counters tr")[1:]}
    assert len(rows["port_xmit_bytes"]) == 4, rows
    assert "fault_transmit.dropped" in rows or "fault_receive.dropped" in rows, rows
    if SCREENSHOT:
        driver.save_screenshot(SCREENSHOT)
    assert pages.zoom(driver, "events"), "the wheel does not zoom"
    driver.find_element("id", "reset").click()


if __name__ == "__main__":
    sys.exit(pages.run(make, check))
