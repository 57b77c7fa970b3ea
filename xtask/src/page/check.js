// Checks each frame of the page and writes its faults, as JSON, into #report.
"use strict";

/// The least height of text in a figure that can be read on a phone, in CSS pixels.
const LEAST_TYPE = 9.5;

/// The least contrast of text that WCAG 2.2 asks for (level AA).
const LEAST_CONTRAST = 4.5;

/// A name of an element for people.
const named = (element) =>
  `${element.tagName.toLowerCase()}${element.className && element.className.baseVal === undefined ? "." + element.className : ""}` +
  ` "${(element.textContent || "").trim().slice(0, 40)}"`;

const overlap = (a, b) =>
  Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 3;

/// Whether a point lies in the part of a text's box that its letters fill.
const inside = (box, x, y) => {
  const margin = (box.bottom - box.top) * 0.24;
  return x > box.left + 0.5 && x < box.right - 0.5 && y > box.top + margin && y < box.bottom - margin;
};

/// Points of a line, of a path, or of the edge of a bar, on the screen.
function points(shape) {
  const matrix = shape.getScreenCTM();
  const length = shape.getTotalLength();
  const steps = Math.ceil(length);
  return Array.from({ length: steps + 1 }, (_, step) =>
    shape.getPointAtLength(steps ? (length * step) / steps : 0).matrixTransform(matrix),
  );
}

const channels = (colour) => (colour.match(/[\d.]+/g) || []).map(Number);

/// The relative luminance of WCAG 2.2.
function luminance(colour) {
  const [red, green, blue] = channels(colour).map((channel) =>
    channel / 255 <= 0.04045 ? channel / 255 / 12.92 : ((channel / 255 + 0.055) / 1.055) ** 2.4,
  );
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

/// The ratio of contrast of an element's text to the background behind it.
function contrast(view, element) {
  const style = view.getComputedStyle(element);
  let behind = element;
  const back = () => view.getComputedStyle(behind).backgroundColor;
  while (behind.parentElement && channels(back())[3] === 0) behind = behind.parentElement;
  const [low, high] = [element.closest("svg") ? style.fill : style.color, back()].map(luminance).sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
}

/// The rows of comma-separated values.
function rows(text) {
  const records = [[""]];
  let quoted = false;
  for (const [place, character] of [...text].entries()) {
    const record = records[records.length - 1];
    if (character === '"') quoted = !quoted;
    else if (character === "," && !quoted) record.push("");
    else if (character === "\n" && !quoted) place < text.length - 1 && records.push([""]);
    else record[record.length - 1] += character;
  }
  return records;
}

/// The fault of a link to a download, if it has one.
function unsound(link) {
  const [, kind, data] = link.getAttribute("href").match(/^data:([a-z/+]+);charset=utf-8,(.*)$/) || [];
  if (!kind || !link.download) return "is no file";
  let text;
  try {
    text = decodeURIComponent(data);
  } catch {
    return "cannot be decoded";
  }
  if (kind === "text/csv") {
    const [head, ...rest] = rows(text);
    return head.length > 1 && rest.length > 0 && rest.every((row) => row.length === head.length) ? null : "is no table";
  }
  const drawing = new DOMParser().parseFromString(text, kind);
  const root = drawing.documentElement;
  if (root.namespaceURI !== "http://www.w3.org/2000/svg" || drawing.querySelector("parsererror")) return "is no drawing";
  return drawing.querySelector("svg > style") ? null : "has no styles";
}

function look(frame) {
  const view = frame.contentWindow;
  const page = frame.contentDocument;
  const width = frame.clientWidth;
  const faults = [];
  if (page.documentElement.scrollWidth > width) {
    const wide = [...page.body.querySelectorAll("*")].filter(
      (element) => element.getBoundingClientRect().right > width + 0.5 && !element.closest(".scroll, svg *"),
    );
    faults.push(`wider than the screen: ${page.documentElement.scrollWidth} px: ${wide.slice(0, 5).map(named).join(", ")}`);
  }
  const asked = view.performance.getEntriesByType("resource");
  if (asked.length > 0) faults.push(`requests ${asked.map((entry) => entry.name).join(", ")}`);
  const figures = [...page.querySelectorAll("svg[role=img]")];
  for (const figure of figures) {
    const title = figure.querySelector("title").textContent;
    const box = figure.getBoundingClientRect();
    if (!title || !figure.querySelector("desc").textContent) faults.push("a figure without a title or description");
    if (box.width < 100 || box.height < 40) faults.push(`${title}: ${box.width} by ${box.height} px`);
    const type = (12 * box.width) / figure.viewBox.baseVal.width;
    if (type < LEAST_TYPE) faults.push(`${title}: type of ${type.toFixed(1)} px`);
    const texts = [...figure.querySelectorAll("text")].map((text) => [text.textContent, text.getBoundingClientRect()]);
    for (const [number, [text, at]] of texts.entries()) {
      if (at.left < box.left - 2 || at.right > box.right + 2 || at.top < box.top - 2 || at.bottom > box.bottom + 2)
        faults.push(`${title}: "${text}" leaves the figure`);
      for (const [other, there] of texts.slice(number + 1))
        if (overlap(at, there)) faults.push(`${title}: "${text}" overlaps "${other}"`);
    }
    for (const shape of figure.querySelectorAll("line, path, rect")) {
      const places = points(shape);
      for (const [text, at] of texts)
        if (places.some(({ x, y }) => inside(at, x, y))) faults.push(`${title}: a ${named(shape)} crosses "${text}"`);
    }
  }
  const downloads = [...page.querySelectorAll("a[download]")];
  if (downloads.length !== 2 * figures.length) faults.push(`${downloads.length} downloads for ${figures.length} figures`);
  for (const link of downloads) {
    const fault = unsound(link);
    if (fault) faults.push(`the download ${link.download} ${fault}`);
  }
  const links = [...page.querySelectorAll("a:not([download])")];
  if (!page.querySelector("nav a")) faults.push("no contents");
  for (const link of links) {
    const target = link.getAttribute("href");
    if (!target.startsWith("#") || !page.getElementById(target.slice(1))) faults.push(`${named(link)} leads to ${target}`);
  }
  for (const folded of page.querySelectorAll("details")) folded.open = true;
  const has_text = (element) => [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
  const faint = [...page.body.querySelectorAll("*")].filter(
    (element) =>
      has_text(element) && element.getClientRects().length > 0 && contrast(view, element) < LEAST_CONTRAST,
  );
  if (faint.length > 0) faults.push(`faint text: ${faint.slice(0, 5).map(named).join(", ")}`);
  const dark = view.matchMedia("(prefers-color-scheme: dark)").matches;
  return { width, dark, figures: figures.length, faults };
}

addEventListener("load", () => {
  document.getElementById("report").textContent = JSON.stringify([...document.querySelectorAll("iframe")].map(look));
});
