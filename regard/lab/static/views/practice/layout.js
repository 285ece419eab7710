// Layout of a diagram by its arrows: a piece is below all pieces with an arrow to it, near their horizontal centre.
// Pieces without an arrow are placed in rows at the bottom.

export const BOX = { width: 116, height: 38 };
const GAP = { x: 14, y: 38 };

/** Centre of each piece and size of the diagram; `order` is the order of pieces without arrows. */
export function arrange(pieces, order, edges, width) {
  const used = new Set(edges.flat());
  const placed = pieces.filter((piece) => used.has(piece));
  const spare = order.filter((piece) => !used.has(piece));
  const at = new Map();
  const layers = byDepth(placed, edges);
  const middle = width / 2;
  let y = layers.length ? BOX.height / 2 + 8 : 0;
  let [least, most] = [0, width];
  for (const layer of layers) {
    const wish = new Map(layer.map((piece) => [piece, mean(edges.filter(([from, to]) => to === piece && at.has(from)).map(([from]) => at.get(from).x)) ?? middle]));
    const row = [...layer].sort((a, b) => wish.get(a) - wish.get(b) || placed.indexOf(a) - placed.indexOf(b));
    for (const [piece, x] of spread(row, wish)) {
      at.set(piece, { x, y });
      least = Math.min(least, x - BOX.width / 2 - 2);
      most = Math.max(most, x + BOX.width / 2 + 2);
    }
    y += BOX.height + GAP.y;
  }
  const split = layers.length ? y - BOX.height / 2 - GAP.y / 2 : 0;
  const columns = Math.max(1, Math.floor((width + GAP.x) / (BOX.width + GAP.x)));
  spare.forEach((piece, i) => {
    const row = Math.floor(i / columns);
    const many = Math.min(columns, spare.length - row * columns);
    const x = middle + ((i % columns) - (many - 1) / 2) * (BOX.width + GAP.x);
    at.set(piece, { x, y: split + 44 + BOX.height / 2 + row * (BOX.height + 12) });
  });
  const rows = Math.ceil(spare.length / columns);
  const height = spare.length ? split + 44 + rows * (BOX.height + 12) : split;
  return { at, split, box: { x: least, width: most - least, height: Math.max(120, height) } };
}

/** Layer of each piece: the longest path from a piece without predecessors; cycles end after as many steps as there are pieces. */
function byDepth(pieces, edges) {
  const depth = new Map(pieces.map((piece) => [piece, 0]));
  for (let round = 0; round < pieces.length; round++) {
    let changed = false;
    for (const [from, to] of edges) {
      const needed = Math.min(pieces.length - 1, depth.get(from) + 1);
      if (from !== to && depth.get(to) < needed) {
        depth.set(to, needed);
        changed = true;
      }
    }
    if (!changed) break;
  }
  const levels = [...new Set(depth.values())].sort((a, b) => a - b);
  return levels.map((level) => pieces.filter((piece) => depth.get(piece) === level));
}

/** Place the pieces of one layer side by side, as near to their preferred positions as their widths allow. */
function spread(order, wish) {
  const step = BOX.width + GAP.x;
  const xs = [];
  for (const piece of order) xs.push(Math.max(wish.get(piece), (xs.at(-1) ?? -Infinity) + step));
  const shift = mean(order.map((piece, i) => wish.get(piece) - xs[i])) ?? 0;
  return order.map((piece, i) => [piece, xs[i] + shift]);
}

const mean = (numbers) => (numbers.length ? numbers.reduce((sum, x) => sum + x, 0) / numbers.length : undefined);

/** An arrow from the bottom of one piece to the top of another; upward arrows curve around. */
export function path(from, to) {
  const [y1, y2] = [from.y + BOX.height / 2, to.y - BOX.height / 2 - 5];
  const bend = Math.max(18, Math.abs(y2 - y1) * 0.45);
  return `M${from.x.toFixed(1)} ${y1.toFixed(1)} C${from.x.toFixed(1)} ${(y1 + bend).toFixed(1)} ${to.x.toFixed(1)} ${(y2 - bend).toFixed(1)} ${to.x.toFixed(1)} ${y2.toFixed(1)}`;
}
