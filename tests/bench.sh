#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# bench.sh - speeds as ratios to tmpfs, in one run: with the default options, and with passthrough=off.
#
#   sh tests/bench.sh            both modes
#   sh tests/bench.sh default    one mode (an -o option string)
#
# BENCH_MB      size of the large entry in MiB (default 1024, at most an eighth of RAM)
# BENCH_ROUNDS  measured rounds of each test (default 6; multiples of 6 are fairest)
# BENCH_TEST    only tests whose name holds this
# BUILD         the build folder (default build)
#
# As root there are two fresh tmpfs to compare with: one with tmpfs's default options, and one with
# those of the bank's own RAM tier (huge=within_size, noswap), so that what large pages give is not
# taken for a merit of kvbankfs, nor their absence for a fault. Else /dev/shm is the one tmpfs.
# All run the same program by turns. More than 1.00 = kvbankfs is faster.
set -u

cd "$(dirname "$0")/.." || exit 1
BUILD="${BUILD:-build}"
modes="${1:-default passthrough=off}"
eighth=$(awk '/^MemTotal:/ { print int($2 / 8192) }' /proc/meminfo)
size="${BENCH_MB:-$((eighth < 1024 ? eighth : 1024))}"
rounds="${BENCH_ROUNDS:-6}"
scratch=$(mktemp -d "${TMPDIR:-/tmp}/kvbankfs-bench.XXXXXX") || exit 1
mount="$scratch/mnt"
shm=
daemon=

tidy() {
	for place in "$mount" "$scratch/tmpfs" "$scratch/huge"; do
		umount "$place" 2>/dev/null || fusermount3 -uz "$place" 2>/dev/null
	done
	[ -z "$daemon" ] || { kill -TERM "$daemon"; wait "$daemon"; } 2>/dev/null
	[ -z "$shm" ] || rm -rf "$shm"
	rm -rf --one-file-system "$scratch"
}
trap tidy EXIT
trap 'exit 130' INT TERM HUP

give_up() {
	echo "bench.sh: $1" >&2
	exit 1
}

# Sets sides, the arguments for all but the bank.
make_tmpfs() {
	room="size=$((size * 2 + 256))m"
	if [ "$(id -u)" != 0 ]; then
		shm=$(mktemp -d /dev/shm/kvbankfs-bench.XXXXXX) || give_up "cannot write to /dev/shm"
		sides="tmpfs=$shm"
		return
	fi
	mkdir "$scratch/tmpfs" "$scratch/huge"
	mount -t tmpfs -o "$room" tmpfs "$scratch/tmpfs" || give_up "cannot mount a tmpfs"
	sides="tmpfs=$scratch/tmpfs"
	mount -t tmpfs -o "$room,huge=within_size,noswap" tmpfs "$scratch/huge" 2>/dev/null ||
		mount -t tmpfs -o "$room,huge=within_size" tmpfs "$scratch/huge" 2>/dev/null || return 0
	sides="$sides tmpfs-huge=$scratch/huge"
}

start_daemon() { # MODE
	options="ram=$((size * 4 + 512))M,session_ram=$((size * 4 + 512))M"
	[ "$1" = default ] || options="$options,$1"
	mkdir -p "$mount"
	"$BUILD/kvbankfs" -f -o "$options" "$scratch/store" "$mount" >"$scratch/log" 2>&1 </dev/null &
	daemon=$!
	tries=200
	until mountpoint -q "$mount"; do
		tries=$((tries - 1))
		kill -0 "$daemon" 2>/dev/null && [ $tries -gt 0 ] ||
			give_up "kvbankfs did not mount: $(tail -n 1 "$scratch/log")"
		sleep 0.05
	done
}

# The unmount alone does not end it where another mount namespace, made meanwhile, has the mount too.
stop_daemon() {
	umount "$mount" 2>/dev/null || fusermount3 -u "$mount" || give_up "cannot unmount"
	tries=200
	while kill -0 "$daemon" 2>/dev/null; do
		tries=$((tries - 1))
		[ $tries -ne 0 ] || kill -TERM "$daemon"
		sleep 0.05
	done
	wait "$daemon" || give_up "kvbankfs ended with status $?: $(tail -n 1 "$scratch/log")"
	daemon=
}

compare() { # MODE
	start_daemon "$1"
	echo
	echo "options: $1; $(grep '^passthrough ' "$mount/.kvbank/stats")"
	# shellcheck disable=SC2086 # sides are arguments without spaces
	"$BUILD/programs/bench_sides" ${BENCH_TEST:+-t "$BENCH_TEST"} "$size" "$rounds" "kvbankfs=$mount" $sides ||
		give_up "the comparison ended early, options: $1"
	stop_daemon
}

[ -x "$BUILD/kvbankfs" ] || give_up "no $BUILD/kvbankfs (make)"
[ -x "$BUILD/programs/bench_sides" ] || give_up "no $BUILD/programs/bench_sides (make test-programs)"
make_tmpfs
echo "kvbankfs against tmpfs: an entry of $size MiB, medians of $rounds rounds by turns"
echo "kernel $(uname -r), $(nproc) cores, load $(cut -d' ' -f1 /proc/loadavg)"
for mode in $modes; do
	compare "$mode"
done
