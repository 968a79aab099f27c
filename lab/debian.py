# SPDX-License-Identifier: BSD-2-Clause
"""Builds Debian as users have it: root's system on a disk image, and the guests' disk images.

mmdebstrap makes the tree from Debian's packages, fakeroot and mke2fs the image from the tree: no
loop device, no mount, no rights of root. What changes often (keelOS's programs) is written into a
copy of the image by debugfs, which takes a second where the tree takes a minute.
"""
import glob
import hashlib
import os
import shlex
import shutil
import subprocess
import tempfile

from lab import cache
from lab.initramfs import find_libraries, find_programs, list_files, strip
from lab.paths import BUILD, TOP, LabError

SUITE = "bookworm"
COMMON = ["systemd-sysv", "udev", "kmod", "iproute2", "iputils-ping", "procps", "login", "passwd"]
ROOT_PACKAGES = COMMON + ["initramfs-tools", "zstd", "dbus", "e2fsprogs", "liburing2",
                          "libcjson1", "libseccomp2", "less", "ethtool"]
GUEST_PACKAGES = COMMON + ["dbus"]  # for the power button, by systemd-logind
LOADS = sorted(glob.glob(os.path.join(TOP, "lab/guest/*.[ch]")))
ROOT_MIB = 2048
GUEST_MIB = 768
CHECKED_FILE_MIB = 24
UNITS = ["keeld.service", "keel-guests.service"]
# Documentation and translations are most of a small Debian; dpkg leaves them out.
SLIM = ["path-exclude=/usr/share/man/*", "path-exclude=/usr/share/doc/*",
        "path-exclude=/usr/share/locale/*", "path-include=/usr/share/locale/locale.alias"]


def run(command, what, **more):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, **more)
    if done.returncode != 0:
        tail = done.stdout.decode(errors="replace").strip().splitlines()[-15:]
        raise LabError(f"{what} failed:\n" + "\n".join(tail))
    return done.stdout.decode(errors="replace")


def build_tar(name, packages, folders, tell, suite=SUITE, sources=()):
    """A tar of a Debian tree with these packages and with lab/files' folders laid over it.

    sources: apt's lines, where the suite's own do not have all of it.
    """
    files = [f for folder in folders for f in list_files(folder)]

    def build(path):
        command = ["mmdebstrap", "--variant=minbase", "--format=tar", "--quiet",
                   f"--include={','.join(packages)}"]
        command += [f"--dpkgopt={option}" for option in SLIM]
        with tempfile.TemporaryDirectory(prefix="keel-debian-") as overlay:
            for file in files:
                # lab/files/X/etc_fstab goes to /etc/fstab
                place = os.path.join(overlay, os.path.basename(file).replace("_", "/"))
                os.makedirs(os.path.dirname(place), exist_ok=True)
                shutil.copy(file, place)
            command += [f"--customize-hook=sync-in {overlay} /",
                        '--customize-hook=chroot "$1" sh /setup.sh',
                        '--customize-hook=rm "$1/setup.sh"', suite, path, *sources]
            os.chmod(overlay, 0o755)
            run(command, f"building {name} with mmdebstrap")

    inputs = [" ".join(packages), suite, *sources, *SLIM] + [("file", f) for f in files]
    return cache.get(name, ".tar", inputs, build, tell)


def make_ext4(path, size_mib, tree_script, label):
    """An ext4 image of what tree_script leaves in the folder $tree; the script runs as fake root."""
    with tempfile.TemporaryDirectory(prefix="keel-tree-") as tree:
        with open(path, "wb") as image:
            image.truncate(size_mib << 20)
        script = (f"set -e; tree={shlex.quote(tree)}; {tree_script}\n"
                  f"/sbin/mke2fs -q -t ext4 -L {label} -m 0 "
                  "-E lazy_itable_init=0,lazy_journal_init=0,root_owner=0:0 "
                  f"-d \"$tree\" {shlex.quote(path)}")
        run(["fakeroot", "sh", "-c", script], f"building the file system {label}")


def build_root(kernel, tell=None):
    """Root's disk and the initramfs that Debian made for it: two paths."""
    packages = ROOT_PACKAGES + [f"linux-image-{kernel.release}"]
    tar = build_tar("debian-root", packages, ["debian", "debian-root"], tell)
    base = cache.get("debian-root", ".base.img", [os.path.basename(tar), str(ROOT_MIB)],
                     lambda path: make_ext4(path, ROOT_MIB, f'tar xf {tar} -C "$tree" '
                                            "--exclude='./dev/*'", "keel-root"), tell)
    initrd = cache.get("debian-root", ".initrd", [os.path.basename(tar)],
                       lambda path: extract(tar, f"./boot/initrd.img-{kernel.release}", path), tell)
    return add_keel(base, kernel, tell), initrd


