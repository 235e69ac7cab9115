# Each target does all of its own set-up; only Python 3.11 to 3.14 and make are needed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
MLX_VENV := .venv-mlx
VLLM_VENV := .venv-vllm
GET_MODEL = $(BIN)/python -m tests.real.get_model

.PHONY: demo test test-e2e test-engine test-worker test-units test-bench test-ci test-real test-editors test-mlx test-served storm dry-run-26b check format pictures vsix bundle release-check clean

# Waiting threads sleep instead of spinning: the worker, the tests and an editor share the cores.
export OMP_WAIT_POLICY := PASSIVE

# Pulls a model, or gets it as the tests do.
demo: $(VENV)/.ready
	-$(GET_MODEL) qwen2.5-coder-0.5b
	$(BIN)/python examples/demo.py

# Four parts beside each other: most tests wait for a worker, a child process or the disk more than they compute. You
# watch the units; what the others print follows when they have ended.
test: $(VENV)/.ready
	$(MAKE) --no-print-directory --jobs=4 --keep-going test-e2e test-engine test-units test-worker AT_THE_END=yes

at_the_end = $(if $(AT_THE_END),> .$@.log 2>&1; status=$$?; cat .$@.log; exit $$status)

test-e2e: $(VENV)/.ready
	@$(BIN)/python -m pytest tests/e2e $(at_the_end)

test-engine: $(VENV)/.ready
	@$(BIN)/python -m pytest tests/inference/engine tests/inference/models $(at_the_end)

test-worker: $(VENV)/.ready
	@$(BIN)/python -m pytest tests/inference --ignore=tests/inference/engine --ignore=tests/inference/models $(at_the_end)

test-units: $(VENV)/.ready
	$(BIN)/python -m pytest tests --ignore=tests/e2e --ignore=tests/inference

# The benchmarks, on small samples, and whether quality and memory are about right.
test-bench: $(VENV)/.ready
	$(BIN)/python -m pytest tests/inference/bench

# What `.ci/run` takes for a failure.
test-ci: $(VENV)/.ready
	$(BIN)/python -m pytest tests/test_ci.py

# Qwen2.5-Coder 0.5B, which is downloaded once (491 MB) into the user's folder of models, through the real server in six
# languages. Where it cannot be had it is not tested, which the last lines say in red.
test-real: $(VENV)/.ready
	$(BIN)/python -m pytest tests/real

# Real editors. What cannot be installed is not tested, which the last lines say in red; EDITORS_ALL=1 makes that a failure.
# SEED=N presses other random keys in Neovim.
test-editors: $(VENV)/.ready
	-tests/editors/install.sh .editors
	-tests/editors/vscode/install.sh .editors/vscode
	-if command -v npm >/dev/null; then $(MAKE) $(VSCODE)/node_modules/.ready; fi
	if [ -f $(VSCODE)/node_modules/.ready ]; then $(MAKE) vsix; fi
	INFILL_TEST_EDITORS_ALL=$(EDITORS_ALL) INFILL_TEST_SEED=$(SEED) $(BIN)/python -m pytest tests/editors

# MLX, which runs on Apple silicon and here on the CPU, in an environment of its own: it brings 1.5 GB, and two models 1.6.
# Last a real model through the real server; where it cannot be had, the last lines say so in red.
test-mlx: $(MLX_VENV)/.ready
	-$(MLX_VENV)/bin/python -m tests.real.get_model qwen2.5-coder-0.5b
	-$(MLX_VENV)/bin/python -m tests.real.get_model qwen2.5-coder-1.5b
	$(MLX_VENV)/bin/python -m pytest tests/inference/models/mlx
	$(MLX_VENV)/bin/python -m pytest tests/real/test_real_model.py -k test_mlx

# A real vLLM and llama.cpp's server with a real model, on the CPU, in an environment of their own: it brings 3.5 GB. What
# cannot be installed is not tested, which the last lines say in red.
test-served: $(VENV)/.ready
	-tests/served/install.sh $(VLLM_VENV)
	-$(GET_MODEL) qwen2.5-coder-0.5b
	INFILL_TEST_VLLM=$(CURDIR)/$(VLLM_VENV) $(BIN)/python -m pytest tests/served

# Fifteen minutes of typing into four servers, while workers are killed, files damaged and servers lie; no part of
# `make test`. It prints its seed; SEED=N has that storm again.
storm: $(VENV)/.ready
	$(BIN)/python -m tests.storm $(if $(SEED),--seed $(SEED))

# The released checkpoint's full shape with made-up weights, in 4 bits, on the CPU: an hour and 24 GB. LAYERS=2: a try.
# GGUF=Q4_0: from a file with matrices of that type.
LAYERS ?= 30
dry-run-26b: $(VENV)/.ready
	$(BIN)/python -m tests.full_shape.dry_run --layers $(LAYERS) $(if $(GGUF),--gguf $(GGUF))

