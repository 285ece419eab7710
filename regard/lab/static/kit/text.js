// Texts in two languages. t("trace.title") is the text of the key "title" in text/trace.en.json or trace.zh.json;
// keys of common.en.json have no prefix. {name} in a text is replaced by facts.name.

import { facts } from "./facts.js";

export const LANGUAGES = { en: "English", zh: "中文" };

let language = "en";

export const languageNow = () => language;

export function setLanguage(name) {
  language = name in LANGUAGES ? name : "en";
  document.documentElement.lang = language === "zh" ? "zh-Hans" : "en";
}

export const hasText = (key) => key in facts.text[language];

export function t(key, values = {}) {
  const text = facts.text[language][key];
  if (text === undefined) throw new Error(`no text ${key} in ${language}`);
  return text.replace(/\{(\w+)\}/g, (whole, name) => (name in values ? String(values[name]) : whole));
}

/** Format a number: fixed decimals, a typographic minus sign, ∞ for infinity, no minus sign before zero. */
export function number(x, decimals = 3) {
  if (!Number.isFinite(x)) return Number.isNaN(x) ? "NaN" : x > 0 ? "∞" : "−∞";
  const text = Math.abs(x) >= 1e5 ? x.toExponential(decimals) : x.toFixed(decimals);
  return text.replace(/^-(?=[0.]*$)/, "").replace("-", "−");
}