def extract(tar, member, path):
    with open(path, "wb") as out:
        subprocess.run(["tar", "xOf", tar, member], check=True, stdout=out)


def add_keel(base, kernel, tell, name="debian-root-keel"):
    """A copy of root's image with keelOS installed under /usr, as its package would."""
    programs = find_programs()
    module = os.path.join(BUILD, "kmod/keel.ko")
    modules = [module] if os.path.exists(module) else []
    units = [os.path.join(TOP, "keeld", unit) for unit in UNITS]

    def build(path):
        with tempfile.TemporaryDirectory(prefix="keel-add-") as folder:
            writer = ImageWriter(folder)
            for program in programs:
                check_libraries(program)
                writer.add(f"/usr/bin/{os.path.basename(program)}", strip(program), 0o755)
            for path_there, data in add_modules(kernel, modules, folder):
                writer.add(path_there, data, 0o644)
            for unit in units:
                name = os.path.basename(unit)
                with open(unit, "rb") as file:
                    writer.add(f"/usr/lib/systemd/system/{name}", file.read(), 0o644)
                writer.add_link(f"/etc/systemd/system/multi-user.target.wants/{name}",
                                f"/usr/lib/systemd/system/{name}")
            run(["cp", "--sparse=always", base, path], "copying root's image")
            writer.write(path)

    inputs = [os.path.basename(base), ("file", __file__)]
    inputs += [("file", f) for f in [*programs, *modules, *units]]
    return cache.get(name, ".img", inputs, build, tell)


def add_modules(kernel, modules, folder):
    """These modules and depmod's new indexes, as (path in root, bytes)."""
    tree = os.path.join(folder, "modules")
    there = os.path.join(tree, "lib/modules", kernel.release)
    os.makedirs(os.path.dirname(there))
    shutil.copytree(kernel.modules, there, symlinks=True)
    os.makedirs(os.path.join(there, "updates"))
    names = []
    for module in modules:
        names.append(os.path.join("updates", os.path.basename(module)))
        shutil.copy(module, os.path.join(there, names[-1]))
    run(["/sbin/depmod", "-b", tree, kernel.release], "depmod")
    names += [n for n in os.listdir(there) if n.startswith("modules.") and not n.endswith(("order", "builtin"))]
    for name in names:
        with open(os.path.join(there, name), "rb") as file:
            yield f"/usr/lib/modules/{kernel.release}/{name}", file.read()


def check_libraries(program):
    """Root has the libraries of ROOT_PACKAGES; a new one has to be named there."""
    known = ("libc.so", "ld-linux", "liburing", "libcjson", "libseccomp", "libm.so",
             "libz.so", "libcurl", "liblua", "libcrypto", "libgcc_s")
    for library in find_libraries(program):
        if not os.path.basename(library).startswith(known):
            raise LabError(f"{os.path.basename(program)} needs {library}: name its package in "
                           "ROOT_PACKAGES of lab/debian.py")


class ImageWriter:
    """Files to be written into an ext4 image that is not mounted."""

    def __init__(self, folder):
        self.folder = folder
        self.commands = []
        self.folders = set()

    def add(self, path, data, mode):
        source = os.path.join(self.folder, str(len(self.commands)))
        with open(source, "wb") as out:
            out.write(data)
        parts = path.strip("/").split("/")[:-1]
        for i in range(1, len(parts) + 1):
            self.folders.add("/" + "/".join(parts[:i]))
        self.commands += [f"rm {path}", f"write {source} {path}",
                          f"set_inode_field {path} mode 0{0o100000 | mode:o}",
                          f"set_inode_field {path} uid 0", f"set_inode_field {path} gid 0"]

    def add_link(self, path, target):
        self.commands += [f"rm {path}", f"symlink {path} {target}"]

    def write(self, image):
        lines = [f"mkdir {f}" for f in sorted(self.folders)] + self.commands
        script = os.path.join(self.folder, "script")
        with open(script, "w", encoding="utf-8") as out:
            out.write("\n".join(lines) + "\n")
        # mkdir and rm complain of what is or is not there; what counts is that each write worked.
        said = run(["/sbin/debugfs", "-w", "-f", script, image], "writing into root's image")
        if said.count("Allocated inode") < sum(c.startswith("write ") for c in self.commands):
            usual = ("debugfs", "Allocated inode", "rm: File not found", "mkdir: ")
            wrong = [line for line in said.splitlines() if not line.startswith(usual)]
            raise LabError("writing into root's image failed:\n" + "\n".join(wrong))


