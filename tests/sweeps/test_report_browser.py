"""Laws of the report in a browser: it opens from disk without a complaint, and fits a phone.

Chromium, where it is installed, shows the page in frames of several widths to a script that measures them.
"""

import html
import json
import re
import shutil
import subprocess

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        CHROMIUM is None,
        reason="no Chromium is installed: apt-get install chromium, or a package of that name",
    ),
]

OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--host-resolver-rules=MAP * ~NOTFOUND", "--hide-scrollbars"),  # as phones have them: over the page
    *("--enable-logging=stderr", "--v=0", "--virtual-time-budget=5000", "--dump-dom"),
)

WIDTHS = (320, 375, 1200)
"""Of the smallest phones, of many, of a screen, in CSS pixels."""

SCRIPT = """
const seen = (frame) => {
  const page = frame.contentDocument, root = page.documentElement;
  const box = (one) => { const b = one.getBoundingClientRect(); return [b.width, b.height, b.right]; };
  const {backgroundColor: colour, color: ink} = frame.contentWindow.getComputedStyle(page.body);
  return {
    width: root.clientWidth, needed: root.scrollWidth, colour, ink,
    svg: [...page.querySelectorAll("figure svg")].map(box),
    tables: [...page.querySelectorAll("table")].map((one) => box(one.parentElement)),
    beyond: [...page.querySelectorAll("p, li, dd, h1, h2, figcaption, .scroll, pre")]
      .filter((one) => one.getBoundingClientRect().right > root.clientWidth + 1).map((one) => one.outerHTML),
    fetched: frame.contentWindow.performance.getEntriesByType("resource").map((one) => one.name),
  };
};
const measure = () => {
  const frames = [...document.querySelectorAll("iframe")];
  const found = frames.map(seen);
  for (const frame of frames) {  // what scrolls in its own box does not widen the page
    frame.contentDocument.querySelectorAll("input").forEach((one) => { one.checked = true; });
    frame.contentDocument.querySelectorAll("details").forEach((one) => { one.open = true; });
  }
  const opened = frames.map(seen);
  document.body.innerHTML = "<pre></pre>";
  document.body.firstChild.textContent = JSON.stringify({found, opened});
};
window.addEventListener("load", measure);
"""


def browsed(page, folder, *options):
    """The document that Chromium ends with, the lines of its console, and what the page asks others for."""
    log = folder / "net.json"
    own = (f"--user-data-dir={folder / 'profile'}", f"--log-net-log={log}", *options, page.as_uri())
    done = subprocess.run([CHROMIUM, *OPTIONS, *own], capture_output=True, text=True, timeout=120, check=True)
    console = [line for line in done.stderr.splitlines() if ":CONSOLE:" in line]
    # Of the browser's own requests the log says that no page began them.
    begun = re.findall(r'"initiator":"(?!not an origin)[^"]*".*?"url":"([^"]*)"', log.read_text())
    return done.stdout, console, begun


def measured(page, folder, *options):
    """What the script finds in frames of the page, and after all in them is opened."""
    text = html.escape(page.read_text(encoding="utf-8"))
    frames = "".join(
        f'<iframe style="width:{width}px;height:2000px;border:0" srcdoc="{text}"></iframe>'
        for width in WIDTHS
    )
    holder = folder / "holder.html"
    holder.write_text(
        f"<!doctype html><meta charset=utf-8><body>{frames}<script>{SCRIPT}</script>", encoding="utf-8"
    )
    shown, console, begun = browsed(holder, folder, *options)
    assert console == [] and begun == []
    tree = json.loads(html.unescape(re.search(r"<pre>(.*)</pre>", shown, re.DOTALL)[1]))
    return tree["found"], tree["opened"]


@pytest.fixture(scope="module")
def page(tiny_results, tmp_path_factory, spawn):
    """The report of the tiny sweep, with its figures."""
    out = tmp_path_factory.mktemp("page") / "report.html"
    done = spawn("report", tiny_results, "--out", out)
    assert out.exists(), done.err
    return out


def test_it_opens_from_disk(page, tmp_path):
    """Opened as a file it logs nothing to the console and asks the network for nothing."""
    shown, console, begun = browsed(page, tmp_path)
    assert console == [] and begun == []
    assert shown.count("<figure") == 3 and "Provenance" in shown


def test_complaints_are_seen(page, tmp_path):
    """The check itself sees a script that the policy refuses, and an image that it lets in."""
    spoilt = tmp_path / "spoilt.html"
    text = page.read_text(encoding="utf-8").replace("img-src data:", "img-src http:")
    spoilt.write_text(
        text.replace("<main>", '<main><script>1</script><img src="http://127.0.0.1:9/x.png" alt="x">'),
        encoding="utf-8",
    )
    _, console, begun = browsed(spoilt, tmp_path)
    assert any("Content Security Policy" in line for line in console)
    assert begun == ["http://127.0.0.1:9/x.png"]


def test_it_fits(page, tmp_path):
    """At every width the page does not scroll sideways, and every figure is there and inside.

    Also with every figure at full size and every fold open: what is wider scrolls in its own box. The ground
    is white.
    """
    found, opened = measured(page, tmp_path)
    for width, now, then in zip(WIDTHS, found, opened, strict=True):
        for one in (now, then):
            assert one["width"] == width and one["needed"] <= width, width
            assert one["beyond"] == [] and one["fetched"] == []
            assert len(one["svg"]) == 3 and all(w > 250 and h > 50 for w, h, _ in one["svg"])
            assert len(one["tables"]) == 4 and all(right <= width for _, _, right in one["tables"])
        assert all(right <= width for _, _, right in now["svg"])
        assert now["colour"] == "rgb(255, 255, 255)"
    assert min(w for w, _, _ in opened[0]["svg"]) > 2 * max(w for w, _, _ in found[0]["svg"])  # full size


def test_a_dark_scheme(page, tmp_path):
    """To a reader who prefers it, the ground is dark and the text light."""
    found, _ = measured(page, tmp_path, "--blink-settings=preferredColorScheme=0")
    assert max(map(int, re.findall(r"\d+", found[0]["colour"]))) < 64
    assert min(map(int, re.findall(r"\d+", found[0]["ink"]))) > 191
