#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# run.sh - every test that a machine without special hardware can run. Installs what they need, builds,
# and ends with one line: "N passed, N failed, N skipped". Status 1 when one failed.
#
# A stage is a command that prints TAP lines ("ok ...", "not ok ...", "ok ... # skip reason"). They are
# shown as they come and counted at the end; a stage that fails without such a line counts as one
# failed test, a stage that prints none and ends with status 77 as one skipped.
#
#   sh tests/run.sh             all stages
#   sh tests/run.sh unit bats   some: lint unit layers bats page-cache user address thread
#                               clients example
#
# KV_SLOW=full runs the longest loops too. BUILD names the build folder (default build).
set -u

cd "$(dirname "$0")/.." || exit 1
root=$(pwd)
build="${BUILD:-build}"
export CI="${CI:-1}"
[ "${KV_SLOW:-}" != full ] || export BATS_TEST_TIMEOUT="${BATS_TEST_TIMEOUT:-900}"
logs="$root/$build/logs"
stages="${*:-lint unit layers bats page-cache user address thread clients example}"
started=$(date +%s)

scratch=$(mktemp -d /tmp/kvbankfs-tests.XXXXXX) || exit 1
chmod 711 "$scratch"
export TMPDIR="$scratch"

# What a test left mounted. Cutting the connection (its number is the minor of the mount's device) also
# frees processes that wait for a stuck daemon.
unmount_leftovers() {
	awk -v dir="$scratch/" 'index($5 "/", dir) == 1 {
		split($3, device, ":")
		print $5, $0 ~ / - fuse/ ? device[2] : "-"
	}' /proc/self/mountinfo | tac | while read -r mount connection; do
		umount -l "$mount" 2>/dev/null || fusermount3 -uz "$mount" 2>/dev/null
		abort="/sys/fs/fuse/connections/$connection/abort"
		[ ! -w "$abort" ] || echo 1 >"$abort"
	done
}

finish() {
	unmount_leftovers
	rm -rf --one-file-system "$scratch"
}
trap finish EXIT
trap 'exit 130' INT TERM HUP

mkdir -p "$logs" || exit 1
rm -f "$logs"/*.tap

elapsed() {
	seconds=$(($(date +%s) - started))
	printf '%d:%02d' $((seconds / 60)) $((seconds % 60))
}

stage() { # NAME COMMAND...
	name="$1"
	shift
	case " $stages " in *" $name "*) ;; *) return 0 ;; esac
	echo "== $name ($(elapsed))"
	status_file="$scratch/status"
	{
		"$@" </dev/null 2>&1
		echo $? >"$status_file"
	} | tee "$logs/$name.tap"
	read -r status <"$status_file"
	if [ "$status" = 77 ] && ! grep -qE '^(not )?ok ' "$logs/$name.tap"; then
		echo "ok $name # skip $(tail -n 1 "$logs/$name.tap")" | tee -a "$logs/$name.tap"
	elif [ "$status" != 0 ] && ! grep -q '^not ok' "$logs/$name.tap"; then
		echo "not ok $name: ended with status $status" | tee -a "$logs/$name.tap"
	fi
	unmount_leftovers
}

mount_tests() { # BUILD OPTIONS [KV_SLOW]
	BUILD="$1" KV_OPTS="$2" KV_SLOW="${3:-${KV_SLOW:-}}" bats --formatter tap --timing tests/[0-9]*.bats
}

# As an ordinary user: no passthrough, memory files instead of a tmpfs. As root these are the tests above.
user_tests() {
	[ "$(id -u)" = 0 ] || { echo "these are the tests above: not root"; return 77; }
	[ -e /etc/mtab ] || { echo "fusermount3 unmounts for an ordinary user only where there is /etc/mtab"; return 77; }
	sh tests/lib/unprivileged.sh test -x "$build/kvbankfs" 2>/dev/null ||
		{ echo "an ordinary user cannot mount here, or cannot reach $root/$build"; return 77; }
	BUILD="$build" KV_OPTS="" KV_SLOW=short sh tests/lib/unprivileged.sh bats --formatter tap --timing tests/[0-9]*.bats
}

built_and_tested() { # SAN: unit and mount tests under a sanitizer
	folder="build/san-$(echo "$1" | tr , -)"
	make -j2 SAN="$1" BUILD="$folder" all >"$scratch/make.log" 2>&1 || {
		tail -n 40 "$scratch/make.log"
		echo "not ok build with SAN=$1"
		return 1
	}
	make --no-print-directory -s -j2 SAN="$1" BUILD="$folder" check-unit
	unit=$?
	mount_tests "$folder" "" short && [ "$unit" = 0 ]
}

summary() {
	cat "$logs"/*.tap | awk '
		/^not ok / { failed++; list = list "\n  " $0 }
		/^ok / { if (tolower($0) ~ /# skip/) { skipped++; skips = skips "\n  " $0 } else passed++ }
		END {
			if (skips) print "skipped:" skips
			if (list) print "failed:" list
			printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped
			exit failed > 0 || passed == 0
		}'
}

give_up() { # WHAT
	echo "not ok $1" | tee "$logs/give-up.tap"
	summary
	exit 1
}

sh tests/lib/deps.sh build test </dev/null || give_up "installing the packages that the tests need"
echo "== build (0:00)"
make -j2 BUILD="$build" all test-programs </dev/null || give_up "build"

stage lint sh tests/lib/lint.sh
stage unit make --no-print-directory -s BUILD="$build" check-unit
stage layers env BUILD="$build" sh tests/lib/check-layers.sh
stage bats mount_tests "$build" ""
stage page-cache mount_tests "$build" passthrough=off
stage user user_tests
stage address built_and_tested address,undefined
stage thread built_and_tested thread
stage clients sh tests/clients/run.sh
stage example env BUILD="$build" KV_NO_DEPS=1 sh examples/quickstart.sh

echo "== done ($(elapsed))"
summary
