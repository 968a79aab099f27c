/* SPDX-License-Identifier: BSD-2-Clause */
/* Where keel, keeld and keelvm meet in root's file system, and what the programs end with. */
#pragma once

#define PATHS_DEFINITIONS "/etc/keel/vm"     /* NAME.conf: every VM that can be started */
#define PATHS_RUN         "/run/keel"        /* keeld.sock, keeld.lock */
#define PATHS_RUN_VM      "/run/keel/vm"     /* NAME.sock: keelvm's control socket */
#define PATHS_STATE       "/var/lib/keel/vm" /* NAME.conf: what a VM that is there was made of */
#define PATHS_LOG         "/var/log/keel"    /* NAME.log: keelvm's log */
#define PATHS_SOCKET      PATHS_RUN "/keeld.sock"
#define PATHS_KEELVM      "/usr/bin/keelvm"
#define PATHS_MACHINE_ID  "/etc/machine-id"

/* What every program of keelOS ends with. */
#define EXIT_OK      0
#define EXIT_REFUSED 1 /* could not be done; one line on standard error says why */
#define EXIT_USAGE   2
#define EXIT_NO_HYP  3 /* not under hyp, or keeld does not run */
