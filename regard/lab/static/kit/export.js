// Export of a view: a picture (PNG or SVG, copied or saved) or the view as one HTML file.

import { answersNow, get } from "./api.js";
import { saved } from "./facts.js";
import { languageNow } from "./text.js";

export function download(content, name, type) {
  const url = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  const anchor = document.createElement("a");
  anchor.href = url;
  anchor.download = name;
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/** Return an SVG element as the text of an SVG file. */
export function svgText(drawn) {
  const copy = drawn.cloneNode(true);
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  return `<?xml version="1.0" encoding="UTF-8"?>\n${new XMLSerializer().serializeToString(copy)}\n`;
}

/** Return an SVG element as a PNG blob of twice its size. */
export async function png(drawn) {
  const { width, height } = drawn.viewBox.baseVal;
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [2 * width, 2 * height];
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svgText(drawn))}`;
  await image.decode();
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((done) => canvas.toBlob(done, "image/png"));
}

export async function copyPng(drawn) {
  await navigator.clipboard.write([new ClipboardItem({ "image/png": await png(drawn) })]);
}

/** Return the open view with its state and stored answers as one HTML file. */
export async function savedPage(view, state) {
  const content = { view, state, answers: answersNow(), language: languageNow() };
  const json = JSON.stringify(content).replaceAll("<", "\\u003c");
  if (saved) {
    const copy = document.documentElement.cloneNode(true);
    copy.querySelector("#saved").textContent = JSON.stringify({ ...saved, view, state, language: languageNow() }).replaceAll("<", "\\u003c");
    copy.querySelector("body").replaceChildren();
    return `<!DOCTYPE html>\n${copy.outerHTML}`;
  }
  const frame = await get(`/api/saved?view=${view}&language=${languageNow()}`, { remember: false });
  return frame.replace("{{saved}}", () => json);
}
