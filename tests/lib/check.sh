#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# check.sh - the mount tests on the build folder BUILD, once, as a developer runs them.
# With names (check.sh 10 14) only the bats files that begin so.
set -eu

cd "$(dirname "$0")/../.."
command -v bats >/dev/null || { echo "bats is not installed: sh tests/lib/deps.sh test" >&2; exit 1; }
export BUILD="${BUILD:-build}"
export KV_SLOW="${KV_SLOW-short}" # KV_SLOW= runs the loops of the whole test run
[ $# -gt 0 ] || set -- ''
files=
for name in "$@"; do
	for file in tests/"$name"[0-9-]*.bats; do
		[ -f "$file" ] && files="$files $file"
	done
done
# shellcheck disable=SC2086 # a list of files without spaces
exec bats --timing $files
