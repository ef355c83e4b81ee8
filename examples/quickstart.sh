#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# quickstart.sh - builds kvbankfs, mounts it, puts three real states of language models into it, shows
# what one sees there, compares, unmounts, and says what happened. Leaves nothing behind but build/.
#
# KV_NO_DEPS=1 installs no packages. BUILD names the build folder.
set -eu

cd "$(dirname "$0")/.."
build="${BUILD:-build}"
scratch=$(mktemp -d "${TMPDIR:-/tmp}/kvbankfs-quickstart.XXXXXX")
mnt="$scratch/mnt" store="$scratch/store"

finish() {
	if mountpoint -q "$mnt" 2>/dev/null; then
		fusermount3 -uz "$mnt" 2>/dev/null || umount -l "$mnt"
	fi
	rm -rf --one-file-system "$scratch"
}
trap finish EXIT
trap 'exit 130' INT TERM HUP

step() {
	printf '\n== %s\n' "$1"
}

skip() { # REASON
	echo "SKIP: $1"
	echo "kvbankfs is built in $build/, but this machine does not let it mount. On a machine with FUSE"
	echo "(a container needs --device /dev/fuse --cap-add SYS_ADMIN) run this again."
	exit 77
}

may_mount() {
	[ -e /dev/fuse ] || skip "there is no /dev/fuse here"
	(: <>/dev/fuse) 2>/dev/null || skip "/dev/fuse may not be opened here"
	[ "$(id -u)" = 0 ] || return 0
	# bit 21 of the effective capabilities
	case "$(awk '$1 == "CapEff:" { print substr($2, length($2) - 5, 1) }' /proc/self/status)" in
	[2367abefABEF]) ;;
	*) skip "root may not mount here (no CAP_SYS_ADMIN)" ;;
	esac
}

step "build"
[ -n "${KV_NO_DEPS:-}" ] || sh tests/lib/deps.sh build example
make -s BUILD="$build" all
"$build/kvbankfs" -V
may_mount

step "mount: kvbankfs -o ram=64M STORE $mnt"
mkdir "$mnt"
"$build/kvbankfs" -o ram=64M "$store" "$mnt"

step "put: two turns of a chat saved by llama-server, and a prompt cache saved by mlx-lm"
mkdir "$mnt/alice" "$mnt/bob"
cp tests/data/chat-turn1.bin tests/data/chat-turn2.bin "$mnt/alice/"
cp tests/data/chat.safetensors "$mnt/bob/"
ls -lR "$mnt"

step "look: attributes of a state"
tries=0
until getfattr --absolute-names -n user.kvbank.sha256 "$mnt/alice/chat-turn2.bin" >/dev/null 2>&1; do
	tries=$((tries + 1))
	[ "$tries" -lt 100 ] || { echo "the state did not settle within 10 seconds"; exit 1; }
	sleep 0.1
done
getfattr --absolute-names -d -m '^user\.kvbank\.' "$mnt/alice/chat-turn2.bin"

step "look: .kvbank/stats and the last events"
grep -E '^(entries|sessions|ram_bytes|ram_max|put_entries|put_bytes|passthrough|store) ' "$mnt/.kvbank/stats"
tail -n 4 "$mnt/.kvbank/events"
df -h "$mnt"

step "get: what comes back is what was put"
cmp tests/data/chat-turn1.bin "$mnt/alice/chat-turn1.bin"
cmp tests/data/chat-turn2.bin "$mnt/alice/chat-turn2.bin"
cmp tests/data/chat.safetensors "$mnt/bob/chat.safetensors"
want=$(sha256sum <tests/data/chat-turn2.bin | cut -d' ' -f1)
have=$(getfattr --absolute-names --only-values -n user.kvbank.sha256 "$mnt/alice/chat-turn2.bin")
[ "$want" = "$have" ] || { echo "the SHA-256 in the attribute is wrong"; exit 1; }
echo "all three are byte-equal, and user.kvbank.sha256 is what sha256sum says"

step "unmount: fusermount3 -u $mnt"
fusermount3 -u "$mnt" 2>/dev/null || umount "$mnt"

cat <<'END'

== what happened
A daemon mounted a directory whose files live in RAM. Two sessions (directories) got three states that
llama-server and mlx-lm had saved; each was committed when cp closed it, then sealed and hashed in the
background. They came back byte for byte, at the speed of memory. Point llama-server's --slot-save-path,
or whatever saves your model's states, at such a mount and it need not compute them twice.
This version keeps them in RAM only: with the unmount they are gone.
END
