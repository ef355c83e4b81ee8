/* SPDX-License-Identifier: GPL-2.0-or-later */
/* test_bank_content.c - plain files and overlays against a model in memory.
 *
 * Random writes, truncates and growths on an overlay of an overlay of a plain file; after each step the
 * bytes are compared with the model and the charge with what the file holds. Then the overlays are
 * absorbed a little at a time, comparing again, until the first file has all. The seed is printed. */
#include "bank/content.h"

#include <time.h>

#include "unit.h"

enum { MODEL_BYTES = 400 * 1000, STEPS = 400 };

static unsigned char model[MODEL_BYTES], seen[MODEL_BYTES];
static size_t model_size;
static uint64_t charged; /* of the content being changed, as room.c does it: before growing, after shrinking */
static struct ram *ram;
static unsigned seed;

static size_t random_below(size_t limit)
{
	return (size_t)rand_r(&seed) % limit;
}

static struct content *new_content(struct content *base)
{
	struct ram_file *file;

	if (ram_file_new(ram, &file))
		return NULL;
	return content_new(file, base);
}

static void check_bytes(struct content *c)
{
	ssize_t n = content_read(c, seen, sizeof(seen), 0);
	size_t off = random_below(model_size + 1), len = random_below(9000) + 1;

	CHECK_INT(n, model_size);
	CHECK(!memcmp(seen, model, model_size));
	n = content_read(c, seen, len, off);
	CHECK_INT(n, len < model_size - off ? len : model_size - off);
	CHECK(!memcmp(seen, model + off, (size_t)n));
}

static void write_something(struct content *c)
{
	size_t off = random_below(MODEL_BYTES - 70000), len = random_below(random_below(4) ? 300 : 70000) + 1;
	unsigned char byte = (unsigned char)random_below(256);
	uint64_t charge = content_charge(c, off, len);

	if (off > model_size)
		memset(model + model_size, 0, off - model_size);
	for (size_t i = 0; i < len; i++)
		model[off + i] = (unsigned char)(byte + i);
	if (off + len > model_size)
		model_size = off + len;
	CHECK_INT(content_write(c, model + off, len, off), 0);
	CHECK_INT(content_charge(c, 0, 0), charge);
	charged = charge > charged ? charge : charged;
	CHECK(ram_file_held(c->file) <= charged);
}

static void resize(struct content *c)
{
	size_t size = random_below(MODEL_BYTES);

	if (size > model_size)
		memset(model + model_size, 0, size - model_size);
	model_size = size;
	if (content_charge_size(c, size, 0) > charged)
		charged = content_charge_size(c, size, 0);
	CHECK_INT(content_truncate(c, size), 0);
	CHECK(ram_file_held(c->file) <= charged);
	charged = content_holds(c);
}

static void change(struct content *c, unsigned steps)
{
	charged = 0;
	while (steps--) {
		if (random_below(8))
			write_something(c);
		else
			resize(c);
		check_bytes(c);
	}
}

static void absorb_all(struct content *c)
{
	int ret;

	do {
		ret = content_absorb(c, 8192);
		CHECK(ret >= 0);
		check_bytes(c);
	} while (ret > 0);
	check_bytes(c->base);
}

static void give_back(struct content *c)
{
	ram_file_discard(c->file);
	free(c->file);
	content_free(c);
}

static void overlays_read_as_written(void)
{
	struct content *plain = new_content(NULL), *over, *top;

	model_size = 0;
	change(plain, STEPS / 4);
	CHECK_INT(content_finish(plain), 0);
	CHECK(ram_file_held(plain->file) >= content_charge(plain, 0, 0));
	over = new_content(plain);
	change(over, STEPS);
	content_finish(over);
	top = new_content(over);
	change(top, STEPS);
	content_finish(top);
	absorb_all(top);
	absorb_all(over);
	CHECK_INT(content_finish(plain), 0);
	check_bytes(plain);
	CHECK(ram_file_held(plain->file) >= content_charge(plain, 0, 0));
	give_back(top);
	give_back(over);
	give_back(plain);
}

static void appending_costs_what_is_appended(void)
{
	static char mebibyte[1 << 20];
	struct content *plain = new_content(NULL), *over;

	for (unsigned i = 0; i < 16; i++)
		CHECK_INT(content_write(plain, mebibyte, sizeof(mebibyte), (uint64_t)i * sizeof(mebibyte)), 0);
	over = new_content(plain);
	CHECK_INT(content_write(over, mebibyte, sizeof(mebibyte), 16 * sizeof(mebibyte)), 0);
	CHECK_INT(content_charge(over, 0, 0), sizeof(mebibyte));
	CHECK_INT(content_write(over, "x", 1, 5), 0);
	CHECK_INT(content_charge(over, 0, 0), sizeof(mebibyte) + CONTENT_BLOCK);
	give_back(over);
	give_back(plain);
}

static void run_on(bool memfd)
{
	ram = NULL;
	CHECK_INT(ram_open(64 << 20, memfd, &ram), 0);
	appending_costs_what_is_appended();
	overlays_read_as_written();
	ram_close(ram);
}

static void in_memfds(void)
{
	run_on(true);
}

static void in_a_tmpfs(void)
{
	run_on(false);
}

int main(void)
{
	const char *given = getenv("SEED");

	seed = given ? (unsigned)atoi(given) : (unsigned)time(NULL);
	printf("# SEED=%u\n", seed);
	RUN("overlays read as written and cost what was touched, in memfds", in_memfds);
	RUN("the same in a private tmpfs (memfds again where it is not allowed)", in_a_tmpfs);
	UNIT_END();
}
