// A matrix of real numbers as a table with hover, arrow keys and, if `onedit` is options, editing.
// Each cell shows three decimals and has its exact value in data-value. A matrix that is too large for a table is
// drawn on a canvas, with a small table of the numbers around the current cell.
//
// matrix({ name, values, rows, columns, kind, most, shape, note, hidden, edited, onlook, onedit, onleave })
//   values    rows of numbers; `rows` and `columns` are their names
//   kind      "signed", "weights" or "plain"; `most` is the value that has the full colour
//   widest    largest number of columns shown as a table, 20 by default; `lens` is the number of columns of the detail
//   hidden    (i, j) → true where a mask hides the pair
//   onlook    called with (i, j) when a cell is hovered or focused; onleave when the pointer or focus leaves the matrix
//   onedit    called with (i, j, number) when the user replaced a number; without it the matrix is read-only
// → { element, light({ rows, columns, cell }), look(i, j), value(i, j) }

import { colourOf, css, inkOn } from "./colour.js";
import { freshId, h, rich } from "./dom.js";
import { heatmap } from "./heatmap.js";
import { number, t } from "./text.js";

export const LARGEST = 20; // largest number of rows or columns shown as a table
const LENS = 7;

export function most(values) {
  let largest = 0;
  for (const row of values) for (const x of row) if (Number.isFinite(x) && Math.abs(x) > largest) largest = Math.abs(x);
  return largest;
}

export function matrix(options) {
  const spec = { kind: "signed", hidden: () => false, edited: () => false, onlook() {}, onleave() {}, ...options };
  spec.most ??= spec.kind === "weights" ? 1 : most(spec.values);
  const large = spec.values.length > LARGEST || spec.columns.length > (spec.widest ?? LARGEST);
  return large ? lensed(spec) : table(spec);
}

function caption(spec, id) {
  return h(
    "figcaption",
    { id },
    h("span", { class: "matrix-name" }, rich(spec.title ?? spec.name)),
    spec.shape ? h("span", { class: "matrix-shape" }, spec.shape) : null,
    spec.note ? h("span", { class: "matrix-note" }, spec.note) : null,
  );
}

function paint(cell, x, spec) {
  const colour = spec.paint ? spec.paint(x, Number(cell.dataset.column)) : colourOf(x, spec.kind, spec.most);
  if (!colour) return;
  cell.style.setProperty("--fill", css(colour));
  cell.style.setProperty("--on", inkOn(colour));
}