# What the READMEs show, taken by the tests in real editors with the model for new users; what the partner improves is the
# embedded model's draft.
REAL_MODEL = $(shell $(BIN)/python -m tests.served.llama)
PICTURES := INFILL_PICTURES=$(CURDIR)/editors/vscode/images
pictures: $(VENV)/.ready
	$(GET_MODEL) qwen2.5-coder-0.5b
	tests/editors/install.sh .editors
	INFILL_TEST_PICTURES=$(CURDIR)/editors/nvim/images INFILL_LS_MODEL=$(REAL_MODEL) \
		$(BIN)/python -m pytest tests/editors/test_neovim_pictures.py
	INFILL_TEST_PICTURES=$(CURDIR)/editors/nvim/images $(BIN)/python -m pytest tests/editors/test_neovim_install.py
	INFILL_TEST_PICTURES=$(CURDIR)/editors/helix/images $(BIN)/python -m pytest tests/editors/test_helix.py
	tests/editors/vscode/install.sh .editors/vscode && $(MAKE) vsix
	$(PICTURES) INFILL_LS_MODEL=$(REAL_MODEL) $(BIN)/python -m pytest tests/editors/vscode -k "tab or bulb or preview"
	$(PICTURES) $(BIN)/python -m pytest tests/editors/vscode -k refined_in_place
	$(PICTURES) $(BIN)/python -m pytest tests/editors/test_vscode_install.py

# The VS Code extension as one file to install, with the server's wheel. Needs Node.js 20 or newer. Whoever only uses it
# needs no packages of ours; beside $(VENV) it is also checked and tested.
VSCODE := editors/vscode
VSIX := $(VSCODE)/dist/infill-ls.vsix
vsix: $(VSIX)

$(VSIX): $(VSCODE)/node_modules/.ready $(shell find lsp_server inference -name '*.py' -o -name '*.toml') pyproject.toml \
		$(wildcard $(addprefix $(VSCODE)/,*.json *.mjs *.md src/* test/* scripts/* images/*))
	@[ -e $(VENV)/.ready ] || { $(has_python); }
	rm -f $(VSCODE)/dist/*.whl
	bin=$(BIN); [ -e $(VENV)/.ready ] || { bin=build/venv/bin; $(PYTHON) -m venv build/venv; } && \
		$$bin/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir $(VSCODE)/dist .
	if [ -e $(VENV)/.ready ]; then cd $(VSCODE) && export INFILL_LS="$(CURDIR)/$(BIN)/infill-ls" && npm run --silent check && \
		npm run --silent test; fi
	cd $(VSCODE) && npm run --silent build && npm run --silent package
	@echo "built $(VSIX)"

$(VSCODE)/node_modules/.ready: $(VSCODE)/package-lock.json
	@node -e 'process.exit(+(process.versions.node.split(".")[0] < 20))' 2>/dev/null && command -v npm >/dev/null || { \
		echo "there is no Node.js 20 or newer with npm: install it, then run this again" >&2; exit 1; }
	@echo "installing what builds the extension (0.2 GB)"
	@cd $(VSCODE) && npm ci --no-audit --no-fund --loglevel=error || { echo "$(no_network); npm also takes: npm config set registry" >&2; exit 1; }
	touch $@

# One file with all that a machine without a network needs, in dist/; editors/bundle/README.md. Wheels of other systems and
# other Pythons can be had, too: PLATFORM, PYTHON_VERSION, MODEL, CUDA=1. The variable
# TORCH_INDEX names an index with torch for the CPU, on Linux.
bundle: $(VENV)/.ready $(VSIX)
	$(BIN)/python editors/bundle/build.py $(if $(PLATFORM),--platform $(PLATFORM)) $(if $(CUDA),--cuda) \
		$(if $(PYTHON_VERSION),--python-version $(PYTHON_VERSION)) $(if $(MODEL),--model $(MODEL))

# All that a release publishes, built into dist/: the wheel in an empty environment and the extension in a real VS Code
# both fill a hole.
release-check: $(VENV)/.ready
	tests/editors/vscode/install.sh .editors/vscode && $(MAKE) vsix
	$(BIN)/python -m tests.release_check

check: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.ready
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

no_network = the packages could not be installed, for the reason above. Behind a proxy set HTTPS_PROXY

define has_python
$(PYTHON) -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' 2>/dev/null || { \
	echo "$(PYTHON) is not Python 3.11 to 3.14 with its module venv (Debian, Ubuntu: python3-venv): install that, or name it: \
	make PYTHON=python3.13" >&2; exit 1; }
endef

# constraints.txt holds the versions the tests passed with; pyproject.toml holds the ranges that users install. uv takes
# torch for this machine's GPU, or the small one without CUDA; where it cannot, pip takes what its index has.
$(VENV)/.ready: pyproject.toml constraints.txt
	@$(has_python)
	@echo "installing packages into $(VENV) takes some minutes and 2.6 GB"
	$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv && $(BIN)/uv pip install --quiet \
		--python $(BIN)/python --torch-backend auto -c constraints.txt torch 2>/dev/null || true
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]' || { \
		echo "$(no_network), and for pip PIP_INDEX_URL" >&2; exit 1; }
	touch $@

$(MLX_VENV)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(MLX_VENV)
	$(MLX_VENV)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[mlx-vlm]' \
		pytest pytest-asyncio pytest-timeout hypothesis
	touch $@

clean:
	rm -rf $(VENV) $(MLX_VENV) $(VLLM_VENV)
