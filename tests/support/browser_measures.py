"""What can be measured on a page in a browser: contrast, and what sticks out of the window."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from playwright.sync_api import Page

_READ = """() => {
  const parse = (text) => {
    const found = text.match(/^rgba?\\((\\d+), (\\d+), (\\d+)(?:, ([\\d.]+))?\\)$/);
    if (!found) throw new Error(`no colour: ${text}`);
    return { channels: found.slice(1, 4).map(Number), alpha: Number(found[4] ?? 1) };
  };
  const over = ({ channels, alpha }, below) =>
    channels.map((channel, place) => alpha * channel + (1 - alpha) * below[place]);
  const papers = new Map();
  const paperOf = (element) => {
    if (!element) return [255, 255, 255];
    if (!papers.has(element)) {
      const own = parse(getComputedStyle(element).backgroundColor);
      const seen = own.alpha === 1 ? own.channels : over(own, paperOf(element.parentElement));
      papers.set(element, seen);
    }
    return papers.get(element);
  };
  const opacityOf = (element) =>
    element ? Number(getComputedStyle(element).opacity) * opacityOf(element.parentElement) : 1;
  const luminance = (channels) => {
    const [red, green, blue] = channels
      .map((channel) => channel / 255)
      .map((share) => (share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4));
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const found = [];
  const read = (element, text, pseudo) => {
    const colour = parse(getComputedStyle(element, pseudo).color);
    colour.alpha *= opacityOf(element);
    const paper = paperOf(element);
    const [low, high] = [luminance(over(colour, paper)), luminance(paper)].sort((a, b) => a - b);
    found.push({
      text: text.trim().slice(0, 60),
      where: `${element.localName}.${element.className}${pseudo ?? ""}`,
      contrast: (high + 0.05) / (low + 0.05),
    });
  };
  for (const element of document.body.querySelectorAll("*")) {
    if (!element.checkVisibility({ visibilityProperty: true })) continue;
    if (["script", "style", "svg", "rect", "option"].includes(element.localName)) continue;
    const own = [...element.childNodes].filter((node) => node.nodeType === Node.TEXT_NODE);
    const text = own.map((node) => node.data).join(" ").trim();
    if (text) read(element, text);
    for (const pseudo of ["::before", "::after"]) {
      const { content } = getComputedStyle(element, pseudo);
      if (!["none", "normal", '""'].includes(content)) read(element, content, pseudo);
    }
    if (element.placeholder) read(element, element.placeholder, "::placeholder");
  }
  return found;
}"""

_STICKING_OUT = """() => {
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth <= width) return [];
  return [...document.body.querySelectorAll("*")]
    .filter((each) => each.getBoundingClientRect().right > width && !each.closest(".scroll *"))
    .map((each) => `${each.localName}.${each.className}: ${each.textContent.slice(0, 40)}`)
    .concat([`${document.documentElement.scrollWidth} > ${width}`]);
}"""


class Reading(NamedTuple):
    """A piece of text: what it says, what element it is, its contrast as WCAG has it, 1 to 21."""

    text: str
    where: str
    contrast: float


def open_all(page: Page) -> None:
    """Open all folds."""
    page.evaluate("document.querySelectorAll('details').forEach((each) => (each.open = true))")
    page.evaluate("document.querySelector('[data-open=yes]')?.click()")


def readings(page: Page) -> list[Reading]:
    """Every piece of text on show, those that styles add and hints in fields among them."""
    found: list[dict[str, Any]] = page.evaluate(_READ)
    return [Reading(**each) for each in found]


def sticking_out(page: Page) -> list[str]:
    """If the page has to be scrolled sideways: by what, and how wide it is."""
    found: list[str] = page.evaluate(_STICKING_OUT)
    return found