function table(spec, window = { top: 0, left: 0, rows: spec.rows.length, columns: spec.columns.length }) {
  const id = freshId("matrix");
  const grid = h("table", {
    class: "matrix-table",
    role: "grid",
    "aria-labelledby": id,
    "aria-rowcount": spec.rows.length + 1,
    "aria-colcount": spec.columns.length + 1,
  });
  const cells = [];
  const heads = [];
  const top = h("tr", {}, h("th", { class: "corner", scope: "col" }, spec.corner ?? ""));
  for (let j = window.left; j < window.left + window.columns; j++) {
    heads[j] = h("th", { scope: "col", title: spec.columns[j] }, h("span", {}, spec.columns[j]));
    top.append(heads[j]);
  }
  const body = h("tbody");
  const sides = [];
  for (let i = window.top; i < window.top + window.rows; i++) {
    sides[i] = h("th", { scope: "row", title: spec.rows[i] }, h("span", {}, spec.rows[i]));
    const row = h("tr", {}, sides[i]);
    cells[i] = [];
    for (let j = window.left; j < window.left + window.columns; j++) {
      const cell = document.createElement("td");
      cell.setAttribute("role", "gridcell");
      cell.tabIndex = -1;
      cell.dataset.row = i;
      cell.dataset.column = j;
      show(cell, i, j);
      cells[i][j] = cell;
      row.append(cell);
    }
    body.append(row);
  }
  grid.append(h("thead", {}, top), body);
  let current = [window.top, window.left];
  if (cells[current[0]]?.[current[1]]) cells[current[0]][current[1]].tabIndex = 0;

  function show(cell, i, j) {
    const x = spec.values[i][j];
    cell.dataset.value = String(x);
    cell.textContent = spec.text ? spec.text(x, i, j) : number(x);
    cell.classList.toggle("hidden-pair", spec.hidden(i, j));
    cell.classList.toggle("edited", spec.edited(i, j));
    if (spec.onedit) cell.classList.add("editable");
    paint(cell, x, spec);
  }

  const place = (target) => {
    const cell = target.closest?.("td");
    return cell && grid.contains(cell) ? [Number(cell.dataset.row), Number(cell.dataset.column)] : null;
  };

  function tabTo(i, j) {
    cells[current[0]]?.[current[1]]?.setAttribute("tabindex", "-1");
    current = [i, j];
    if (cells[i]?.[j]) cells[i][j].tabIndex = 0;
  }

  function edit(i, j, typed) {
    const cell = cells[i][j];
    const box = h("input", { type: "text", inputmode: "decimal", "aria-label": t("matrix.edit", { name: spec.name, row: spec.rows[i], column: spec.columns[j] }) });
    box.value = typed ?? String(spec.values[i][j]);
    cell.classList.add("editing");
    cell.replaceChildren(box);
    box.focus();
    if (typed === undefined) box.select();
    let ended = false;
    const end = (keep) => {
      if (ended) return;
      const x = Number(box.value.replace("−", "-").replace(",", "."));
      if (keep && (box.value.trim() === "" || !Number.isFinite(x) || Math.abs(x) > 1e6)) {
        box.setAttribute("aria-invalid", "true");
        cell.classList.add("wrong");
        spec.onwrong?.(t("error.number"));
        return;
      }
      ended = true;
      cell.classList.remove("editing", "wrong");
      show(cell, i, j);
      cell.focus();
      if (keep && x !== spec.values[i][j]) spec.onedit(i, j, x);
    };
    box.addEventListener("keydown", (event) => {
      event.stopPropagation();
      if (event.key === "Enter") end(true);
      if (event.key === "Escape") end(false);
    });
    box.addEventListener("blur", () => {
      end(true);
      end(false);
    });
  }

  grid.addEventListener("pointerover", (event) => {
    const at = place(event.target);
    if (at) spec.onlook(...at);
  });
  grid.addEventListener("pointerleave", () => spec.onleave());
  grid.addEventListener("focusin", (event) => {
    const at = place(event.target);
    if (!at) return;
    tabTo(...at);
    spec.onlook(...at);
  });
  grid.addEventListener("dblclick", (event) => {
    const at = place(event.target);
    if (at && spec.onedit) edit(...at);
  });
  grid.addEventListener("keydown", (event) => {
    const at = place(event.target);
    if (!at || event.ctrlKey || event.metaKey || event.altKey) return;
    let [i, j] = at;
    const lastRow = spec.rows.length - 1;
    const lastColumn = spec.columns.length - 1;
    if (event.key === "ArrowUp") i--;
    else if (event.key === "ArrowDown") i++;
    else if (event.key === "ArrowLeft") j--;
    else if (event.key === "ArrowRight") j++;
    else if (event.key === "Home") j = 0;
    else if (event.key === "End") j = lastColumn;
    else if (event.key === "Enter" || event.key === "F2") {
      if (spec.onedit) edit(i, j);
      else return;
    } else if (spec.onedit && /^[\d.−-]$/.test(event.key)) edit(i, j, event.key);
    else return;
    event.preventDefault();
    event.stopPropagation();
    if (i < 0 || j < 0 || i > lastRow || j > lastColumn || (i === at[0] && j === at[1])) return;
    if (cells[i]?.[j]) cells[i][j].focus();
    else spec.onstray?.(i, j);
  });

  const element = h(
    "figure",
    { class: `matrix kind-${spec.kind}`, dataset: { matrix: spec.name } },
    caption(spec, id),
    h("div", { class: "matrix-scroll", tabindex: -1 }, grid),
  );
  let lit = [];
  return {
    element,
    value: (i, j) => spec.values[i][j],
    /** Highlight rows, columns and one cell; the other cells are faded unless `soft` is true. */
    light({ rows = [], columns = [], cell = null } = {}, soft = false) {
      for (const one of lit) one.classList.remove("lit-row", "lit-column", "lit-cell", "lit");
      lit = [];
      const mark = (one, name) => {
        if (!one) return;
        one.classList.add(name);
        lit.push(one);
      };
      for (const i of rows) {
        mark(sides[i], "lit");
        for (const one of cells[i] ?? []) mark(one, "lit-row");
      }
      for (const j of columns) {
        mark(heads[j], "lit");
        for (const row of cells) mark(row?.[j], "lit-column");
      }
      if (cell) {
        mark(sides[cell[0]], "lit");
        mark(heads[cell[1]], "lit");
        mark(cells[cell[0]]?.[cell[1]], "lit-cell");
      }
      element.classList.toggle("dimmed", lit.length > 0 && !soft);
    },
    /** Make this the current cell of the keyboard; with `focus` it also gets the focus. */
    look(i, j, focus = false) {
      tabTo(i, j);
      if (focus) cells[i]?.[j]?.focus();
    },
  };
}

