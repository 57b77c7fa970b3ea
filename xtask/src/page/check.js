// Checks each frame of the page and writes its faults, as JSON, into #report.
"use strict";

/// The least height of text in a figure that can be read on a phone, in CSS pixels.
const LEAST_TYPE = 9.5;

/// A name of an element for people.
const named = (element) =>
  `${element.tagName.toLowerCase()}${element.className && element.className.baseVal === undefined ? "." + element.className : ""}` +
  ` "${(element.textContent || "").trim().slice(0, 40)}"`;

const overlap = (a, b) =>
  Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 3;

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
  }
  return { width, figures: figures.length, faults };
}

addEventListener("load", () => {
  document.getElementById("report").textContent = JSON.stringify([...document.querySelectorAll("iframe")].map(look));
});
