"""A page to explore attention in: all layers and heads, zoom, the value under the pointer; one file, offline.

`encoding` says how the numbers are stored, `write` puts the file together, and the page itself is plain HTML,
CSS and JavaScript in page.html, page.css, numbers.js, map.js and page.js, copied into the file as they are.
"""

from regard.pictures.page.encoding import Factors as Factors
from regard.pictures.page.write import Page as Page
from regard.pictures.page.write import attention_page as attention_page
