// The diagram of attention as an exercise: the learner draws arrows between pieces, by dragging or by keys, and the
// layout follows. The server evaluates the data flow along the arrows, so every correct diagram is accepted.

import { arrange, BOX, path } from "./layout.js";
import { inline } from "../../kit/inline.js";

const FONT = '"Helvetica Neue", Arial, "Noto Sans", "Noto Sans CJK SC", "PingFang SC", "Microsoft YaHei", sans-serif';

export async function show(root, initial, kit, course) {
  const { h, s, t, put } = kit;
  const token = kit.colour.token;
  let state = initial;
  let diagram = null;
  let from = null; // the piece at which the current arrow starts
  let dragging = null; // { piece, x, y, moved }
  let verdict = null;
  let closed = false;

  const names = course.overview.diagrams.map((one) => one.name);
  const choice = h("div", { class: "diagram-choice", role: "group", "aria-label": t("practice.which-diagram") });
  const picture = s("svg", { class: "flow-picture", role: "group", "aria-label": t("practice.diagram-label"), "font-family": FONT });
  const status = h("p", { class: "drawing", role: "status" });
  const result = h("div", { class: "verdict", role: "status" });
  const arrows = h("ul", { class: "arrows" });
  const clear = h("button", { type: "button", dataset: { do: "clear" }, onclick: () => change([]) }, t("practice.clear"));
  put(
    root,
    h("div", { class: "card diagram-board" }, choice, status, picture),
    h(
      "div",
      { class: "card diagram-side" },
      h("h2", {}, t("practice.diagram-title")),
      h("p", {}, t("practice.diagram-said")),
      h("div", { class: "buttons" }, h("button", { type: "button", class: "primary", dataset: { do: "check" }, onclick: check }, t("practice.check")), clear),
      result,
      h("h3", {}, t("practice.arrows")),
      arrows,
      h("p", { class: "remark" }, t("practice.diagram-keys")),
    ),
  );

  const label = (piece) => course.translate(diagram.pieces.find((one) => one.name === piece).label);

  // ---- drawing ------------------------------------------------------------------------------------------------------

  /** Pieces in an order that does not reveal the solution. */
  const shuffled = (pieces) => [...pieces].map((one) => one.name).sort((a, b) => mixed(a) - mixed(b));
  const mixed = (name) => [...name].reduce((sum, letter) => (sum * 31 + letter.charCodeAt(0)) % 1009, 7);

  const wide = () => (picture.parentElement.clientWidth || root.clientWidth || 700) < 520 ? 388 : 640;

  function draw() {
    const focused = picture.contains(document.activeElement) ? document.activeElement.dataset.piece : null;
    const { at, split, box } = arrange(diagram.pieces.map((one) => one.name), shuffled(diagram.pieces), state.edges, wide());
    picture.setAttribute("viewBox", `${box.x} 0 ${box.width} ${box.height}`);
    const spare = diagram.pieces.length - new Set(state.edges.flat()).size;
    put(
      picture,
      s("defs", {}, ["strong-line", "accent"].map((name) => s("marker", { id: `tip-${name}`, viewBox: "0 0 10 10", refX: 8, refY: 5, markerWidth: 7, markerHeight: 7, orient: "auto-start-reverse" }, s("path", { d: "M0 0.8 L9.5 5 L0 9.2 z", fill: token(`--${name}`) })))),
      spare && state.edges.length ? s("line", { x1: box.x + 6, x2: box.x + box.width - 6, y1: split + 8, y2: split + 8, stroke: token("--line"), "stroke-width": 1.5, "stroke-dasharray": "4 6" }) : null,
      spare ? s("text", { x: box.x + box.width / 2, y: split + 30, "text-anchor": "middle", "font-size": 12.5, fill: token("--faint") }, t("practice.spare", { n: spare })) : null,
      state.edges.map(([a, b]) => edge(at, a, b)),
      s("path", { class: "rubber", d: "", fill: "none", stroke: token("--accent"), "stroke-width": 2.2, "stroke-dasharray": "5 5", "pointer-events": "none" }),
      diagram.pieces.map(({ name }) => box_(name, at.get(name))),
    );
    if (focused) picture.querySelector(`[data-piece=${focused}]`)?.focus({ preventScroll: true });
    picture.at = at;
    clear.disabled = state.edges.length === 0;
    status.textContent = from ? t("practice.arrow-from", { piece: label(from) }) : state.edges.length ? t("practice.draw-on") : t("practice.draw-first");
    put(
      arrows,
      state.edges.map(([a, b]) =>
        h("li", {}, h("span", {}, inline(label(a)), " → ", inline(label(b))), h("button", { type: "button", class: "quiet small", "aria-label": t("practice.remove", { from: label(a), to: label(b) }), onclick: () => connect(a, b) }, "✕")),
      ),
      state.edges.length ? null : h("li", { class: "remark" }, t("practice.no-arrows")),
    );
  }

  function edge(at, a, b) {
    const d = path(at.get(a), at.get(b));
    return s(
      "g",
      { class: "edge", onclick: () => connect(a, b) },
      s("path", { d, fill: "none", stroke: token("--strong-line"), "stroke-width": 1.8, "marker-end": "url(#tip-strong-line)" }),
      s("path", { d, fill: "none", stroke: "transparent", "stroke-width": 14, class: "hit" }),
    );
  }

  function box_(name, { x, y }) {
    const chosen = from === name;
    const wrong = verdict && !verdict.right && verdict.piece === name;
    const right = verdict?.right;
    const ends = name === "input" || name === "output";
    const colour = wrong ? "--wrong" : chosen ? "--accent" : right ? "--right" : ends ? "--blue" : "--strong-line";
    const into = state.edges.filter(([, b]) => b === name).map(([a]) => label(a));
    const out = state.edges.filter(([a]) => a === name).map(([, b]) => label(b));
    const words = [label(name), into.length && t("practice.takes", { names: into.join(", ") }), out.length && t("practice.gives", { names: out.join(", ") })].filter(Boolean).join("; ").replaceAll("_", "");
    return s(
      "g",
      { class: `piece${chosen ? " chosen" : ""}${wrong ? " wrong" : ""}`, role: "button", tabindex: 0, "aria-label": words, "aria-pressed": String(chosen), dataset: { piece: name }, transform: `translate(${x.toFixed(1)} ${y.toFixed(1)})` },
      s("rect", { x: -BOX.width / 2, y: -BOX.height / 2, width: BOX.width, height: BOX.height, rx: ends ? BOX.height / 2 : 8, fill: token(wrong ? "--accent-soft" : ends ? "--blue-soft" : "--raised"), stroke: token(colour), "stroke-width": chosen || wrong ? 2.6 : 1.4 }),
      s("text", { "text-anchor": "middle", y: 4.8, "font-size": label(name).length > 15 ? 12 : 13.5, "font-weight": 600, fill: token("--ink"), "pointer-events": "none" }, letters(label(name))),
    );
  }

  /** Set the subscript of names such as W_q. */
  function letters(text) {
    const parts = text.match(/^(.*)_([a-z])(.*)$/);
    if (!parts) return [text];
    const [, before, below, after] = parts;
    return [before, s("tspan", { dy: 3.5, "font-size": 10 }, below), after ? s("tspan", { dy: -3.5 }, after) : null];
  }

  // ---- arrows -------------------------------------------------------------------------------------------------------

  function change(edges) {
    verdict = null;
    from = null;
    put(result);
    result.className = "verdict";
    kit.go({ edges });
  }

  /** Add an arrow, or remove it if it exists. */
  function connect(a, b) {
    const there = state.edges.some(([x, y]) => x === a && y === b);
    change(there ? state.edges.filter(([x, y]) => x !== a || y !== b) : [...state.edges, [a, b]]);
    kit.announce(there ? t("practice.arrow-gone", { from: label(a), to: label(b) }) : t("practice.arrow-drawn", { from: label(a), to: label(b) }));
  }

  function choose(piece) {
    if (from === piece) from = null;
    else if (from) return connect(from, piece);
    else from = piece;
    draw();
  }

  const pieceAt = (event) => document.elementFromPoint(event.clientX, event.clientY)?.closest?.(".piece")?.dataset.piece ?? null;
  const point = (event) => new DOMPoint(event.clientX, event.clientY).matrixTransform(picture.getScreenCTM().inverse());

  picture.addEventListener("pointerdown", (event) => {
    const piece = event.target.closest(".piece")?.dataset.piece;
    if (!piece || event.button !== 0) return;
    dragging = { piece, x: event.clientX, y: event.clientY, moved: false };
    picture.setPointerCapture(event.pointerId);
    event.preventDefault();
    picture.querySelector(`[data-piece=${piece}]`).focus({ preventScroll: true });
  });
  picture.addEventListener("pointermove", (event) => {
    if (!dragging) return;
    if (Math.hypot(event.clientX - dragging.x, event.clientY - dragging.y) > 6) dragging.moved = true;
    if (!dragging.moved) return;
    const start = picture.at.get(dragging.piece);
    const end = point(event);
    picture.querySelector(".rubber").setAttribute("d", `M${start.x} ${start.y + BOX.height / 2} L${end.x.toFixed(1)} ${end.y.toFixed(1)}`);
    const over = pieceAt(event);
    for (const piece of picture.querySelectorAll(".piece")) piece.classList.toggle("over", piece.dataset.piece === over && over !== dragging.piece);
  });
  picture.addEventListener("pointerup", (event) => {
    if (!dragging) return;
    const { piece, moved } = dragging;
    dragging = null;
    const over = pieceAt(event);
    if (!moved) choose(piece);
    else if (over && over !== piece) connect(piece, over);
    else draw();
  });
  picture.addEventListener("pointercancel", () => {
    dragging = null;
    draw();
  });

  picture.addEventListener("keydown", (event) => {
    const piece = event.target.dataset?.piece;
    if (!piece || event.ctrlKey || event.altKey || event.metaKey) return;
    const ways = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    if (event.key === "Enter" || event.key === " ") choose(piece);
    else if (event.key === "Escape" && from) {
      from = null;
      draw();
    } else if (event.key === "Delete" || event.key === "Backspace") change(state.edges.filter(([a]) => a !== piece));
    else if (event.key in ways) nearest(piece, ways[event.key])?.focus();
    else return;
    event.preventDefault();
  });

  /** Return the next piece in a direction. */
  function nearest(piece, [dx, dy]) {
    const here = picture.at.get(piece);
    const ahead = [...picture.at].filter(([name]) => name !== piece).map(([name, { x, y }]) => {
      const along = (x - here.x) * dx + (y - here.y) * dy;
      const across = Math.abs((x - here.x) * dy) + Math.abs((y - here.y) * dx);
      return { name, along, far: along + 2.5 * across };
    });
    const best = ahead.filter((one) => one.along > 4).sort((a, b) => a.far - b.far)[0];
    return best && picture.querySelector(`[data-piece=${best.name}]`);
  }

  async function check() {
    try {
      const answer = await kit.api.post("/api/practice/diagram", { diagram: diagram.name, edges: state.edges });
      await course.refresh();
      if (closed) return;
      verdict = answer;
      from = null;
      drawVerdict();
      drawChoice();
      draw();
    } catch (error) {
      if (!closed) kit.failed(error);
    }
  }

  function drawVerdict() {
    result.className = `verdict ${verdict.right ? "right" : "wrong"}`;
    put(result, h("h3", {}, h("span", { class: "sign", "aria-hidden": "true" }, verdict.right ? "✓" : "✗"), h("span", {}, course.translate(verdict.says))));
  }

  function drawChoice() {
    const focused = choice.contains(document.activeElement) && document.activeElement.dataset.diagram;
    put(
      choice,
      course.overview.diagrams.map((one) =>
        h("button", { type: "button", class: `small${one.done ? " passed" : ""}`, "aria-pressed": String(one.name === diagram.name), dataset: { diagram: one.name }, onclick: () => kit.go({ diagram: one.name, edges: [] }, { push: true }) }, course.translate(one.title), one.done ? h("span", { "aria-hidden": "true" }, " ✓") : null, one.done ? h("span", { class: "visually-hidden" }, t("practice.done")) : null),
      ),
    );
    if (focused) choice.querySelector(`[data-diagram="${focused}"]`)?.focus();
  }

  function update(next) {
    const name = names.includes(next.diagram) ? next.diagram : names[0];
    if (diagram?.name !== name) {
      verdict = null;
      from = null;
      put(result);
      result.className = "verdict";
    }
    diagram = course.overview.diagrams.find((one) => one.name === name);
    const pieceNames = new Set(diagram.pieces.map((one) => one.name));
    const edges = next.edges.filter((one) => Array.isArray(one) && one.length === 2 && one.every((end) => pieceNames.has(end)));
    state = { ...next, edges };
    drawChoice();
    draw();
  }

  const sized = new ResizeObserver(() => diagram && !dragging && draw());
  update(state);
  requestAnimationFrame(() => !closed && sized.observe(picture.parentElement));
  return {
    update,
    unmount() {
      closed = true;
      sized.disconnect();
    },
    picture() {
      const copy = picture.cloneNode(true);
      copy.querySelector(".rubber").remove();
      for (const hit of copy.querySelectorAll(".hit")) hit.remove();
      for (const piece of copy.querySelectorAll(".piece")) for (const name of ["tabindex", "role", "aria-pressed", "aria-label"]) piece.removeAttribute(name);
      return { title: course.translate(diagram.title), note: "", drawings: [copy] };
    },
  };
}