def build_guest(_kernel, tell=None):
    """A guest's disk: a small Debian that boots to a login on ttyS0, and a file to be checked."""
    tar = build_tar("debian-guest", GUEST_PACKAGES, ["debian", "debian-guest"], tell)

    def build(path):
        with tempfile.TemporaryDirectory(prefix="keel-file-") as folder:
            write_checked_file(folder, CHECKED_FILE_MIB)
            make_ext4(path, GUEST_MIB, f"tar xf {tar} -C \"$tree\" --exclude='./dev/*'; "
                      f'cp {folder}/* "$tree"/srv/', "guest")

    inputs = [os.path.basename(tar), str(GUEST_MIB), str(CHECKED_FILE_MIB), ("file", __file__)]
    return cache.get("debian-guest", ".img", inputs, build, tell)


def write_checked_file(folder, size_mib):
    """checked.bin, which no compression or zero page makes easier, and its SHA-256 beside it."""
    total = hashlib.sha256()
    with open(os.path.join(folder, "checked.bin"), "wb") as out:
        for block in range(size_mib * 1024):
            data = hashlib.shake_128(block.to_bytes(8, "little")).digest(1024)
            total.update(data)
            out.write(data)
    with open(os.path.join(folder, "checked.sha256"), "w", encoding="utf-8") as out:
        out.write(f"{total.hexdigest()}  /srv/checked.bin\n")


def build_load(path):
    """keel-load, static: a tiny guest has no libraries."""
    subprocess.run(["gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-static", "-pthread", "-s", f"-I{TOP}", "-o", path,
                    *(s for s in LOADS if s.endswith(".c"))], check=True)


def build_tiny(kernel, tell=None):
    """A guest's disk without Debian: busybox as init, for tests that want to be quick."""
    from lab.initramfs import BUSYBOX
    files = list_files("tiny")

    def build(path):
        with tempfile.TemporaryDirectory(prefix="keel-file-") as folder:
            write_checked_file(folder, 8)
            build_load(os.path.join(folder, "keel-load"))
            copies = "".join(f'mkdir -p "$tree"/{os.path.dirname(place)}; '
                             f'cp {shlex.quote(file)} "$tree"/{place}; '
                             for file, place in ((f, os.path.basename(f).replace("_", "/"))
                                                 for f in files))
            make_ext4(path, 64, 'cd "$tree"; mkdir -p proc sys dev run tmp srv root etc bin sbin '
                      "usr/bin usr/sbin lib; "
                      f"for n in $({BUSYBOX} --list-full); do ln -sf /bin/busybox $n; done; "
                      f"rm -f bin/busybox; cp {BUSYBOX} bin/busybox; {copies} mv {folder}/keel-load usr/bin/; cp {folder}/* srv/",
                      "tiny")

    inputs = [("file", __file__), ("file", BUSYBOX)] + [("file", f) for f in [*LOADS, *files]]
    return cache.get("tiny-guest", ".img", inputs, build, tell)


def build_next(kernel, tell=None):
    """A disk with another kernel and root's initramfs for it, as an upgrade of root would bring them."""
    from lab.initramfs import build_root as build_root_initramfs
    initrd = build_root_initramfs(kernel, tell)

    def build(path):
        make_ext4(path, 96, f'cp {kernel.image} "$tree"/vmlinuz; cp {initrd} "$tree"/initrd.img; ', "keel-next")

    inputs = [kernel.deb, ("file", __file__), os.path.basename(initrd)]
    return cache.get("next-root", ".img", inputs, build, tell)


def build_data(kernel, tell=None):
    """The disk on which root keeps its VMs: kernels, initramfs, and disks of their own for each."""
    from lab.initramfs import build_guest as build_guest_initramfs
    initrd = build_guest_initramfs(kernel, tell)
    guest = build_guest(kernel, tell)
    tiny = build_tiny(kernel, tell)

    def build(path):
        copies = "".join(f'cp --sparse=always {source} "$tree"/{name}; ' for source, name in (
            (kernel.image, "vmlinuz"), (initrd, "initrd.img"), (guest, "debian-a.img"),
            (guest, "debian-b.img"), (tiny, "tiny-a.img"), (tiny, "tiny-b.img")))
        make_ext4(path, 3072, copies, "keel-data")

    inputs = [kernel.deb, ("file", __file__)] + [os.path.basename(p) for p in (initrd, guest, tiny)]
    return cache.get("data", ".img", inputs, build, tell)
