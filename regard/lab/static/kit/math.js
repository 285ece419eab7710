// MathML: math(m.i("Q"), m.sup("K", m.i("⊤")), "=", m.frac(1, m.sqrt("d"))). Strings and numbers become mi, mn or mo.

const MATHML = "http://www.w3.org/1998/Math/MathML";

function element(tag, children, properties = {}) {
  const node = document.createElementNS(MATHML, tag);
  for (const [name, value] of Object.entries(properties)) node.setAttribute(name, value);
  node.append(...children.flat(Infinity).map(part));
  return node;
}

function part(child) {
  if (child instanceof Node) return child;
  const text = String(child);
  if (/^[−-]?[\d.]+(e[+−-]?\d+)?$|^−?∞$/.test(text)) {
    if (!text.startsWith("−")) return m.n(text);
    return element("mrow", [m.o("−", { form: "prefix" }), m.n(text.slice(1))]);
  }
  if (/^[\p{L}\p{M}]/u.test(text)) return m.i(text);
  return "+−×=·".includes(text) ? m.o(text, { form: "infix" }) : m.o(text); // infix spacing also at the beginning of a line
}

const leaf = (tag) => (text, properties) => {
  const node = element(tag, [], properties);
  node.textContent = text;
  return node;
};

export const m = {
  i: leaf("mi"),
  n: leaf("mn"),
  o: leaf("mo"),
  text: leaf("mtext"),
  row: (...children) => element("mrow", children),
  frac: (above, below) => element("mfrac", [m.row(above), m.row(below)]),
  sqrt: (...children) => element("msqrt", children),
  sub: (base, below) => element("msub", [m.row(base), m.row(below)]),
  sup: (base, above) => element("msup", [m.row(base), m.row(above)]),
  subsup: (base, below, above) => element("msubsup", [m.row(base), m.row(below), m.row(above)]),
  under: (base, below) => element("munder", [part(base), m.row(below)]),
  sum: (below) => element("munder", [m.o("∑"), m.row(below)]),
  brackets: (...children) => m.row(m.o("("), ...children, m.o(")")),
  /** A factor of a product or a number after a minus sign: negative numbers are put in brackets. */
  factor: (text) => (String(text).startsWith("−") ? m.brackets(text) : part(text)),
  cases: (...lines) => m.row(m.o("{"), element("mtable", lines.map((cells) => element("mtr", cells.map((cell) => element("mtd", [cell])))), { columnalign: "left left" })),
  mark: (name, ...children) => element("mrow", children, { class: `mark-${name}` }),
};

/** A formula; `label` is the text for screen readers without MathML support. */
export function math(...children) {
  return element("math", children);
}

export function display(...children) {
  return element("math", children, { display: "block" });
}
