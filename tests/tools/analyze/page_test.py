# SPDX-License-Identifier: Apache-2.0
"""page_test.py UROCE [PICTURE]: the page of `uroce analyze --html` in headless Chromium: it loads
without a network and without an error, draws, zooms, and shows frames under the pointer. PICTURE,
such as docs/guide/analyze.png, gets the page of what a sender with go-back-N sees of losses."""
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests/tools"))
import pages  # noqa: E402

LOSSES = ROOT / "tests/golden/linux-rxe-4-loss.pcap"
UROCE, PICTURE = Path(sys.argv[1]).resolve(), sys.argv[2] if len(sys.argv) > 2 else None

# The place of a coloured pixel of the graph; axes are grey.
A_POINT = """
const c = document.getElementById("sequence"), ratio = c.width / c.clientWidth;
const d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
for (let i = 0; i < d.length; i += 4) {
  if (d[i + 3] > 200 && Math.max(d[i], d[i + 2]) - Math.min(d[i], d[i + 2]) > 60) {
    return [i / 4 % c.width / ratio + 1, Math.floor(i / 4 / c.width) / ratio + 1];
  }
}
return [0, 0];
"""

# How many pixels are red, as NAKs are, and how many squares of three by three are red all over.
RED = """
const c = document.getElementById("sequence");
const d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
const red = (i) => d[i + 3] > 200 && d[i] > 200 && d[i + 1] < 60 && d[i + 2] < 60;
let pixels = 0, squares = 0;
for (let i = 0; i < d.length; i += 4) {
  if (!red(i)) continue;
  ++pixels;
  let all = true;
  for (let k = 0; k < 9; ++k) all = all && red(i + 4 * (k % 3 + Math.floor(k / 3) * c.width));
  squares += all;
}
return [pixels, squares];
"""


# The scenario "loss", shorter, with more losses.
LOSSY = ["--once", "--set", "network.loss=0.004", "--set", "duration=600us", "--set",
         "warm_up=0us", "--set", "nic.ack_timeout=200us"]


def make(page):
    subprocess.run([UROCE, "analyze", "--html", page, LOSSES], check=True,
                   stdout=subprocess.DEVNULL)
    simulated = page.with_name("simulated.html")
    subprocess.run([UROCE, "sim", "loss", *LOSSY, "--pcap", "h3=h3.pcapng"], check=True,
                   cwd=page.parent, stdout=subprocess.DEVNULL)
    subprocess.run([UROCE, "analyze", "--html", simulated, "h3.pcapng"], check=True,
                   cwd=page.parent, stdout=subprocess.DEVNULL)


def check(driver, page):
    pages.load(driver, page, ("sequence", "rate", "flight", "latency"))
    rows = driver.find_elements("css selector", "#findings tr.link")
    assert len(rows) > 20, len(rows)
    for row in rows:
        if "NAK" in row.text:
            row.click()
            break
    assert pages.zoom(driver, "sequence"), "the wheel does not zoom"
    driver.find_element("id", "reset").click()
    # All of the capture is in sight: NAKs are, and hide nothing behind them.
    pixels, squares = driver.execute_script(RED)
    assert pixels > 10, "no NAK in the graph"
    assert squares == 0, f"{squares} places of the graph are hidden behind NAKs"
    pages.point_at(driver, "sequence", *driver.execute_script(A_POINT))
    text = driver.find_element("id", "hover").text
    assert text.startswith("frame "), "no frame under the pointer"
    if PICTURE:
        driver.set_window_size(1000, 1030)
    pages.load(driver, page.with_name("simulated.html"), ("sequence", "rate", "flight"))
    assert "go-back-N" in driver.find_element("tag name", "body").text
    if PICTURE:
        driver.save_screenshot(PICTURE)


if __name__ == "__main__":
    sys.exit(pages.run(make, check))
