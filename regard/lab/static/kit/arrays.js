// Decode arrays that the server sends as bytes in base 64 (regard/lab/server/array_encoding.py).

const KINDS = { float32: Float32Array, float64: Float64Array, uint8: Uint8Array };

/** Return the numbers of an encoded array as nested arrays of its shape; the innermost ones are typed arrays. */
export function decodeArray({ shape, kind, bytes }) {
  const text = atob(bytes);
  const raw = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) raw[i] = text.charCodeAt(i);
  return nested(new KINDS[kind](raw.buffer), shape);
}

function nested(flat, [first, ...rest]) {
  if (rest.length === 0) return flat;
  const size = flat.length / first;
  return Array.from({ length: first }, (_, i) => nested(flat.subarray(i * size, (i + 1) * size), rest));
}