/** Size of square cells: large enough to point at, small enough for the whole matrix. */
function mapSize(spec) {
  const [L, S] = [spec.rows.length, spec.columns.length];
  const cell = Math.min(6, Math.max(2, 260 / Math.max(L, S)));
  return { width: Math.max(24, cell * S), height: Math.max(24, cell * L) };
}

/** A matrix too large for a table: all of it on a canvas, and a table of the numbers around one cell. */
function lensed(spec) {
  const id = freshId("matrix");
  const part = (size, most) => (size <= most ? size : Math.min(size, LENS, most));
  const [rows, columns] = [part(spec.rows.length, LENS + 1), part(spec.columns.length, spec.lens ?? LENS + 1)];
  const place = h("div", { class: "matrix-lens" });
  let at = [0, 0];
  let small = null;
  const map = heatmap({
    values: spec.values,
    rows: spec.rows,
    columns: spec.columns,
    kind: spec.kind,
    most: spec.most,
    label: t("matrix.map", { name: spec.name }),
    ...mapSize(spec),
    axes: false,
    onlook(i, j) {
      move(i, j);
      spec.onlook(i, j);
    },
    onleave: () => spec.onleave(),
  });
  const element = h(
    "figure",
    { class: `matrix large${spec.rows.length > LARGEST ? " tall" : ""} kind-${spec.kind}`, dataset: { matrix: spec.name } },
    caption(spec, id),
    map.element,
    place,
  );
  function move(i, j, focus = false) {
    const top = Math.min(Math.max(0, i - (rows >> 1)), spec.rows.length - rows);
    const left = Math.min(Math.max(0, j - (columns >> 1)), spec.columns.length - columns);
    at = [i, j];
    small = table(
      {
        ...spec,
        title: rows < spec.rows.length ? t("matrix.lens", { from: top + 1, to: top + rows, all: spec.rows.length }) : t("matrix.lens-columns", { from: left + 1, to: left + columns, all: spec.columns.length }),
        shape: null,
        note: null,
        onlook(row, column) {
          at = [row, column];
          map.mark({ cell: at });
          spec.onlook(row, column);
        },
        onstray: (row, column) => {
          move(row, column, true);
        },
      },
      { top, left, rows, columns },
    );
    place.replaceChildren(small.element);
    small.look(i, j, focus);
    small.light(lights, true);
  }
  let lights = {};
  move(0, 0);
  return {
    element,
    value: (i, j) => spec.values[i][j],
    light(target = {}, soft = false) {
      lights = target;
      const row = target.cell?.[0] ?? target.rows?.[0];
      const column = target.cell?.[1] ?? target.columns?.[0];
      const outside = (row !== undefined && !inside(row, 0)) || (column !== undefined && !inside(column, 1));
      if (outside) move(row ?? at[0], column ?? at[1]);
      map.mark(target);
      small.light(target, soft);
    },
    look: move,
  };
  function inside(index, axis) {
    const first = small.element.querySelector("td");
    const start = Number(axis === 0 ? first.dataset.row : first.dataset.column);
    return index >= start && index < start + (axis === 0 ? rows : columns);
  }
}
