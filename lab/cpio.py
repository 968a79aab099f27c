# SPDX-License-Identifier: BSD-2-Clause
"""Writes a Linux initramfs (cpio, format newc) without root's rights and without temporary trees."""
import os
import stat


class Archive:
    """Entries by path; folders above a path come by themselves. Later entries replace earlier ones."""

    def __init__(self):
        self.entries = {}

    def add_folder(self, path, mode=0o755):
        self._add_parents(path)
        self.entries[path.strip("/")] = (stat.S_IFDIR | mode, b"", 0)

    def add_data(self, path, data, mode=0o644):
        self._add_parents(path)
        self.entries[path.strip("/")] = (stat.S_IFREG | mode, data, 0)

    def add_file(self, path, source, mode=None):
        with open(source, "rb") as file:
            data = file.read()
        self.add_data(path, data, mode or stat.S_IMODE(os.stat(source).st_mode))

    def add_link(self, path, target):
        self._add_parents(path)
        self.entries[path.strip("/")] = (stat.S_IFLNK | 0o777, target.encode(), 0)

    def add_device(self, path, major, minor, mode=0o600):
        """A character device."""
        self._add_parents(path)
        self.entries[path.strip("/")] = (stat.S_IFCHR | mode, b"", (major, minor))

    def _add_parents(self, path):
        parts = path.strip("/").split("/")[:-1]
        for i in range(1, len(parts) + 1):
            parent = "/".join(parts[:i])
            self.entries.setdefault(parent, (stat.S_IFDIR | 0o755, b"", 0))

    def write(self, path):
        with open(path, "wb") as out:
            # A folder must come before what is in it.
            for number, name in enumerate(sorted(self.entries), 1):
                mode, data, device = self.entries[name]
                write_entry(out, name, number, mode, data, device or (0, 0))
            write_entry(out, "TRAILER!!!", 0, 0, b"", (0, 0))


def write_entry(out, name, inode, mode, data, device):
    """One header of 13 numbers of 8 hex digits (Documentation/driver-api/early-userspace)."""
    links = 2 if stat.S_ISDIR(mode) else 1
    raw = name.encode() + b"\0"
    fields = (inode, mode, 0, 0, links, 0, len(data), 0, 0, *device, len(raw), 0)
    header = b"070701" + b"".join(b"%08x" % f for f in fields)
    pad(out, header + raw)
    pad(out, data)


def pad(out, data):
    out.write(data + b"\0" * (-len(data) % 4))
