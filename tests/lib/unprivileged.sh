#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# unprivileged.sh COMMAND... - runs a command as user nobody who may open /dev/fuse, as on an ordinary
# desktop: the daemon then keeps its bytes in memfds and reads go through the page cache.
#
# Where /dev/fuse is root's alone, a mount namespace of our own gets one that is not; nothing outside
# changes. Ends with 77 and a reason where that cannot be done.
set -u

skip() {
	echo "$1"
	exit 77
}

[ "$(id -u)" = 0 ] || exec "$@"
command -v unshare >/dev/null && command -v setpriv >/dev/null || skip "unshare or setpriv is not installed"
command -v fusermount3 >/dev/null || skip "fusermount3 is not installed"
[ -e /dev/fuse ] || skip "no /dev/fuse on this machine"
unshare -m true 2>/dev/null || skip "no mount namespace may be made here"

if [ "${KV_IN_NAMESPACE:-}" != 1 ]; then
	export KV_IN_NAMESPACE=1
	exec unshare -m sh "$0" "$@"
fi
dir=$(mktemp -d /tmp/kvbankfs-user.XXXXXX) || exit 1
trap 'umount -l "$dir" 2>/dev/null; rmdir "$dir"' EXIT
# A file system that takes device nodes, seen in this namespace alone.
mount -t tmpfs -o mode=755,size=1G none "$dir" || skip "no tmpfs may be mounted here"
mknod -m 666 "$dir/fuse" c 10 229 && mount --bind "$dir/fuse" /dev/fuse || skip "no /dev/fuse for others can be made here"
mkdir -m 700 "$dir/home" && chown 65534:65534 "$dir/home"
setpriv --reuid=65534 --regid=65534 --clear-groups env HOME="$dir/home" TMPDIR="$dir/home" "$@" </dev/null
