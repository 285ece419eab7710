// Text in SVG pictures: its width and its line breaks.

import { s } from "./dom.js";

export const FONT = '"Helvetica Neue", Arial, "Noto Sans", "Noto Sans CJK SC", "PingFang SC", "Microsoft YaHei", sans-serif';

const paper = document.createElement("canvas").getContext("2d");

/** Width of a line in pixels. */
export function lineWidth(text, size, weight = 400) {
  paper.font = `${weight} ${size}px ${FONT}`;
  return paper.measureText(text).width;
}

/** Wrap a text to lines of a width in pixels; Chinese text can break after any character. */
export function wrapped(text, width, size, weight = 400) {
  const rows = [];
  let row = "";
  for (const piece of text.match(/[⺀-鿿＀-￯][，。：；、）！？]*|[^\s⺀-鿿＀-￯]+\s*|\s+/gu) ?? []) {
    if (row && lineWidth((row + piece).trimEnd(), size, weight) > width) {
      rows.push(row.trimEnd());
      row = "";
    }
    row += piece;
  }
  if (row.trim()) rows.push(row.trimEnd());
  return rows;
}

/** Set the subscripts of d_k and d_model in SVG. */
export const lowered = (text) => text.split(/(?<=\b[A-Za-z])(_[a-z]+)/).map((part) => (part.startsWith("_") ? [s("tspan", { dy: 3, "font-size": "0.8em" }, part.slice(1)), s("tspan", { dy: -3 }, "\u200b")] : part));

/** Replace punctuation by full-width Chinese punctuation, except within numbers and formulas. */
export function inChinese(text) {
  const signs = { ",": "，", ":": "：", ";": "；", "?": "？", "!": "！" };
  return text.replace(/[,:;](?=[^\s\d/])|(?<=[⺀-鿿”）])[,:;?!]\s?|\([^()]*[⺀-鿿][^()]*\)/gu, (sign) => (sign.length > 2 ? `（${inChinese(sign.slice(1, -1))}）` : signs[sign.trim()]));
}
