# `make lab` and `make test` are the two commands of the README. Both start from nothing but a Python >= 3.11.

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip install --disable-pip-version-check -q -c constraints.txt
# The tests start hundreds of processes: keep Python's compiled files, whatever the shell's settings say.
unexport PYTHONDONTWRITEBYTECODE

# The quick tests of `make fast`: no browser, training, games, torch.compile or many processes.
FAST := $(addprefix tests/,test_cli.py test_files.py test_import.py test_packages.py \
	$(addprefix attention/test_,head_count.py kv_cache.py masks.py numpy_attention.py online_softmax.py positions.py \
		self_attention.py spatial.py tracing.py) \
	$(addprefix claims/test_,charts.py rules.py statistics.py) \
	$(addprefix connectx/test_,batch.py board.py rating.py) costs/test_predict.py \
	$(addprefix learn/test_,cards.py diagram.py drills.py progress.py) \
	$(addprefix models/test_,board_extend.py storage.py transformer_config.py) \
	$(addprefix pictures/test_,curves.py picture.py pyramid.py) $(addprefix training/test_,examples.py tokenizer.py))

.DEFAULT_GOAL := help
.PHONY: help lab test fast bench check style types browser pictures docs clean
.DELETE_ON_ERROR:

help:  ## show this list
	@echo "regard: a workbench for attention in PyTorch"
	@sed -n 's/^\([a-z]*\):.*##  *\(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "%-16s %s\n", $$1, $$2 }'

lab: $(VENV)/.runs  ## install regard and open the lab in a browser
	@$(BIN)/regard lab

test: style browser  ## install everything; check style, types and package structure; run every test
	@$(MAKE) --no-print-directory -j2 types $(VENV)/.compiled
	$(BIN)/pytest -n 3 --dist worksteal  # three processes on two cores: many tests wait for a page

fast: $(VENV)/.installed  ## style and the quick tests, without browser, training and games; under 90 s
	@$(BIN)/ruff format --check -q . && $(BIN)/ruff check -q .
	$(BIN)/pytest -q -n 2 --dist worksteal $(FAST)

check: style types  ## style, types and package structure, without tests

style: $(VENV)/.installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports

types: $(VENV)/.installed
	$(BIN)/mypy

# One game compiles everything that plays, and two texts everything that generates text. Otherwise each test process
# would compile them.
$(VENV)/.compiled: $(shell find regard/connectx regard/models/generation -name '*.py') | $(VENV)/.installed
	-@$(BIN)/regard connectx arena minimax:2 mcts:10 solver network:8 --games 2 --processes 1 >/dev/null
	-@$(BIN)/regard generate language "The" --new-tokens 100 >/dev/null
	-@$(BIN)/regard generate phrases "The cat sat on the mat" --beams 4 >/dev/null
	@touch $@

# Tests of pages need Chromium, tests of Chinese text in figures a Chinese font, tests of accessibility axe-core. None
# of them is on PyPI.
browser: $(VENV)/.installed
	@missing=; \
	command -v chromium >/dev/null || missing="chromium"; \
	fc-list 2>/dev/null | grep -qi 'noto sans cjk' || missing="$$missing fonts-noto-cjk"; \
	if [ -n "$$missing" ]; then \
		as=; [ "$$(id -u)" = 0 ] || as="sudo -n"; \
		echo "Installing$${missing:+ }$$missing with apt"; \
		{ $$as apt-get update -qq && DEBIAN_FRONTEND=noninteractive $$as apt-get install -y -qq --no-install-recommends $$missing; } \
			>/dev/null 2>&1 || { \
			echo "WARNING: could not install:$${missing:+ }$$missing." >&2; \
			echo "WARNING: the tests that need a browser or a Chinese font are SKIPPED." >&2; \
		}; \
	fi
	@if [ ! -e $(VENV)/npm/node_modules/axe-core/axe.min.js ] || [ ! -e $(VENV)/npm/node_modules/iframe-worker ]; then \
		echo "Installing axe-core and iframe-worker with npm"; \
		npm install --silent --no-audit --no-fund --prefix $(VENV)/npm axe-core@4 iframe-worker@1 >/dev/null 2>&1 || \
			echo "WARNING: could not install axe-core and iframe-worker (is npm installed?): the tests of accessibility and" \
			"of the documentation site are SKIPPED." >&2; \
	fi

bench: $(VENV)/.bench  ## run the benchmarks without stored output, and write docs/benchmarks.md
	@$(BIN)/python bench/report.py

pictures: $(VENV)/.installed browser  ## take screenshots of every view of the lab, into build/lab
	@$(BIN)/python docs/pictures/lab.py

docs: $(VENV)/.installed browser  ## build the documentation site into build/site, and check its links
	@rm -rf build/site
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build -q
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build -q -f mkdocs.zh.yml
	@$(BIN)/python docs/site/check_links.py build/site

clean:  ## remove the virtual environment and the tools' caches
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

# Each stamp file is written last, so that an interrupted installation is repeated.
$(BIN)/pip:
	@for python in python3 python3.11 python3.12 python3.13 python; do \
		if $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then found=$$python; break; fi; \
	done; \
	if [ -z "$$found" ]; then \
		echo "regard needs Python 3.11 or newer; none was found on PATH (python3 is $$(python3 -V 2>&1))." >&2; \
		exit 1; \
	fi; \
	echo "Creating $(VENV) with $$($$found -V)"; $$found -m venv --clear $(VENV)

$(VENV)/.runs: pyproject.toml constraints.txt | $(BIN)/pip
	@rm -f $@
	@echo "Installing regard and what the lab needs into $(VENV)"
	@$(PIP) -e ".[lab]"
	@touch $@

$(VENV)/.installed: pyproject.toml constraints.txt | $(BIN)/pip
	@rm -f $@
	@echo "Installing regard and its development tools into $(VENV)"
	@$(PIP) -e ".[test]"
	@touch $@

$(VENV)/.bench: $(VENV)/.installed
	@rm -f $@
	@$(PIP) -e ".[test,bench]"
	@touch $@
