# SPDX-License-Identifier: BSD-2-Clause
"""What GRUB boots: an ISO with hyp by Multiboot 2, in BIOS and UEFI mode alike, and a UEFI guest's disk."""
import os
import shutil
import subprocess
import tempfile

from lab import cache, debian, initramfs
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


OVMF = "/usr/share/ovmf/OVMF.fd"
GUEST_MENU = """linux /vmlinuz console=ttyS0 panic=-1
initrd /initrd.img
boot
"""
# Where GRUB finds its menu: it was started from a partition that it does not know.
GUEST_FIRST = "search --file --set=root /keel-guest.cfg\nconfigfile /keel-guest.cfg\n"
GUEST_MODULES = "part_gpt fat linux search search_fs_file configfile boot"
ESP_MIB = 90


def build_uefi_guest(kernel, tell=None):
    """An ext4 disk for root with OVMF.fd, and gpt.img: a VM's disk that boots as a removable one."""
    initrd = initramfs.build_guest(kernel)

    def make(path):
        with tempfile.TemporaryDirectory(prefix="keel-uefi-") as folder:
            for name, text in (("first.cfg", GUEST_FIRST), ("menu.cfg", GUEST_MENU)):
                with open(os.path.join(folder, name), "w", encoding="utf-8") as out:
                    out.write(text)
            debian.run(["sh", "-ec", f"""cd {folder}
                grub-mkimage -O x86_64-efi -o boot.efi -p / -c first.cfg {GUEST_MODULES}
                truncate -s {ESP_MIB}M esp.img; mformat -i esp.img -F ::
                mmd -i esp.img ::/EFI ::/EFI/BOOT; mcopy -i esp.img boot.efi ::/EFI/BOOT/BOOTX64.EFI
                mcopy -i esp.img menu.cfg ::/keel-guest.cfg
                mcopy -i esp.img {kernel.image} ::/vmlinuz; mcopy -i esp.img {initrd} ::/initrd.img
                truncate -s {ESP_MIB + 2}M gpt.img; echo 'label: gpt\n2048,{ESP_MIB}M,U' | sfdisk -q gpt.img
                dd if=esp.img of=gpt.img bs=1M seek=1 conv=notrunc status=none"""], "building a UEFI guest's disk",
                       env={**os.environ, "PATH": f"{os.environ['PATH']}:/sbin:/usr/sbin"})
            debian.make_ext4(path, ESP_MIB + 40, f'cp {folder}/gpt.img {OVMF} "$tree"', "keel-uefi")

    inputs = [kernel.deb, os.path.basename(initrd), GUEST_MENU, GUEST_FIRST, ("file", __file__), ("file", OVMF)]
    return cache.get("uefi-guest", ".img", inputs, make, tell)
