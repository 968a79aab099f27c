# SPDX-License-Identifier: BSD-2-Clause
"""Builds an ISO from which GRUB boots hyp by Multiboot 2, in BIOS and in UEFI mode alike."""
import os
import shutil
import subprocess
import tempfile

from lab import cache
from lab.paths import BUILD, LabError, need

KEEL = """multiboot2 /hyp.elf {hyp_args}
	module2 /vmlinuz {root_args}
	module2 /initrd.img"""
NONE = """linux /vmlinuz {root_args}
	initrd /initrd.img"""
MENU = """serial --unit=0 --speed=115200
terminal_output serial
set timeout=0
menuentry "server" {{
	{entry}
}}
"""


def build(boot, below, tell=None):
    """The ISO's path. Needs: what boot names is built."""
    entry = {"keel": KEEL, "none": NONE}[below]
    menu = MENU.format(entry=entry.format(hyp_args=boot.hyp_args, root_args=boot.kernel_line()))
    files = {"vmlinuz": boot.kernel, "initrd.img": boot.initrd}
    if below == "keel":
        # Multiboot 2 takes the ELF64; its debug information would only be read from the disc.
        files["hyp.elf"] = need(os.path.join(BUILD, "hyp.elf"), "run make hyp")

    def make(path):
        with tempfile.TemporaryDirectory(prefix="keel-iso-") as tree:
            os.makedirs(os.path.join(tree, "boot/grub"))
            with open(os.path.join(tree, "boot/grub/grub.cfg"), "w", encoding="utf-8") as out:
                out.write(menu)
            for name, source in files.items():
                shutil.copyfile(source, os.path.join(tree, name))
            if below == "keel":
                subprocess.run(["strip", "--strip-debug", os.path.join(tree, "hyp.elf")],
                               check=True)
            command = ["grub-mkrescue", "--compress=xz", "-o", path, tree]
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            if done.returncode != 0 or not os.path.exists(path):
                raise LabError("grub-mkrescue failed:\n" + done.stdout.decode(errors="replace"))

    inputs = [menu, ("file", __file__)] + [("file", f) for f in files.values()]
    return cache.get(f"grub-{below}", ".iso", inputs, make, tell)
