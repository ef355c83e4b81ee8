#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# deps.sh - installs Debian packages: sh deps.sh build|example|test ...
#
# Debian 12 and 13. Uses apt-get as root or through sudo, and only when a package is missing, so
# that a machine that has them all needs neither root nor a network. Asks nothing.
set -eu

build="gcc libc6-dev make pkg-config libfuse3-dev fuse3 libssl-dev uthash-dev libcjson-dev liblz4-dev libxxhash-dev"
example="attr coreutils util-linux procps"
test="$example bats bats-support bats-assert python3 python3-venv python3-numpy rsync strace tar git fio
	mandoc shellcheck ca-certificates"

wanted=
for group in "$@"; do
	case "$group" in
	build) wanted="$wanted $build" ;;
	example) wanted="$wanted $example" ;;
	test) wanted="$wanted $test" ;;
	*)
		echo "deps.sh: expected build, example or test, not '$group'" >&2
		exit 1
		;;
	esac
done
[ -n "$wanted" ] || { echo "usage: deps.sh build|example|test ..." >&2; exit 1; }

missing=
for package in $wanted; do
	status=$(dpkg-query -W -f '${Status}' "$package" 2>/dev/null || true)
	[ "$status" = "install ok installed" ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

as_root=
if [ "$(id -u)" != 0 ]; then
	if ! command -v sudo >/dev/null; then
		echo "deps.sh: missing packages, and neither root nor sudo to install them:$missing" >&2
		exit 1
	fi
	as_root="sudo -n"
	[ -t 0 ] && as_root=sudo
fi

echo "installing:$missing"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
run() {
	# shellcheck disable=SC2086 # as_root is a command with arguments or nothing
	$as_root env DEBIAN_FRONTEND=noninteractive "$@" </dev/null >"$log" 2>&1 || {
		cat "$log" >&2
		echo "deps.sh: could not install:$missing" >&2
		exit 1
	}
}
run apt-get -q update
# shellcheck disable=SC2086 # a list of packages
run apt-get -q -y --no-install-recommends install $missing
