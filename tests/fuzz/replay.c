/* SPDX-License-Identifier: GPL-2.0-or-later */
/* replay.c - feeds files to a fuzz target, for compilers without libFuzzer and for findings kept. */
#include "test_codec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		struct file f;

		if (!file_load(&f, argv[i])) {
			fprintf(stderr, "%s: cannot be read\n", argv[i]);
			return EXIT_FAILURE;
		}
		LLVMFuzzerTestOneInput(f.bytes, f.len);
		file_free(&f);
	}
	printf("%d files replayed\n", argc - 1);
	return EXIT_SUCCESS;
}
