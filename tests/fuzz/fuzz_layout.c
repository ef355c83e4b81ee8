/* SPDX-License-Identifier: GPL-2.0-or-later */
/* fuzz_layout.c - any bytes at all: no crash, and a layout that covers them.
 *
 * For clang's libFuzzer (-fsanitize=fuzzer), or with replay.c for a run over files. The last two bytes choose
 * where blocks are cut; the file is what is before them. */
#include "test_codec.h"

#include "codec/tokens.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(bool truth, const char *what)
{
	if (truth)
		return;
	fprintf(stderr, "%s\n", what);
	abort();
}

static void check_tokens(const struct layout *l)
{
	uint8_t hash[DIGEST_LEN];

	demand(!l->tokens_exact || l->tokens || !l->n_tokens, "exact tokens are not there");
	if (l->tokens)
		demand(tokens_hash(l->tokens, l->n_tokens, hash) == 0, "token hash failed");
	for (size_t i = 0; i < l->n_boundaries; i++)
		demand(l->boundaries[i] <= l->n_tokens && (!i || l->boundaries[i - 1] < l->boundaries[i]),
		       "boundaries do not ascend");
}

static void check_names(const struct layout *l)
{
	char name[LAYOUT_NAME_MAX];

	for (size_t i = 0; i < l->n_tensors; i++)
		demand(strlen(layout_name(l, &l->tensors[i], name, sizeof(name))) > 0,
		       "a tensor has no name");
	demand((l->text[0] != 0) == (l->state == LAYOUT_COMPLETE), "text and state disagree");
	demand(!strchr(l->text, '\n'), "the text is not one line");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct file f = {.bytes = malloc(size + 1), .len = size, .cap = size + 1};
	uint64_t cuts[2] = {0, 0};
	struct layout *l;

	if (size)
		memcpy(f.bytes, data, size);
	if (size > 2) {
		cuts[0] = data[size - 1];
		cuts[1] = cuts[0] + data[size - 2];
	}
	l = file_layout(&f);
	demand(l != NULL, "memory is short, or reading failed");
	demand(tensors_tile(l), "tensors do not tile the file");
	demand(blocks_cover(l, NULL, 0), "blocks do not cover the file");
	demand(blocks_cover(l, cuts, 2), "blocks with cuts do not cover the file");
	check_tokens(l);
	check_names(l);
	layout_free(l);
	file_free(&f);
	return 0;
}
