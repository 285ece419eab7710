"use strict";

// Numbers of the page: reading the stored weights. encoding.py describes the format. The page of
// regard.pictures.attention_page is this file, heatmap.js and page.js, joined into one script.

const facts = JSON.parse(document.getElementById("facts").textContent);
const element = (id) => document.getElementById(id);

// ---- reading the stored numbers ------------------------------------------------------------------------

const ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;,=>?@^_`{|}~";
const DIGIT = new Uint8Array(128);
for (let i = 0; i < ALPHABET.length; i++) DIGIT[ALPHABET.charCodeAt(i)] = i;

/** Base 85: five characters for four bytes. */
function bytesOf(text) {
  const bytes = new Uint8Array((text.length / 5) * 4);
  for (let i = 0, at = 0; i < text.length; i += 5, at += 4) {
    let value = 0;
    for (let j = 0; j < 5; j++) value = value * 85 + DIGIT[text.charCodeAt(i + j)];
    bytes[at] = value >>> 24;
    bytes[at + 1] = value >>> 16;
    bytes[at + 2] = value >>> 8;
    bytes[at + 3] = value;
  }
  return bytes;
}

/** The bytes of a stored block, inflated. Up to three zero bytes may follow the stream; they are no part of it. */
async function stored(id) {
  const inflate = new DecompressionStream("deflate-raw");
  const writer = inflate.writable.getWriter();
  const packed = bytesOf(element(id).textContent);
  const ended = Number(element(id).dataset.size);
  writer.write(packed.subarray(0, ended));
  writer.close();
  return new Uint8Array(await new Response(inflate.readable).arrayBuffer());
}

const masks = new Map();

async function mask(index) {
  if (index < 0) return null;
  if (!masks.has(index)) masks.set(index, await stored(`mask-${index}`));
  return masks.get(index);
}

const bit = (bits, i) => (bits[i >> 3] >> (i & 7)) & 1;

// ---- three digits: 0 for 0, else 1 + 900 (exponent + 71) + digits − 100 -----------------------------------

const LOWEST = -71;
const POWER = Array.from({ length: 76 }, (_, n) => Number(`1e${n}`));

/** To the nearest whole number, a half to the even one, as NumPy rounds. */
function nearest(x) {
  const down = Math.floor(x);
  const rest = x - down;
  return rest < 0.5 || (rest === 0.5 && down % 2 === 0) ? down : down + 1;
}

function threeDigits(x) {
  if (x < 1 / POWER[-LOWEST]) return 0;
  let exponent = Math.floor(Math.log10(x));
  for (let i = 0; i < 2; i++) {
    const digits = nearest(x * POWER[2 - exponent]);
    if (digits >= 1000) exponent++;
    else if (digits < 100) exponent--;
  }
  return 1 + 900 * (exponent - LOWEST) + nearest(x * POWER[2 - exponent]) - 100;
}

function textOfCode(code) {
  if (code === 0) return "0";
  const exponent = Math.floor((code - 1) / 900) + LOWEST;
  const digits = ((code - 1) % 900) + 100;
  return Number(`${digits}e${exponent - 2}`).toPrecision(3);
}

function valueOfCode(code) {
  return code === 0 ? 0 : (((code - 1) % 900) + 100) * 10 ** (Math.floor((code - 1) / 900) + LOWEST - 2);
}

// ---- a head: its values, and the text of each ---------------------------------------------------------------

/** Whole numbers stored as planes of bytes, column by column; returned row by row. */
function wholeNumbers(bytes, start, rows, columns, { least, bytes: count }) {
  const size = rows * columns;
  const numbers = new Float64Array(size);
  for (let column = 0; column < columns; column++) {
    for (let row = 0; row < rows; row++) {
      let value = 0;
      for (let plane = count - 1; plane >= 0; plane--) {
        value = value * 256 + bytes[start + plane * size + column * rows + row];
      }
      numbers[row * columns + column] = value + least;
    }
  }
  return numbers;
}

async function readFactors(about, bytes, L, S) {
  const { rank, step } = about;
  const a = wholeNumbers(bytes, 0, L, rank, about.a);
  let at = L * rank * about.a.bytes;
  const b = wholeNumbers(bytes, at, S, rank, about.b);
  at += S * rank * about.b.bytes;
  const changed = bytes.subarray(at, at + Math.ceil((L * S) / 8));
  const signs = bytes.subarray(at + changed.length);
  const visible = await mask(about.mask);
  const values = new Float32Array(L * S);
  const codes = new Uint16Array(L * S);
  const row = new Float64Array(S);
  let change = 0;
  for (let i = 0; i < L; i++) {
    let highest = -Infinity;
    for (let j = 0; j < S; j++) {
      let dot = 0;
      for (let c = 0; c < rank; c++) dot += a[i * rank + c] * b[j * rank + c];
      row[j] = visible === null || bit(visible, i * S + j) ? dot * (step * step) : -Infinity;
      if (row[j] > highest) highest = row[j];
    }
    let sum = 0;
    for (let j = 0; j < S; j++) sum += row[j] = highest === -Infinity ? 0 : Math.exp(row[j] - highest);
    for (let j = 0; j < S; j++) {
      const place = i * S + j;
      const weight = sum === 0 ? 0 : row[j] / sum;
      let code = threeDigits(weight);
      if (bit(changed, place)) code += bit(signs, change++) ? 1 : -1;
      values[place] = weight;
      codes[place] = code;
    }
  }
  for (const [place, code] of about.far) codes[place] = code;
  return { values, text: (place) => textOfCode(codes[place]) };
}

function readDigits(_, bytes, L, S) {
  const values = new Float32Array(L * S);
  const codes = new Uint16Array(L * S);
  for (let i = 0; i < L * S; i++) {
    codes[i] = bytes[i] * 256 + bytes[i + L * S];
    values[i] = valueOfCode(codes[i]);
  }
  return { values, text: (place) => textOfCode(codes[place]) };
}

function readExact(_, bytes) {
  const values = new Float32Array(bytes.buffer);
  return { values, text: (place) => String(Number(values[place].toPrecision(6))) };
}

async function readHead(index) {
  const about = facts.heads[index];
  const { queries, keys } = namesOf(about.layer);
  const bytes = await stored(`head-${index}`);
  const readers = { factors: readFactors, digits: readDigits, exact: readExact };
  const head = await readers[about.way](about, bytes, queries.length, keys.length);
  head.highest = head.values.reduce((most, x) => (x > most ? x : most), 0) || 1; // NaN is never larger
  head.least = head.values.reduce((least, x) => (x > 0 && x < least ? x : least), head.highest);
  return head;
}

/** The names of a layer's queries and keys. Layers may differ: an encoder's tokens, a decoder's, one step's. */
function namesOf(layer) {
  const { queries, keys } = facts.layers[layer];
  return { queries: facts.tokens[queries], keys: facts.tokens[keys] };
}

const read = new Map(); // the heads looked at last, as promises

function headNumbered(index) {
  const found = read.get(index) ?? readHead(index);
  read.delete(index);
  read.set(index, found);
  if (read.size > 24) read.delete(read.keys().next().value);
  return found;
}
