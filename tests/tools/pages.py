# SPDX-License-Identifier: Apache-2.0
"""The pages of reports in headless Chromium: what the tests of all pages share. Without Chromium,
its driver or libjs-d3 a test is skipped, and says which one is missing."""
import os
import shutil
import tempfile
from pathlib import Path

SKIPPED = 77
D3 = Path("/usr/share/javascript/d3/d3.min.js")


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


def zoom(driver, canvas):
    """Turns the wheel over a canvas; returns whether the picture changed."""
    picture = f"return document.getElementById('{canvas}').toDataURL()"
    before = driver.execute_script(picture)
    driver.execute_script(
        "const c = document.getElementById(arguments[0]), r = c.getBoundingClientRect();"
        "c.dispatchEvent(new WheelEvent('wheel', {deltaY: -300, bubbles: true, cancelable: true,"
        "clientX: r.left + r.width / 2, clientY: r.top + 100}));", canvas)
    return driver.execute_script(picture) != before


def point_at(driver, canvas, left, top):
    """Moves the pointer to a place of a canvas."""
    from selenium.webdriver.common.action_chains import ActionChains
    element = driver.find_element("id", canvas)
    size = element.size
    ActionChains(driver).move_to_element_with_offset(
        element, int(left - size["width"] / 2), int(top - size["height"] / 2)).perform()


def load(driver, page, canvases):
    """Opens a page, which must draw all canvases without an error and without the network."""
    driver.get(page.as_uri())
    body = driver.find_element("tag name", "body")
    assert body.get_attribute("data-drawn") == "yes", "the script did not end"
    sources = driver.execute_script(
        "return performance.getEntriesByType('resource').map((one) => one.name)")
    assert not sources, f"the page loads {sources}"
    for canvas in canvases:
        assert colours(driver, canvas) > 100, f"{canvas} is empty"


def assert_no_errors(driver):
    errors = [entry for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]
    assert not errors, errors


def run(make, check):
    """`make` writes a page to a path; `check` gets the browser and the path."""
    os.environ.setdefault("HOME", "/tmp")
    if lack := missing():
        print(f"SKIPPED: {lack} is not installed (apt-get install chromium chromium-driver "
              "python3-selenium libjs-d3)")
        return SKIPPED
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        make(page)
        assert "https://" not in page.read_text(encoding="utf-8").replace("https://d3js.org", "")
        driver = open_browser(folder)
        try:
            check(driver, page)
            assert_no_errors(driver)
        finally:
            driver.quit()
    print("the page draws, zooms and shows values")
    return 0
