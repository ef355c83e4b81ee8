# kvbankfs: builds build/kvbankfs. `make help` lists the targets.
# Sanitizer builds live in folders of their own: make SAN=address,undefined  /  make SAN=thread

VERSION := 0.1
PREFIX ?= /usr/local
DESTDIR ?=
SBIN_DIR ?= $(PREFIX)/sbin
BIN_DIR ?= $(PREFIX)/bin
MAN_DIR ?= $(PREFIX)/share/man
comma := ,
SAN ?=
BUILD ?= build$(if $(SAN),/san-$(subst $(comma),-,$(SAN)))

CFLAGS ?= -O2 -g
ifeq ($(SAN),)
HARDEN := -D_FORTIFY_SOURCE=2 -fstack-protector-strong -fPIE
LINK_HARDEN := -pie -Wl,-z,relro,-z,now
else
HARDEN := -O1 -g -fno-omit-frame-pointer -fsanitize=$(SAN) -fno-sanitize-recover=all
LINK_HARDEN := -fsanitize=$(SAN)
endif
WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wwrite-strings -Wvla -Wundef -Wformat=2 \
	$(if $(CI),-Werror)
FUSE_CFLAGS := $(shell pkg-config --cflags fuse3 2>/dev/null | sed 's/-I/-isystem /g')
FUSE_LIBS := $(shell pkg-config --libs fuse3 2>/dev/null)
# --as-needed: parsers that nothing calls yet bring no library along
CODEC_LIBS := -Wl,--as-needed $(shell pkg-config --libs libcrypto libcjson liblz4 libxxhash 2>/dev/null)
override CFLAGS += -std=gnu11 -D_GNU_SOURCE -DKVBANK_VERSION='"$(VERSION)"' -I. $(WARN) $(HARDEN) -pthread
override LDFLAGS += $(LINK_HARDEN) -pthread

CODEC_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(wildcard codec/*.c))
BANK_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(wildcard bank/*.c))
FS_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(wildcard fs/*.c))
UNIT := $(patsubst tests/unit/%.c,$(BUILD)/tests/%,$(wildcard tests/unit/*.c))
PROGRAMS := $(patsubst tests/programs/%.c,$(BUILD)/programs/%,$(wildcard tests/programs/*.c))

.PHONY: all deps check check-unit check-layers check-headers lint test-programs bench clients install uninstall clean help
.DELETE_ON_ERROR:
.SECONDARY:

all: $(BUILD)/kvbankfs ## builds the daemon

$(BUILD)/kvbankfs: $(FS_OBJ) $(BUILD)/libbank.a $(BUILD)/libcodec.a
	$(CC) $(LDFLAGS) -o $@ $^ $(FUSE_LIBS) $(CODEC_LIBS)

$(BUILD)/libbank.a: $(BANK_OBJ)
	rm -f $@ && $(AR) rcs $@ $^
$(BUILD)/libcodec.a: $(CODEC_OBJ)
	rm -f $@ && $(AR) rcs $@ $^

$(BUILD)/fs/%.o: fs/%.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(FUSE_CFLAGS) -MMD -MP -c -o $@ $<
$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -MMD -MP -c -o $@ $<

# A unit test sees one layer: test_fs_* may link the fs modules without main, all others bank and codec only.
$(BUILD)/tests/test_fs_%: tests/unit/test_fs_%.c $(filter-out $(BUILD)/fs/main.o,$(FS_OBJ)) $(BUILD)/libbank.a $(BUILD)/libcodec.a
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(FUSE_CFLAGS) -Itests/unit $(LDFLAGS) -o $@ $^ $(FUSE_LIBS) $(CODEC_LIBS)
$(BUILD)/tests/test_codec_%: tests/unit/test_codec_%.c $(BUILD)/libcodec.a
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -Itests/unit $(LDFLAGS) -o $@ $^ $(CODEC_LIBS)
$(BUILD)/tests/%: tests/unit/%.c $(BUILD)/libbank.a $(BUILD)/libcodec.a
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -Itests/unit $(LDFLAGS) -o $@ $^ $(CODEC_LIBS)

# Small clients that the mount tests run.
$(BUILD)/programs/%: tests/programs/%.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $<
test-programs: $(PROGRAMS) ## builds the small clients of the mount tests

deps: ## installs the Debian packages that building needs (root or sudo)
	sh tests/lib/deps.sh build

check-unit: $(UNIT) ## unit tests
	sh tests/lib/run-unit.sh $(UNIT)

check-layers: ## nothing includes upward: fs -> bank -> codec
	sh tests/lib/check-layers.sh

check: all check-unit check-layers test-programs ## the fast tests, with a mount where FUSE is there
	BUILD=$(BUILD) sh tests/lib/check.sh

bench: all test-programs ## speeds as ratios to tmpfs, in one run
	BUILD=$(BUILD) sh tests/bench.sh

clients: ## the real clients in a virtual environment under build/
	sh tests/lib/clients.sh

lint: ## format, headers, man pages, shell scripts
	sh tests/lib/lint.sh

install: all ## PREFIX=, DESTDIR=
	install -D -m 755 $(BUILD)/kvbankfs $(DESTDIR)$(BIN_DIR)/kvbankfs
	install -D -m 644 man/kvbankfs.1 $(DESTDIR)$(MAN_DIR)/man1/kvbankfs.1
	install -D -m 644 examples/kvbankfs@.service $(DESTDIR)$(PREFIX)/lib/systemd/system/kvbankfs@.service
	mkdir -p $(DESTDIR)$(SBIN_DIR) && ln -sf ../bin/kvbankfs $(DESTDIR)$(SBIN_DIR)/mount.fuse.kvbankfs

uninstall: ## takes away what install put
	rm -f $(DESTDIR)$(BIN_DIR)/kvbankfs $(DESTDIR)$(MAN_DIR)/man1/kvbankfs.1 \
		$(DESTDIR)$(PREFIX)/lib/systemd/system/kvbankfs@.service $(DESTDIR)$(SBIN_DIR)/mount.fuse.kvbankfs

clean: ## removes build/
	rm -rf build

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' Makefile | expand -t 18

-include $(wildcard $(BUILD)/*/*.d)
