// Units: operations in powers of 1000, bytes in powers of 1024, seconds.

function scaled(count, base, units) {
  if (!count) return "0";
  let [value, at] = [count, 0];
  while (value >= 999.5 && at < units.length - 1) [value, at] = [value / base, at + 1];
  const digits = value < 9.995 ? value.toFixed(2) : value < 99.95 ? value.toFixed(1) : value.toFixed(0);
  return `${digits.includes(".") ? digits.replace(/\.?0+$/, "") : digits} ${units[at]}`.trim();
}

export const operations = (count) => scaled(count, 1000, ["", "k", "M", "G", "T", "P", "E"]);
export const bytes = (count) => scaled(count, 1024, ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]);
export const seconds = (time) => (time >= 1 ? `${Number(time.toPrecision(3))} s` : time >= 1e-3 ? `${Number((1000 * time).toPrecision(3))} ms` : `${Number((1e6 * time).toPrecision(3))} µs`);
export const count = (n) => String(n).replace(/\B(?=(\d{3})+$)/g, ",");

/** How each quantity is formatted, and the spacing of its grid lines: factors of 10, for bytes factors of 32. */
export const QUANTITIES = {
  operations: { text: operations, base: 10 },
  bytes: { text: bytes, base: 32, from: 1 },
  seconds: { text: seconds, base: 10 },
};
