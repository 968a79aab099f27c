# SPDX-License-Identifier: BSD-2-Clause
"""What GRUB boots: an ISO with hyp by Multiboot 2, in BIOS and UEFI mode alike, and the disks of guests with firmware."""
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
OVMF_SPLIT = ("/usr/share/OVMF/OVMF_CODE_4M.fd", "/usr/share/OVMF/OVMF_VARS_4M.fd")
SEABIOS = "/usr/share/seabios/bios-256k.bin"
# What GRUB does on a guest's disk: {root} finds the partition, {bits} is what the BIOS' loader wants at its commands.
GUEST_MENU = """{root}
linux{bits} /vmlinuz console=ttyS0 panic=-1 keel.way={way}
initrd{bits} /initrd.img
boot
"""
GUEST_ROOT = {"removable": "search --file --set=root /vmlinuz", "installed": "search --file --set=root /vmlinuz",
              "bios": "set root=(hd0,msdos1)"}
GUEST_MODULES = "fat search search_fs_file boot"
GUEST_INSTALLED = "\\EFI\\debian\\grubx64.efi"
PARTITION_MIB = 40
PARTITION_START = 2048
PARTITION_UUID = "4b45454c-0000-4000-8000-000000000001"
# The file system is the same on both.
GUEST_SCRIPT = """cd {folder}
for way in removable installed; do
	grub-mkimage -O x86_64-efi -o $way.efi -p / -c $way.cfg {modules} part_gpt linux
done
grub-mkimage -O i386-pc -o core.img -p / -c bios.cfg {modules} part_msdos biosdisk linux16
truncate -s {mib}M fs.img; mformat -i fs.img ::
mmd -i fs.img ::/EFI ::/EFI/BOOT ::/EFI/debian
mcopy -i fs.img removable.efi ::/EFI/BOOT/BOOTX64.EFI; mcopy -i fs.img installed.efi ::/EFI/debian/grubx64.efi
mcopy -i fs.img {kernel} ::/vmlinuz; mcopy -i fs.img {initrd} ::/initrd.img
for kind in gpt dos; do truncate -s $(({mib} + 2))M $kind.img; dd if=fs.img of=$kind.img bs=1M seek=1 conv=notrunc status=none; done
echo 'label: gpt\nstart={start}, size={mib}MiB, type=U, uuid={uuid}' | sfdisk -q gpt.img
echo 'label: dos\nstart={start}, size={mib}MiB, type=c, bootable' | sfdisk -q dos.img
dd if=/usr/lib/grub/i386-pc/boot.img of=dos.img bs=440 count=1 conv=notrunc status=none
dd if=core.img of=dos.img bs=512 seek=1 conv=notrunc status=none"""


def build_firmware_guests(kernel, tell=None):
    """An ext4 disk for root with the firmwares' files, and gpt.img and dos.img: disks that boot by UEFI and BIOS."""
    initrd = initramfs.build_guest(kernel, more=["efivarfs"])
    menus = {f"{way}.cfg": GUEST_MENU.format(root=root, bits="16" if way == "bios" else "", way=way)
             for way, root in GUEST_ROOT.items()}
    files = [OVMF, *OVMF_SPLIT, SEABIOS]

    def make(path):
        with tempfile.TemporaryDirectory(prefix="keel-firmware-") as folder:
            for name, text in menus.items():
                with open(os.path.join(folder, name), "w", encoding="utf-8") as out:
                    out.write(text)
            script = GUEST_SCRIPT.format(folder=folder, modules=GUEST_MODULES, mib=PARTITION_MIB, start=PARTITION_START,
                                         uuid=PARTITION_UUID, kernel=kernel.image, initrd=initrd)
            debian.run(["sh", "-ec", script], "building disks for guests with firmware",
                       env={**os.environ, "PATH": f"{os.environ['PATH']}:/sbin:/usr/sbin"})
            debian.make_ext4(path, 2 * PARTITION_MIB + 40,
                             f'cp {folder}/gpt.img {folder}/dos.img {" ".join(files)} "$tree"', "keel-firmware")

    inputs = [kernel.deb, os.path.basename(initrd), *menus.values(), ("file", __file__), *[("file", f) for f in files]]
    return cache.get("firmware-guests", ".img", inputs, make, tell)
