#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# run.sh - the real clients, and the call patterns of those that are too large, on a mount: once with
# passthrough where the machine has it, once with passthrough=off.
#
#   sh tests/clients/run.sh                          both modes, every client
#   sh tests/clients/run.sh default patterns         one mode, one client (llama_server hybrid_pattern patterns)
#   KV_DIR=/dev/shm/x sh tests/clients/run.sh        on a plain directory: tries the tests themselves
#
# Prints TAP lines and figures behind `#`. Status 1 when a check failed, 77 when nothing could be tried.
# BUILD is the build folder, KV_SLOW=full has the largest numbers of files, KV_CORPUS=FOLDER holds more states.
#
# Easy to forget: a daemon that died must end in a failed check, not in a row of ENOTCONN.
set -u

cd "$(dirname "$0")/../.." || exit 77
BUILD="${BUILD:-build}"
modes="${1:-default passthrough=off}"
clients="${2:-hybrid_pattern patterns llama_server}"
scratch=$(mktemp -d "${TMPDIR:-/tmp}/kvbankfs-clients.XXXXXX") || exit 77
mount="$scratch/mnt"
failed=0
daemon=
export PYTHONDONTWRITEBYTECODE=1

tell() { # STATUS NAME WHY
	if [ "$1" = 0 ]; then
		echo "ok $2"
	else
		echo "not ok $2: $3"
		failed=1
	fi
}

give_up() {
	echo "$1"
	exit 77
}

tidy() {
	umount "$mount" 2>/dev/null || fusermount3 -uz "$mount" 2>/dev/null
	[ -z "$daemon" ] || kill -KILL "$daemon" 2>/dev/null
	rm -rf --one-file-system "$scratch"
}
trap tidy EXIT
trap 'exit 130' INT TERM HUP

until_true() { # SECONDS COMMAND...
	tries=$(($1 * 20))
	shift
	while ! "$@"; do
		tries=$((tries - 1))
		[ $tries -gt 0 ] || return 1
		sleep 0.05
	done
}

is_mounted() {
	mountpoint -q "$mount"
}

is_gone() {
	! kill -0 "$daemon" 2>/dev/null
}

start_daemon() { # MODE
	options="ram=1G"
	[ "$1" = default ] || options="$options,$1"
	mkdir -p "$mount"
	"$BUILD/kvbankfs" -f -o "$options" "$scratch/store" "$mount" >>"$scratch/log" 2>&1 </dev/null &
	daemon=$!
	until_true 10 is_mounted
}

unmount_once() {
	umount "$mount" 2>/dev/null || fusermount3 -u "$mount" 2>/dev/null
}

# Ends well: unmounted by itself, status 0. What its log said last is the reason when not.
stop_daemon() { # NAME
	status=still-running
	until_true 10 unmount_once
	until_true 20 is_gone && {
		wait "$daemon"
		status=$?
	}
	tell "$status" "$1: the daemon ends with status 0" "status $status; $(tail -n 2 "$scratch/log" | tr '\n' ' ')"
	daemon=
}

bytes_are_back() {
	[ "$(awk '$1 == "ram_bytes" { print $2 }' "$mount/.kvbank/stats" 2>/dev/null)" = 0 ]
}

run_client() { # NAME DIRECTORY LABEL
	mkdir "$2" || { tell 1 "$3: $1" "mkdir of its session"; return; }
	timeout -k 5 600 "$python" "tests/clients/$1.py" "$2" --label "$3:"
	status=$?
	case "$status" in
	0 | 1) [ "$status" = 0 ] || failed=1 ;;
	*) tell 1 "$3: $1" "ended with status $status" ;;
	esac
	rm -rf "$2"
}

on_a_mount() { # MODE
	name="clients, $1"
	: >"$scratch/log"
	if ! start_daemon "$1"; then
		tell 1 "$name: mount" "$(tail -n 2 "$scratch/log" | tr '\n' ' ')"
		is_gone || kill -KILL "$daemon"
		return
	fi
	for client in $clients; do
		run_client "$client" "$mount/$client" "$name"
		is_gone && break
	done
	is_gone || {
		until_true 5 bytes_are_back
		tell $? "$name: no byte is held when all is removed" \
			"$(grep -E '^(ram_bytes|entries|sessions) ' "$mount/.kvbank/stats" | tr '\n' ' ')"
	}
	stop_daemon "$name"
}

sh tests/lib/clients.sh || echo "# clients that need what is missing are skipped"
python=build/clients/bin/python
"$python" -c '' 2>/dev/null || python=python3
command -v "$python" >/dev/null || give_up "python3 is not installed"

if [ -n "${KV_DIR:-}" ]; then
	for client in $clients; do
		run_client "$client" "$KV_DIR/$client" "plain directory"
	done
	exit $failed
fi

[ -x "$BUILD/kvbankfs" ] || give_up "no $BUILD/kvbankfs (make)"
{ : <>/dev/fuse; } 2>/dev/null || give_up "/dev/fuse cannot be opened here"
for mode in $modes; do
	on_a_mount "$mode"
done
exit $failed
