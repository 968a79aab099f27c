/* SPDX-License-Identifier: BSD-2-Clause */
/* keel-blk: the block engine as a vhost-user-blk device, for QEMU and any other front end. */
#include "blkd/daemon.h"
#include "blkd/sandbox.h"

int main(int argc, char **argv)
{
	return daemon_main(argc, argv, sandbox_enter);
}
