#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# lint.sh - headers that stand alone, man pages, shell scripts. One line for each check; a tool that
# is not installed is a skip with its name.
set -u

cd "$(dirname "$0")/../.." || exit 1
failed=0

tell() { # STATUS CHECK
	if [ "$1" = 0 ]; then
		echo "ok lint: $2"
	else
		echo "not ok lint: $2"
		failed=1
	fi
}

have() { # COMMAND CHECK
	command -v "$1" >/dev/null && return 0
	echo "ok lint: $2 # skip $1 is not installed"
	return 1
}

headers() {
	flags=$(pkg-config --cflags fuse3 2>/dev/null)
	bad=0
	for header in fs/*.h bank/*.h codec/*.h; do
		# shellcheck disable=SC2086 # compiler flags
		${CC:-cc} -std=gnu11 -D_GNU_SOURCE -DFUSE_USE_VERSION=312 -I. $flags -fsyntax-only -x c "$header" 2>&1 || bad=1
	done
	return $bad
}

headers
tell $? "every header can be included alone"
if have mandoc "man pages"; then
	mandoc -T lint -W warning man/*.[1-9]
	tell $? "man pages"
fi
if have shellcheck "shell scripts"; then
	shellcheck -S warning tests/*.sh tests/lib/*.sh examples/*.sh .ci/run
	tell $? "shell scripts"
	shellcheck -S warning -s bats -e SC1090,SC1091,SC2010,SC2030,SC2031,SC2034,SC2115,SC2120,SC2154,SC2174,SC2217 tests/*.bats tests/lib/*.bash
	tell $? "bats files"
fi
exit $failed
