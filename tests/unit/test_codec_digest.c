/* SPDX-License-Identifier: GPL-2.0-or-later */
/* test_codec_digest.c - SHA-256 against the published vectors (FIPS 180-4), however the bytes arrive. */
#include <stdbool.h>

#include "codec/digest.h"
#include "unit.h"

struct vector {
	const char *text;
	const char *hex;
};

static const struct vector vectors[] = {
	{"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
	{"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
	{"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
	 "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
};

#define MILLION_A "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"

/* Hashes len bytes in pieces of at most `piece`, and writes the hex form. False when a call failed. */
static bool hash(const char *bytes, size_t len, size_t piece, char hex[DIGEST_HEX_LEN + 1])
{
	uint8_t digest[DIGEST_LEN];
	struct digest *d = digest_new();
	bool good = d != NULL;
	size_t at = 0;

	while (good && at < len) {
		size_t now = len - at < piece ? len - at : piece;

		good = digest_add(d, bytes + at, now) == 0;
		at += now;
	}
	good = good && digest_end(d, digest) == 0;
	digest_free(d);
	if (good)
		digest_hex(digest, hex);
	return good;
}

static void published_vectors(void)
{
	char hex[DIGEST_HEX_LEN + 1] = "";

	for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
		CHECK(hash(vectors[i].text, strlen(vectors[i].text), SIZE_MAX, hex));
		CHECK_STR(hex, vectors[i].hex);
	}
}

static void pieces_do_not_matter(void)
{
	static const size_t pieces[] = {1, 63, 64, 65, 4096, 999999, SIZE_MAX};
	size_t len = 1000000;
	char *bytes = malloc(len);
	char hex[DIGEST_HEX_LEN + 1] = "";

	CHECK(bytes != NULL);
	if (!bytes)
		return;
	memset(bytes, 'a', len);
	for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
		CHECK(hash(bytes, len, pieces[i], hex));
		CHECK_STR(hex, MILLION_A);
	}
	free(bytes);
}

static void two_hashes_at_once(void)
{
	struct digest *one = digest_new(), *other = digest_new();
	uint8_t digest[DIGEST_LEN];
	char hex[DIGEST_HEX_LEN + 1];

	CHECK(one != NULL);
	CHECK(other != NULL);
	CHECK_INT(digest_add(one, "a", 1), 0);
	CHECK_INT(digest_add(other, "x", 1), 0);
	CHECK_INT(digest_add(one, "bc", 2), 0);
	CHECK_INT(digest_end(one, digest), 0);
	digest_hex(digest, hex);
	CHECK_STR(hex, vectors[1].hex);
	digest_free(one);
	digest_free(other);
}

static void adding_nothing(void)
{
	struct digest *d = digest_new();
	uint8_t digest[DIGEST_LEN];
	char hex[DIGEST_HEX_LEN + 1];

	CHECK_INT(digest_add(d, NULL, 0), 0);
	CHECK_INT(digest_end(d, digest), 0);
	digest_hex(digest, hex);
	CHECK_STR(hex, vectors[0].hex);
	digest_free(d);
	digest_free(NULL);
}

static void hex_is_lower_case_and_ended(void)
{
	uint8_t digest[DIGEST_LEN];
	char hex[DIGEST_HEX_LEN + 1];

	for (size_t i = 0; i < DIGEST_LEN; i++)
		digest[i] = (uint8_t)(0xe0 + i);
	memset(hex, '!', sizeof(hex));
	digest_hex(digest, hex);
	CHECK_STR(hex, "e0e1e2e3e4e5e6e7e8e9eaebecedeeeff0f1f2f3f4f5f6f7f8f9fafbfcfdfeff");
	CHECK_INT(hex[DIGEST_HEX_LEN], 0);
}

int main(void)
{
	RUN("SHA-256 of the published texts", published_vectors);
	RUN("a million bytes hash alike in pieces of any size", pieces_do_not_matter);
	RUN("two running hashes do not touch each other", two_hashes_at_once);
	RUN("adding nothing leaves the hash of nothing", adding_nothing);
	RUN("hex is lower case, 64 digits and a closing NUL", hex_is_lower_case_and_ended);
	UNIT_END();
}
