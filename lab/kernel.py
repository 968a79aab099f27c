# SPDX-License-Identifier: BSD-2-Clause
"""Debian's cloud kernel as the lab uses it: unpacked from its package, never installed on this machine."""
import glob
import os
import subprocess

from lab import cache
from lab.paths import DEBS, need


def find_release(label="stable"):
    """The release that scripts/setup fetched, e.g. 6.1.0-40-cloud-amd64."""
    path = need(os.path.join(DEBS, f"kernel-{label}"), "run scripts/setup")
    with open(path, encoding="utf-8") as text:
        return text.read().strip()


class Kernel:
    """An unpacked kernel package: the bzImage, and modules with what each of them needs."""

    def __init__(self, tell=None, label="stable"):
        self.label = label
        self.release = find_release(label)
        debs = glob.glob(os.path.join(DEBS, f"linux-image-{self.release}_*.deb"))
        self.deb = need(max(debs, default=os.path.join(DEBS, self.release)), "run scripts/setup")
        self.tree = cache.get("kernel", "", [os.path.basename(self.deb)], self._unpack, tell)
        self.image = os.path.join(self.tree, "boot", f"vmlinuz-{self.release}")
        self.modules = os.path.join(self.tree, "lib/modules", self.release)
        self.needs = self._read_needs()

    def _unpack(self, path):
        subprocess.run(["dpkg-deb", "-x", self.deb, path], check=True)
        # Newer packages have their modules compressed, which busybox's insmod does not read.
        subprocess.run(["find", path, "-name", "*.ko.xz", "-exec", "xz", "-d", "{}", "+"], check=True)
        subprocess.run(["/sbin/depmod", "-b", path, self.release], check=True)

    def _read_needs(self):
        """Module file, to the files that have to be loaded before it, from modules.dep."""
        needs = {}
        with open(os.path.join(self.modules, "modules.dep"), encoding="utf-8") as text:
            for line in text:
                name, rest = line.split(":")
                needs[name] = rest.split()
        return needs

    def find_module(self, name):
        """The file of a module, or None when it is built in."""
        wanted = name.replace("-", "_") + ".ko"
        return next((f for f in self.needs if os.path.basename(f).replace("-", "_") == wanted), None)

    def order_modules(self, names):
        """Files of these modules and of all that they need, each after those it needs."""
        order = []
        for name in names:
            file = self.find_module(name)
            # modules.dep gives the closure, the innermost last.
            for module in [*reversed(self.needs[file]), file] if file else []:
                if module not in order:
                    order.append(module)
        return order
