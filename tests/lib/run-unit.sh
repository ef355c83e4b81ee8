#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# run-unit.sh - runs unit test programs, each with a time limit, and fails when one failed.
#
# A program prints "ok promise" or "not ok promise" lines. One that ends otherwise (a crash, a
# sanitizer's report, the time limit) is told as a line of its own, so that counting lines counts all.
set -u

export ASAN_OPTIONS="${ASAN_OPTIONS:-exitcode=97}" TSAN_OPTIONS="${TSAN_OPTIONS:-exitcode=97}"
export UBSAN_OPTIONS="${UBSAN_OPTIONS:-print_stacktrace=1}"
failed=0
output=$(mktemp)
trap 'rm -f "$output"' EXIT

for program in "$@"; do
	wrap=
	# gcc's thread sanitizer cannot start where the kernel randomises many address bits.
	case "$program" in *thread*) wrap="setarch $(uname -m) -R" ;; esac
	status=0
	# shellcheck disable=SC2086 # wrap is a command with arguments or nothing
	timeout "${KV_UNIT_TIMEOUT:-120}" $wrap "$program" >"$output" 2>&1 </dev/null || status=$?
	sed "s|^\(not \)*ok |&${program##*/}: |" "$output"
	if [ "$status" != 0 ]; then
		failed=1
		grep -q '^not ok' "$output" || echo "not ok ${program##*/}: ended with status $status"
	fi
done
exit $failed
