/* SPDX-License-Identifier: BSD-2-Clause */
/* Files that the daemon keeps: written under another name first, then put in place by one call. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "keeld/keeld.h"

static int write_all(int fd, const char *text, size_t bytes)
{
	while (bytes > 0) {
		ssize_t done = write(fd, text, bytes);

		if (done < 0 && errno != EINTR)
			return -errno;
		if (done > 0) {
			text += done;
			bytes -= (size_t)done;
		}
	}
	return fsync(fd) == 0 ? 0 : -errno;
}

int record_write_file(const char *path, const char *text, size_t bytes, bool replace)
{
	char temp[KEELD_PATH_BYTES + 16];
	int fd, rc;

	/* Only one daemon writes here (its lock), so a leftover is its predecessor's. */
	snprintf(temp, sizeof(temp), "%s.new", path);
	fd = open(temp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	rc = write_all(fd, text, bytes);
	close(fd);
	if (rc == 0 && replace)
		rc = rename(temp, path) == 0 ? 0 : -errno;
	else if (rc == 0)
		rc = link(temp, path) == 0 ? 0 : -errno;
	unlink(temp);
	return rc;
}

int record_make(const struct settings *settings, const char *name, const char *text, size_t bytes)
{
	char path[KEELD_PATH_BYTES];

	if (!settings_path(path, settings->state, name, ".making"))
		return -ENAMETOOLONG;
	return record_write_file(path, text, bytes, true);
}

int record_commit(const struct settings *settings, const char *name)
{
	char from[KEELD_PATH_BYTES], to[KEELD_PATH_BYTES];

	if (!settings_path(from, settings->state, name, ".making") ||
	        !settings_path(to, settings->state, name, ".conf"))
		return -ENAMETOOLONG;
	return rename(from, to) == 0 ? 0 : -errno;
}

void record_remove(const struct settings *settings, const char *name)
{
	char path[KEELD_PATH_BYTES];

	if (settings_path(path, settings->state, name, ".conf"))
		unlink(path);
	if (settings_path(path, settings->state, name, ".making"))
		unlink(path);
}

bool record_is_making(const struct settings *settings, const char *name)
{
	char path[KEELD_PATH_BYTES];

	return settings_path(path, settings->state, name, ".making") && access(path, F_OK) == 0;
}

bool record_load(const struct settings *settings, const char *name, struct vmfile *out)
{
	static struct vmfile_error ignored;
	char path[KEELD_PATH_BYTES];

	return (settings_path(path, settings->state, name, ".conf") &&
	               vmfile_load(path, out, &ignored)) ||
	       (settings_path(path, settings->state, name, ".making") &&
	               vmfile_load(path, out, &ignored));
}
