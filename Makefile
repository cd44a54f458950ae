# Everything from a bare clone: `make demo` shows what fadewise does, `make test` checks it.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/installed

.PHONY: demo flower-demo test test-quick bench bench-peers format clean

$(INSTALLED): pyproject.toml constraints.txt hatch_build.py $(wildcard src/fadewise/learning/native/*.[ch]pp) src/fadewise/learning/native/build.py
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --group dev --editable '.[plots,train,flower]'
	touch $@

demo: $(INSTALLED)
	for network in cifar10-hom cifar10-het femnist-hom femnist-het; do \
		$(BIN)/fadewise plan paper/$$network && $(BIN)/fadewise plan paper/$$network-uniform || exit 1; \
	done
	$(BIN)/fadewise reproduce participants --out out
	mkdir -p out
	$(BIN)/fadewise plan paper/cifar10-het --sweep policy.penalty_weight=1,10,100,1000,10000 \
		--rounds 20000 --plot out/power.svg
	$(BIN)/python -m fadewise.studies.frontier --plot out/frontier.svg
	$(BIN)/fadewise reproduce saving --out out
	$(BIN)/fadewise compare out/runs --over uniform --target accuracy=0.65

# Four Flower nodes on this machine, with TLS and keys, beside the simulator; some minutes.
flower-demo: $(INSTALLED)
	$(BIN)/python examples/flower/demo.py out/flower

test: $(INSTALLED)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/pytest --numprocesses auto

test-quick: $(INSTALLED)
	$(BIN)/pytest --numprocesses auto -m 'not slow'

bench: $(INSTALLED)
	$(BIN)/python benchmarks/decide.py

# The frameworks that benchmarks/training.py compares with, each in an environment of its own: some gigabytes.
bench-peers:
	PYTHON=$(PYTHON) benchmarks/peers/install.sh

format: $(INSTALLED)
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

clean:
	rm -rf .venv out build dist
