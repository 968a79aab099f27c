# SPDX-License-Identifier: BSD-2-Clause
"""Builds the small initial RAM disks: root's, with keelOS's programs in it, and the guests'."""
import os
import re
import subprocess

from lab import cache
from lab.cpio import Archive
from lab.paths import BUILD, FILES, need

BUSYBOX = "/bin/busybox"
BASE_MODULES = ["virtio_pci", "virtio_blk", "virtio_net", "ext4"]
ROOT_MODULES = BASE_MODULES + ["virtio_console", "nvme", "tun", "bridge", "vhost_net", "e1000"]
# button and evdev: else a guest does not hear its power button.
GUEST_MODULES = BASE_MODULES + ["virtio_rng", "virtio_console", "button", "evdev"]
PROGRAMS = ["keelvm", "keel", "keeld", "keel-switch", "keel-blk"]


def find_programs():
    """What of keelOS's programs is built, as paths."""
    paths = [os.path.join(BUILD, "bin", p) for p in PROGRAMS]
    return [p for p in paths if os.path.exists(p)]


def find_libraries(program):
    """The shared libraries that a program needs, and its loader, as paths on this machine."""
    out = subprocess.run(["ldd", program], check=True, stdout=subprocess.PIPE).stdout.decode()
    return re.findall(r"(?:=>\s+|^\s+)(/\S+) \(0x", out, re.M)


def strip(program):
    """A program's bytes without its debug information."""
    temp = f"{program}.stripped.{os.getpid()}"
    try:
        subprocess.run(["objcopy", "--strip-debug", program, temp], check=True)
        with open(temp, "rb") as file:
            return file.read()
    finally:
        cache.remove(temp)


def add_base(archive):
    """Busybox with a link for each of its commands, and the folders that every Linux has."""
    names = subprocess.run([need(BUSYBOX, "run scripts/setup"), "--list-full"], check=True, stdout=subprocess.PIPE).stdout
    for name in names.decode().split():
        archive.add_link(name if "/" in name else f"bin/{name}", "/bin/busybox")
    archive.add_file("bin/busybox", BUSYBOX, 0o755)  # its own name is in its list too
    for folder in ("proc", "sys", "dev", "run", "tmp", "mnt", "root", "etc", "var"):
        archive.add_folder(folder)
    archive.add_device("dev/console", 5, 1)
    archive.add_data("etc/passwd", b"root::0:0:root:/root:/bin/sh\n")
    archive.add_data("etc/group", b"root:x:0:\n")


def add_modules(archive, kernel, names, extra=()):
    """Modules with a modules.dep of their own, and the order in which /init loads the named ones.

    extra: pairs of a name and the file of a module that is ours.
    """
    order = kernel.order_modules(names)
    base = f"lib/modules/{kernel.release}"
    lines = []
    for file in order:
        archive.add_file(f"{base}/{file}", os.path.join(kernel.modules, file))
        lines.append(f"{file}: {' '.join(kernel.needs[file])}".strip())
    for name, path in extra:
        archive.add_file(f"{base}/extra/{name}", path, 0o644)
        lines.append(f"extra/{name}:")
    archive.add_data(f"{base}/modules.dep", ("\n".join(lines) + "\n").encode())
    load = "".join(f"/{base}/{file}\n" for file in order)
    archive.add_data("etc/modules.order", load.encode())


def list_files(folder):
    return sorted(os.path.join(FILES, folder, n) for n in os.listdir(os.path.join(FILES, folder)))


def build_root(kernel, tell=None):
    """Root's initramfs. Its inputs: the kernel, the programs, keel.ko, lab/files/root."""
    programs = find_programs()
    built = "keel.ko" if kernel.label == "stable" else f"keel-{kernel.label}.ko"
    module = os.path.join(BUILD, "kmod", built)
    extra = [("keel.ko", module)] if os.path.exists(module) else []
    files = list_files("root")

    def build(path):
        archive = Archive()
        add_base(archive)
        add_modules(archive, kernel, ROOT_MODULES, extra)
        for program in programs:
            archive.add_data(f"usr/bin/{os.path.basename(program)}", strip(program), 0o755)
            for library in find_libraries(program):
                archive.add_file(library, os.path.realpath(library), 0o755)
        add_files(archive, files)
        archive.write(path)

    inputs = [kernel.deb, " ".join(ROOT_MODULES), ("file", __file__), ("file", BUSYBOX)]
    inputs += [("file", f) for f in [*programs, *(path for _, path in extra), *files]]
    return cache.get("root-initramfs", ".cpio", inputs, build, tell)


def build_guest(kernel, tell=None, more=()):
    """The guests' initramfs: goes on to root= if given, else runs keel.run= or leaves a shell. more: modules."""
    modules = [*GUEST_MODULES, *more]
    files = list_files("guest")

    def build(path):
        archive = Archive()
        add_base(archive)
        add_modules(archive, kernel, modules)
        add_files(archive, files)
        archive.write(path)

    inputs = [kernel.deb, " ".join(modules), ("file", __file__), ("file", BUSYBOX)]
    inputs += [("file", f) for f in files]
    return cache.get("guest-initramfs", ".cpio", inputs, build, tell)


def add_files(archive, files):
    """lab/files/X/init and the like: where each goes is its name, with _ for a slash."""
    for path in files:
        name = os.path.basename(path).replace("_", "/")
        archive.add_file(name, path)
