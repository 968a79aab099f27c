/* SPDX-License-Identifier: BSD-2-Clause */
/* keel-blk as a function, so that tests can run it in a process of theirs. */
#pragma once

/* Serves until a signal ends it. on_ready is called when disk and socket are open. The exit code.
 */
int daemon_main(int argc, char **argv, void (*on_ready)(void));
