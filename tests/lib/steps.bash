# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# steps.bash - scripts for build/programs/steps (see its head): A writes, B looks.

steps() { # [OPTIONS] < SCRIPT: in a fresh mount
  kv_mount "${1:-}"
  script
  kv_umount
}

# A mount that hangs must not hang bats: nothing here holds its descriptors, everything has its time.
script() { # < SCRIPT: in this mount
  "$KV_PROGRAMS/steps" "$M" 3>&- 4>&-
}

program() { # NAME ARGUMENTS...: with its output
  local name="$1" status=0
  shift
  timeout -k 5 "${KV_PROGRAM_SECONDS:-150}" "$KV_PROGRAMS/$name" "$@" >"$BATS_TEST_TMPDIR/$name.out" 2>&1 3>&- 4>&- ||
    status=$?
  cat "$BATS_TEST_TMPDIR/$name.out"
  return $status
}
