// Elements in one line: h("button", { class: "quiet", onclick: go }, "Go").
// The page's policy forbids style attributes, so styles are set as properties; text is always text, never HTML.

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

/** The same for SVG. */
export const s = (tag, properties, ...children) => fill(document.createElementNS(SVG, tag), properties, children);

/** Put these children in place of all that an element holds. */
export function put(element, ...children) {
  element.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

let count = 0;
/** An id that no other element has. */
export const freshId = (word = "id") => `${word}-${++count}`;

/** The function, called once when calls have paused for some milliseconds. */
export function paused(call, wait) {
  let timer;
  const later = (...args) => {
    clearTimeout(timer);
    timer = setTimeout(() => call(...args), wait);
  };
  later.stop = () => clearTimeout(timer);
  return later;
}

export const calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
