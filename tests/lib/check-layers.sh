#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# check-layers.sh - nothing reaches upward: fs -> bank -> codec. One line for each rule.
#
# Asks the sources (every include of ours is written with its directory, so grep sees it) and, where
# they are built, the archives (an undefined symbol of an upper layer is an upward call). KV_TREE is
# the tree to look at, BUILD its build folder.
set -u

cd "${KV_TREE:-$(dirname "$0")/../..}" || exit 1
build="${BUILD:-build}"
failed=0

tell() { # RULE OFFENDERS
	if [ -n "$2" ]; then
		echo "not ok layers: $1"
		echo "$2" | sed 's/^/# /'
		failed=1
	else
		echo "ok layers: $1"
	fi
}

includes() { # PATTERN FILES...: the include lines that match
	pattern="$1"
	shift
	grep -nE "^[[:space:]]*#[[:space:]]*include[[:space:]]+$pattern" "$@" /dev/null 2>/dev/null
}

calls_nothing() { # ARCHIVE PREFIX RULE
	if [ -f "$build/$1" ]; then
		tell "$3" "$(nm -u "$build/$1" 2>/dev/null | grep -E "^[[:space:]]+U $2")"
	else
		echo "ok layers: $3 # skip $build/$1 is not built"
	fi
}

tell "includes are written with their directory" \
	"$(includes '"[^/"]*"' fs/*.[ch] bank/*.[ch] codec/*.[ch])"
tell "includes name fs, bank or codec" \
	"$(includes '"' fs/*.[ch] bank/*.[ch] codec/*.[ch] | grep -vE '"(fs|bank|codec)/[a-z0-9_]+\.h"')"
tell "fs knows of the bank only bank/bank.h" \
	"$(includes '["<]bank/' fs/*.[ch] | grep -v '"bank/bank\.h"')"
tell "fs knows no codec" "$(includes '["<]codec/' fs/*.[ch])"
tell "bank knows no fs" "$(includes '["<]fs/' bank/*.[ch])"
tell "codec knows no fs and no bank" "$(includes '["<](fs|bank)/' codec/*.[ch])"
tell "only fs knows FUSE" "$(includes '["<](fuse|linux/fuse)' bank/*.[ch] codec/*.[ch])"
tell "only codec/digest.c knows openssl" \
	"$(includes '["<]openssl/' fs/*.[ch] bank/*.[ch] codec/*.[ch] | grep -v '^codec/digest\.c:')"
tell "only codec/encode.c knows lz4" \
	"$(includes '["<]lz4' fs/*.[ch] bank/*.[ch] codec/*.[ch] | grep -v '^codec/encode\.c:')"
tell "only codec/checksum.c knows xxhash" \
	"$(includes '["<]xxhash' fs/*.[ch] bank/*.[ch] codec/*.[ch] | grep -v '^codec/checksum\.c:')"
tell "only codec/safetensors.c knows cJSON" \
	"$(includes '["<](cjson/)?cJSON' fs/*.[ch] bank/*.[ch] codec/*.[ch] | grep -v '^codec/safetensors\.c:')"
tell "only codec knows lz4, xxhash and cJSON" \
	"$(includes '["<](lz4|xxhash|cjson/|zstd)' fs/*.[ch] bank/*.[ch])"
tell "fs and codec know no SQL" "$(grep -nil 'sqlite3*[_.]' fs/*.[ch] codec/*.[ch] 2>/dev/null)"
calls_nothing libcodec.a '(bank|fs|fuse)_' "libcodec.a calls nothing of bank, fs or FUSE"
calls_nothing libbank.a '(fs|fuse)_' "libbank.a calls nothing of fs or FUSE"
exit $failed
