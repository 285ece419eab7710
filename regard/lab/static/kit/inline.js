// Inline markup: `code`, **strong**, *emphasis*, and subscripts as in d_k. The text is never parsed as HTML.

import { h } from "./dom.js";

const INLINE = /(`[^`]+`|\*\*[^*]+\*\*|\*[^*\s][^*]*\*)/;

const BELOW = /((?<![\p{L}\d_.])[\p{L}Σ]_[A-Za-z0-9]{1,5}(?![A-Za-z0-9_]))/u;

export function inline(text) {
  return text.split(INLINE).map((part) => {
    if (/^`.+`$/.test(part)) return h("code", {}, part.slice(1, -1));
    if (/^\*\*.+\*\*$/.test(part)) return h("strong", {}, inline(part.slice(2, -2)));
    return /^\*.+\*$/.test(part) ? h("em", {}, part.slice(1, -1)) : letters(part);
  });
}

/** Set the subscripts of d_k, W_o and Σ_j. */
const letters = (text) => text.split(BELOW).map((part) => (BELOW.test(part) ? [part[0], h("sub", {}, part.slice(2))] : part));
