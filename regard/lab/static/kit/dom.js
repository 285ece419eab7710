// Create an element in one call: h("button", { class: "quiet", onclick: go }, "Go").
// The content security policy forbids style attributes, so styles are set as properties. Strings become text nodes, never HTML.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, one] of Object.entries(value)) element.style.setProperty(key, one);
    else if (name === "dataset") Object.assign(element.dataset, value);
    else if (name === "value" || name === "checked" || name === "selected") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** An HTML element with properties and children. */
export const h = (tag, properties, ...children) => fill(document.createElement(tag), properties, children);

/** An SVG element with properties and children. */
export const s = (tag, properties, ...children) => fill(document.createElementNS(SVG, tag), properties, children);

/** Replace all children of an element. */
export function put(element, ...children) {
  element.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

const BELOW = { "₀": 0, "₁": 1, "₂": 2, "₃": 3, "₄": 4, "₅": 5, "₆": 6, "₇": 7, "₈": 8, "₉": 9 };

/** Format a name: d_k and Q₁ get a subscript, Kᵀ a superscript. */
export function rich(text) {
  const parts = text.split(/(_[A-Za-z]+|[₀-₉]+|ᵀ)/);
  const set = (part) => {
    if (part.startsWith("_")) return h("sub", {}, part.slice(1));
    if (part === "ᵀ") return h("sup", {}, "⊤");
    return part[0] in BELOW ? h("sub", {}, part.replace(/./gu, (digit) => BELOW[digit])) : part;
  };
  return h("span", {}, parts.filter(Boolean).map(set));
}

let count = 0;
/** Return an id that no other element has. */
export const freshId = (word = "id") => `${word}-${++count}`;

let pauses = 0;

/** Debounce a function: it runs once no call has come for `wait` milliseconds. html[data-waits] is set until then. */
export function debounced(call, wait) {
  let timer;
  const stop = () => {
    if (timer === undefined) return;
    clearTimeout(timer);
    timer = undefined;
    if (--pauses === 0) delete document.documentElement.dataset.waits;
  };
  const later = (...args) => {
    stop();
    document.documentElement.dataset.waits = ++pauses;
    timer = setTimeout(() => {
      try {
        call(...args);
      } finally {
        stop();
      }
    }, wait);
  };
  later.stop = stop;
  return later;
}

export const reducedMotion = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
