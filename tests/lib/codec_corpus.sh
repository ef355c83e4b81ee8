#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# codec_corpus.sh - the parsers against real states and against anything: index, damage, growth, fuzzing.
#
#	sh tests/lib/codec_corpus.sh [SECONDS]
#
# Runs the corpus test (all figures are printed), replays every corpus file through the fuzz target, and,
# where clang is installed, fuzzes for SECONDS (60) from the smaller files and from those that the unit test
# builds. The corpus is KV_CORPUS or ../shared/corpus; it may be absent. One line for each check; findings are
# kept in BUILD/fuzz/found.
set -u

cd "$(dirname "$0")/../.." || exit 1
seconds="${1:-60}"
build="${BUILD:-build}/fuzz"
corpus="${KV_CORPUS:-../shared/corpus}"
flags="-std=gnu11 -D_GNU_SOURCE -I. -Itests/unit -g -O1"
libraries="$(pkg-config --libs libcjson libcrypto)"
failed=0

tell() { # STATUS CHECK
	if [ "$1" = 0 ]; then
		echo "ok codec: $2"
	else
		echo "not ok codec: $2"
		failed=1
	fi
}

# An archive, so that only what the parsers need is linked.
archive() { # COMPILER FOLDER FLAGS...
	compiler="$1" folder="$build/$2"
	shift 2
	mkdir -p "$folder" && rm -f "$folder/codec.a" || return 1
	for file in codec/*.c; do
		# shellcheck disable=SC2086 # compiler flags
		"$compiler" $flags "$@" -c -o "$folder/$(basename "$file" .c).o" "$file" || return 1
	done
	ar rcs "$folder/codec.a" "$folder"/*.o
}

program() { # COMPILER FOLDER OUTPUT SOURCES AND FLAGS...
	compiler="$1" folder="$build/$2" output="$build/$3"
	shift 3
	# shellcheck disable=SC2086 # compiler flags and libraries
	"$compiler" $flags -o "$output" "$@" "$folder/codec.a" $libraries
}

corpus_files() { # FIND CONDITIONS...
	find "$corpus" -type f ! -name INDEX.tsv "$@"
}

mkdir -p "$build/found" "$build/grown" "$build/seeds"
checked="-fsanitize=address,undefined -fno-sanitize-recover=all"
# shellcheck disable=SC2086 # compiler flags
archive "${CC:-cc}" checked $checked &&
	program "${CC:-cc}" checked test_codec_layout tests/unit/test_codec_layout.c $checked &&
	program "${CC:-cc}" checked test_codec_corpus tests/unit/test_codec_corpus.c $checked &&
	program "${CC:-cc}" checked replay tests/fuzz/fuzz_layout.c tests/fuzz/replay.c $checked
tell $? "builds with sanitizers"

KV_SEEDS="$build/seeds" "$build/test_codec_layout" || failed=1
KV_CORPUS="$corpus" "$build/test_codec_corpus" || failed=1
if [ -d "$corpus" ]; then
	corpus_files -print0 | xargs -0 "$build/replay" >/dev/null
	tell $? "every corpus file through the fuzz target"
	corpus_files -size -40k -exec cp {} "$build/seeds" \;
fi
if command -v clang >/dev/null; then
	# shellcheck disable=SC2086 # compiler flags
	archive clang fuzzed -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all &&
		program clang fuzzed fuzz_layout tests/fuzz/fuzz_layout.c \
			-fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all &&
		nice "$build/fuzz_layout" -max_len=50000 -max_total_time="$seconds" -rss_limit_mb=1024 \
			-malloc_limit_mb=64 -timeout=10 -print_final_stats=1 -artifact_prefix="$build/found/" \
			"$build/grown" "$build/seeds" >"$build/fuzz.log" 2>&1
	tell $? "fuzzed for $seconds s, $(sed -n 's/^stat::number_of_executed_units: *//p' "$build/fuzz.log") runs"
else
	echo "ok codec: fuzzing # skip clang is not installed"
fi
exit $failed
