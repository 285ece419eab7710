// The rules that the page needs: positions of stones, whose turn it is, winning lines, and the meaning of scores.

export const SIGNS = "123456789"; // names of the columns in move strings

const WAYS = [[0, 1], [1, 0], [1, 1], [1, -1]];

/** Return the board after these moves; the first illegal move and all after it are ignored. Row 0 is the top row. */
export function boardOf(moves, { rows, columns, inarow }) {
  const squares = new Array(rows * columns).fill(0);
  const heights = new Array(columns).fill(0);
  const board = { rows, columns, inarow, squares, heights, stones: 0, winner: 0, lines: [], last: -1, moves: "" };
  for (const sign of moves) {
    const column = SIGNS.indexOf(sign);
    if (column < 0 || column >= columns || heights[column] === rows || board.winner) break;
    board.last = (rows - 1 - heights[column]) * columns + column;
    squares[board.last] = 1 + (board.stones % 2);
    heights[column] += 1;
    board.stones += 1;
    board.moves += sign;
    board.lines = linesThrough(board, board.last);
    if (board.lines.length > 0) board.winner = squares[board.last];
  }
  board.turn = 1 + (board.stones % 2);
  board.full = board.stones === rows * columns;
  board.over = board.full || board.winner > 0;
  board.legal = board.over ? [] : heights.flatMap((height, column) => (height < rows ? [column] : []));
  return board;
}

/** Return the winning lines through a square, each as a list of squares. */
function linesThrough({ rows, columns, inarow, squares }, at) {
  const lines = [];
  const [row, column] = [Math.floor(at / columns), at % columns];
  for (const [down, right] of WAYS) {
    const line = [at];
    for (const way of [-1, 1]) {
      for (let step = way; ; step += way) {
        const [i, j] = [row + step * down, column + step * right];
        if (i < 0 || j < 0 || i >= rows || j >= columns || squares[i * columns + j] !== squares[at]) break;
        if (way < 0) line.unshift(i * columns + j);
        else line.push(i * columns + j);
      }
    }
    if (line.length >= inarow) lines.push(line);
  }
  return lines;
}

/** Return the square on which a stone in this column lands. */
export const landing = ({ rows, columns, heights }, column) => (rows - 1 - heights[column]) * columns + column;

/** Return what a score means for the side to move: win, draw or loss, and after how many stones of the winner. */
export function meaning(score, { rows, columns, stones }) {
  const cells = rows * columns;
  if (score === 0) return { kind: "draw", count: 0 };
  if (score > 0) return { kind: "win", count: Math.floor((cells + 1 - stones) / 2) - score + 1 };
  return { kind: "loss", count: Math.floor((cells - stones) / 2) + score + 1 };
}

/** Return the columns with the best score among the solved ones. */
export function bestOf(scores) {
  const solved = scores.filter((score) => score !== null);
  const best = solved.length > 0 ? Math.max(...solved) : null;
  return scores.flatMap((score, column) => (score !== null && score === best ? [column] : []));
}

/** Return whether the solver supports boards of this size. */
export const solvable = ({ rows, columns }) => (rows + 1) * columns <= 64;
