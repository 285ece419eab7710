"""A page for exploring attention: all layers and heads, zoom, the value under the pointer; one file, works offline.

`encoding` defines how the weights are stored and `all_heads_page` assembles the file. The page itself is plain HTML,
CSS and JavaScript: page.html, page.css, numbers.js (reads the weights), heatmap.js (draws one head; the lab uses it
too), page.js and report.js (what a recording reports), copied into the file.
"""

from regard.pictures.page.all_heads_page import Page as Page
from regard.pictures.page.all_heads_page import attention_page as attention_page
from regard.pictures.page.encoding import Factors as Factors
