# SPDX-License-Identifier: Apache-2.0
"""page_test.py UROCE [SCREENSHOT]: the page of `uroce analyze --html` in headless Chromium: it
loads without a network and without an error, draws, zooms, and shows frames under the pointer.
Without Chromium, its driver or libjs-d3 the test is skipped, and says which one is missing."""
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
LOSSES = ROOT / "tests/golden/linux-rxe-4-loss.pcap"
SKIPPED = 77
D3 = Path("/usr/share/javascript/d3/d3.min.js")


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


def missing():
    if not D3.exists():
        return "libjs-d3"
    for program in ("chromium", "chromedriver"):
        if not shutil.which(program):
            return program
    try:
        import selenium  # noqa: F401
    except ImportError:
        return "python3-selenium"
    return None


def open_browser(folder):
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
    options = webdriver.ChromeOptions()
    for flag in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu",
                 "--window-size=1400,1500", f"--user-data-dir={folder}/profile",
                 # Any address but files is refused.
                 "--proxy-server=127.0.0.1:9", "--disable-background-networking"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))


def colours(driver, canvas):
    """How many pixels of a canvas are neither empty nor white."""
    return driver.execute_script(
        "const c = document.getElementById(arguments[0]);"
        "const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;"
        "let n = 0; for (let i = 3; i < d.length; i += 4) if (d[i] > 0) ++n; return n;", canvas)


def check(driver, page, screenshot):
    from selenium.webdriver.common.action_chains import ActionChains
    driver.get(page.as_uri())
    body = driver.find_element("tag name", "body")
    assert body.get_attribute("data-drawn") == "yes", "the script did not end"
    errors = [entry for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]
    assert not errors, errors
    sources = driver.execute_script(
        "return performance.getEntriesByType('resource').map((one) => one.name)")
    assert not sources, f"the page loads {sources}"
    for canvas in ("sequence", "rate", "flight", "latency"):
        assert colours(driver, canvas) > 100, f"{canvas} is empty"
    rows = driver.find_elements("css selector", "#findings tr.link")
    assert len(rows) > 20, len(rows)
    for row in rows:
        if "NAK" in row.text:
            row.click()
            break
    if screenshot:
        driver.save_screenshot(screenshot)
    before = driver.execute_script("return document.getElementById('sequence').toDataURL()")
    driver.execute_script(
        "const c = document.getElementById('sequence'), r = c.getBoundingClientRect();"
        "c.dispatchEvent(new WheelEvent('wheel', {deltaY: -300, bubbles: true, cancelable: true,"
        "clientX: r.left + r.width / 2, clientY: r.top + 100}));")
    after = driver.execute_script("return document.getElementById('sequence').toDataURL()")
    assert before != after, "the wheel does not zoom"
    driver.find_element("id", "reset").click()
    canvas = driver.find_element("id", "sequence")
    label = driver.find_element("id", "hover")
    left, top = driver.execute_script(A_POINT)
    size = canvas.size
    ActionChains(driver).move_to_element_with_offset(
        canvas, int(left - size["width"] / 2), int(top - size["height"] / 2)).perform()
    assert label.text.startswith("frame "), "no frame under the pointer"
    errors = [entry for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]
    assert not errors, errors


def main():
    uroce, screenshot = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None
    if lack := missing():
        print(f"SKIPPED: {lack} is not installed (apt-get install chromium chromium-driver "
              "python3-selenium libjs-d3)")
        return SKIPPED
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        subprocess.run([uroce, "analyze", "--html", page, LOSSES], check=True,
                       stdout=subprocess.DEVNULL)
        assert "https://" not in page.read_text(encoding="utf-8").replace("https://d3js.org", "")
        driver = open_browser(folder)
        try:
            check(driver, page, screenshot)
        finally:
            driver.quit()
    print("the page draws, zooms and names frames")
    return 0


if __name__ == "__main__":
    os.environ.setdefault("HOME", "/tmp")
    sys.exit(main())
