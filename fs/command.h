/* SPDX-License-Identifier: GPL-2.0-or-later */
/* command.h - the commands that .kvbank/control takes, one line each. */
#ifndef KV_FS_COMMAND_H
#define KV_FS_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

struct bank;
struct text;

/* Adds what may be written, for somebody who reads before writing. */
void command_usage(struct text *out);
/* Whether running this request may wait for other threads or walk the whole bank. */
bool command_waits(const char *request, size_t len);
/* Runs a request ("COMMAND [ARGUMENT]", a closing newline is ignored) and adds one line to `answer`:
 * "ok ..." with key=value words, or "error ..." with what was expected. May wait; from any thread. */
void command_run(struct bank *bank, const char *request, size_t len, struct text *answer);

#endif
