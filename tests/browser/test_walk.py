"""The page, walked through as a person would: from a plan to a report, by mouse, by keyboard, wide and narrow."""

import re

import pytest

pytestmark = [pytest.mark.browser, pytest.mark.filterwarnings("ignore")]
SAMPLES = 24


def plan(walk, name):
    """From the first page to a run, with a plan made for it."""
    walk.open("/")
    walk.page.get_by_role("link", name="Plan a new run").click()
    walk.page.get_by_label("Name of the run").fill(name)
    walk.page.get_by_label("Number of samples").fill(str(SAMPLES))
    walk.page.get_by_label("At most").fill("2")
    assert walk.fits()
    walk.page.get_by_role("button", name="Simulate designs").click()
    walk.page.get_by_role("button", name="Use this design").wait_for()
    assert walk.page.get_by_text("recommended").count() == 1
    assert walk.fits()
    walk.page.get_by_role("button", name="Use this design").click()
    walk.page.get_by_role("heading", name=f"Sheets of {name}").wait_for()


def test_a_run_from_plan_to_report(walk):
    page, name = walk.page, f"Run at {walk.page.viewport_size['width']}"
    plan(walk, name)
    assert walk.fits()

    # The sheets, as they are printed.
    page.locator("main section").first.get_by_role("link").first.click()
    page.emulate_media(media="print")
    assert page.locator("body").inner_text().strip()
    page.emulate_media(media="screen")
    page.go_back()

    # Counts by typing, with a slip that the page points at before it is sent.
    counts, positive = walk.counts([3, 17])
    page.get_by_role("link", name="Enter counts").click()
    boxes = page.locator(".boxes input")
    assert boxes.count() == len(counts)
    boxes.first.fill("99")
    page.locator(".check", has_text="is more than").wait_for()  # said by the page's script, a moment later
    for box, count in zip(boxes.all(), counts, strict=True):
        box.fill(count)
    page.locator(".check", has_text="as 2 positive samples would give").wait_for()
    assert walk.fits()
    page.get_by_role("button", name="Send these counts").click()
    page.get_by_role("heading", name=f"Calls of {name}").wait_for()
    assert page.locator(".answer .found").all_inner_texts() == positive
    assert page.locator("td.positive").count() == 2
    assert walk.fits()

    # A correction by pasting, as a spreadsheet copies it: a new version, with its reason.
    counts, positive = walk.counts([5])
    pools = walk.problem().design.pool_names
    page.get_by_role("link", name="Correct these counts").click()
    page.locator("#pasted").fill("\n".join(f"{pool}\t{count}" for pool, count in zip(pools, counts, strict=True)))
    page.locator("form", has=page.locator("#pasted")).get_by_label("What changed").fill("read the plate again")
    page.get_by_role("button", name="Send the pasted counts").click()
    page.get_by_role("heading", name=f"Calls of {name}").wait_for()
    assert page.locator(".answer .found").all_inner_texts() == positive
    assert "Version 2, pasted" in page.locator(".lead").inner_text()

    # And by a file.
    counts, positive = walk.counts([0, 9])
    content = f"instance,{','.join(pools)}\nPlate 7,{','.join(counts)}\n".encode()
    page.get_by_role("link", name="Correct these counts").click()
    page.locator("#file").set_input_files({"name": "../../x.csv", "mimeType": "text/csv", "buffer": content})
    page.get_by_role("button", name="Send the file").click()
    page.get_by_role("heading", name="Plate 7").wait_for()
    assert page.locator(".answer .found").all_inner_texts() == positive

    # The report, to print and to keep.
    address = page.url
    for label in ("Report (HTML)", "Report (CSV)", "Everything (JSON)", "Proofs, for qgt check"):
        with page.expect_download() as download:
            page.get_by_role("link", name=label).click()
        assert re.fullmatch(r"\w+-[0-9a-f]{16}-3\.\w+", download.value.suggested_filename)
    page.get_by_role("link", name="Open the report to print").click()
    page.get_by_role("heading", name=name).wait_for()
    assert "Plate 7" in page.locator("body").inner_text()
    page.goto(address)

    # Everything is kept.
    page.get_by_role("navigation", name="Steps of this run").get_by_role("link", name="Plan").click()
    assert page.get_by_role("link", name=re.compile(r"^Version \d$")).count() == 3
    assert page.get_by_text("read the plate again").count() >= 1
    assert walk.fits()


def test_by_keyboard_alone(wide_walk):
    page, name = wide_walk.page, "By keyboard"

    def tab_to(text):
        for _ in range(120):
            page.keyboard.press("Tab")
            found = page.evaluate("(document.activeElement.labels?.[0] ?? document.activeElement).innerText.trim()")
            if found.startswith(text):
                return
        raise AssertionError(f"{text} was not reached by Tab")

    wide_walk.open("/")
    tab_to("Skip to the content")
    tab_to("Plan a new run")
    page.keyboard.press("Enter")
    page.get_by_label("Name of the run").wait_for()
    page.wait_for_function("document.activeElement.labels?.[0]?.innerText.startsWith('Name of the run')")
    page.keyboard.type(name)  # the first field has the focus
    tab_to("Number of samples")
    page.keyboard.press("Control+A")
    page.keyboard.type(str(SAMPLES))
    tab_to("At most")
    page.keyboard.press("Control+A")
    page.keyboard.type("2")
    tab_to("Simulate designs")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Use this design").wait_for()
    tab_to("Use this design")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name=f"Sheets of {name}").wait_for()
    tab_to("Enter counts")
    page.keyboard.press("Enter")
    page.locator(".boxes input").first.wait_for()
    counts, positive = wide_walk.counts([2, 20])
    tab_to("Name of this set of counts")
    for count in ("", *counts):  # Enter goes on, as on a number pad, and sends nothing
        page.keyboard.type(count)
        page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.innerText") == "Send these counts"
    page.keyboard.press("Enter")
    page.get_by_role("heading", name=f"Calls of {name}").wait_for()
    assert page.locator(".answer .found").all_inner_texts() == positive
    tab_to("Open the report to print")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name=name).wait_for()


@pytest.mark.parametrize("title", ["A plate of a PCR machine", "A clear plate", "A plate in doubt", "A mistyped count"])
def test_examples_by_one_click(walk, title):
    walk.open("/")
    walk.page.locator("form.card", has_text=title).get_by_role("button").click()
    walk.page.get_by_role("heading", name=f"Calls of {title}").wait_for()
    assert walk.fits()
    words = {"A plate in doubt": "unsure", "A mistyped count": "impossible"}.get(title, "certain")
    assert walk.page.locator(f".call .badge.{words}").count() == 1


def test_a_follow_up_round(wide_walk):
    walk, page = wide_walk, wide_walk.page
    walk.open("/")
    page.locator("form.card", has_text="A plate in doubt").get_by_role("button").click()
    page.get_by_role("button", name="Choose the next tests").click()
    page.locator("table.follow-up input").first.wait_for()
    for box in page.locator("table.follow-up input").all():
        box.fill("0")
    page.get_by_role("button", name="Send these counts").click()
    page.get_by_text("2 rounds.").wait_for()
    assert walk.fits()


def test_the_demo(walk):
    walk.open("/")
    walk.page.get_by_role("link", name="Open the demo").click()
    walk.page.get_by_role("heading", name="Who finds them").wait_for()
    assert walk.fits()


def test_hostile_names_stay_text(wide_walk):
    walk, name = wide_walk, "<img src=x onerror=alert(1)>"
    plan(walk, name)
    walk.open("/")
    assert walk.page.get_by_role("link", name=name).count() == 1
    assert walk.page.locator("img").count() == 0
