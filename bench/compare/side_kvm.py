# SPDX-License-Identifier: BSD-2-Clause
"""Side B: guests on KVM by QEMU, set up as its experts do, and what KVM counts.

KVM's own sums are always on (/sys/kernel/debug/kvm). Exits by kind, IPIs and kicks come from its tracepoints, by
histograms kept in the kernel; those cost time, so they are on only in runs whose times are not used.
"""
import glob
import os
import re
import subprocess

from guest import CompareError

NAME = "kvm"
DEBUG = "/sys/kernel/debug/kvm"
TRACE = "/sys/kernel/tracing"
EVENTS = {"kvm_exit": "exit_reason,info1", "kvm_apic_ipi": "common_type", "kvm_mmio": "type,gpa",
          "kvm_hypercall": "nr"}
# KVM's exit codes (arch/x86/include/uapi/asm/svm.h and vmx.h) in keelOS's names (abi/exits.h).
SVM = {0x60: "interrupt", 0x61: "nmi", 0x64: "interrupt-window", 0x72: "cpuid", 0x77: "pause", 0x78: "halt", 0x7b: "pio",
       0x81: "hypercall", 0x89: "wbinvd", 0x8d: "xsetbv", 0x7f: "shutdown"}
VMX = {0: "exception", 1: "interrupt", 7: "interrupt-window", 10: "cpuid", 12: "halt", 18: "hypercall", 28: "cr-access",
       29: "dr-access", 30: "pio", 31: "msr-read", 32: "msr-write", 40: "pause", 44: "mmio", 45: "eoi", 48: "nested-page",
       49: "mmio", 52: "timer", 54: "wbinvd", 55: "xsetbv", 56: "mmio"}
SVM_MSR, SVM_NPF, NPF_RESERVED = 0x7c, 0x400, 8
WRITE = 2  # kvm_mmio's type
PV_SEND_IPI = 10


def read(path):
    with open(path, encoding="utf-8", errors="replace") as text:
        return text.read()


def write(path, text):
    with open(path, "a" if text.startswith("!") else "w", encoding="utf-8") as out:
        out.write(text)


def kind_of(code, info, intel):
    """The exit's name; one without a name goes by its number."""
    if intel:
        return VMX.get(code, f"vmx-{code}")
    if code == SVM_MSR:
        return "msr-write" if info & 1 else "msr-read"
    if code == SVM_NPF:
        return "mmio" if info & NPF_RESERVED else "nested-page"
    if 0x40 <= code < 0x60:
        return "exception"
    if code < 0x20:
        return "cr-access"
    return SVM.get(code, f"svm-{code:#x}")


def number(text):
    return int(re.search(r"0x[0-9a-fA-F]+|\d+", text).group(), 0)


def parse_histogram(text):
    """[({key: number}, hits)] of a tracepoint's histogram."""
    lines = re.findall(r"^\{ (.*?) \} hitcount: +(\d+)", text, re.M)
    out = []
    for keys, hits in lines:
        pairs = (part.split(":", 1) for part in keys.split(","))
        out.append(({name.strip(): number(value) for name, value in pairs}, int(hits)))
    return out


class Kvm:
    """Guests a and b of KVM."""

    def __init__(self, setup):
        self.setup = setup
        self.processes = {}
        self.commands = {}
        self.traced = False
        self.intel = "vmx" in read("/proc/cpuinfo")

    def prepare(self):
        """The modules; the guests' memory as 2 MiB pages."""
        module = "kvm_intel" if self.intel else "kvm_amd"
        if not os.path.exists("/dev/kvm") or self.setup.kvm_options:
            subprocess.run(["modprobe", "-r", module], check=False, stderr=subprocess.DEVNULL)
            subprocess.run(["modprobe", module, *self.setup.kvm_options.split()], check=True)
        for name in ("vhost_net", "tun"):
            subprocess.run(["modprobe", name], check=True)
        pages = sum(self.setup.memory_mib.values()) // 2
        path = "/proc/sys/vm/nr_hugepages"
        if int(read(path)) < pages:
            write(path, str(pages))
        if int(read(path)) < pages:
            raise CompareError(f"root has only {read(path).strip()} of {pages} large pages: ask for them at boot")

    def command(self, name):
        """As an expert of KVM would for a guest that shares the host's CPUs with others."""
        setup = self.setup
        command = ["qemu-system-x86_64", "-name", f"compare-{name}", "-nodefaults", "-no-user-config", "-display", "none",
                   "-machine", "q35,accel=kvm,kernel-irqchip=on,memory-backend=ram,usb=off,smm=off,vmport=off",
                   "-cpu", "host,migratable=no", "-smp", str(setup.vcpus), "-m", f"{setup.memory_mib[name]}M",
                   "-object", f"memory-backend-memfd,id=ram,size={setup.memory_mib[name]}M,hugetlb=on,hugetlbsize=2M,"
                   "prealloc=on", "-serial", f"file:/run/compare-{name}.console",
                   "-kernel", f"{setup.images}/vmlinuz", "-initrd", f"{setup.images}/initrd.img",
                   "-append", setup.kernel_line(name), "-object", "rng-random,id=rng,filename=/dev/urandom",
                   "-device", "virtio-rng-pci,rng=rng"]
        disks = [f"{setup.images}/guest-{name}.img"] + ([setup.test_disk] if name == "a" else [])
        for place, disk in enumerate(disks):
            driver = "host_device" if disk.startswith("/dev/") else "file"
            command += ["-object", f"iothread,id=io{place}", "-blockdev",
                        f"driver=raw,node-name=d{place},cache.direct=on,file.driver={driver},file.filename={disk},"
                        "file.aio=io_uring,file.cache.direct=on,file.discard=unmap",
                        "-device", f"virtio-blk-pci,drive=d{place},iothread=io{place},num-queues={setup.vcpus}"]
        return command + ["-netdev", f"tap,id=net,ifname=keelc-{name},script=no,downscript=no,vhost=on", "-device",
                          f"virtio-net-pci,netdev=net,mac={setup.mac(name)},romfile="]

    def start(self, name):
        tap = f"keelc-{name}"
        for words in (["tuntap", "add", tap, "mode", "tap", "vnet_hdr"], ["link", "set", tap, "master", self.setup.bridge],
                      ["link", "set", tap, "up"]):
            subprocess.run(["ip", *words], check=True)
        self.commands[name] = self.command(name)
        with open(f"/run/compare-{name}.qemu", "wb") as log:
            self.processes[name] = subprocess.Popen(self.commands[name], stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def stop(self):
        for name, process in self.processes.items():
            process.kill()
            process.wait()
            subprocess.run(["ip", "link", "delete", f"keelc-{name}"], check=False)
        self.processes = {}

    def console(self, name):
        return read(f"/run/compare-{name}.qemu")[-1000:] + read(f"/run/compare-{name}.console")[-2000:]

    def describe(self):
        version = subprocess.run(["qemu-system-x86_64", "--version"], check=True, stdout=subprocess.PIPE)
        module = "kvm_intel" if self.intel else "kvm_amd"
        options = {os.path.basename(p): read(p).strip() for folder in (module, "kvm")
                   for p in glob.glob(f"/sys/module/{folder}/parameters/*")}
        return {"commands": {name: " ".join(words) for name, words in self.commands.items()}, "kvm": options,
                "versions": {"QEMU": version.stdout.decode().splitlines()[0]}}

    def trace(self, on):
        """Histograms on or off."""
        for event, keys in EVENTS.items():
            path = f"{TRACE}/events/kvm/{event}/trigger"
            line = f"hist:keys={keys}:size=4096"
            if on:
                write(path, line)
            elif self.traced:
                write(path, f"!{line}")
        self.traced = on

    def histogram(self, event):
        return parse_histogram(read(f"{TRACE}/events/kvm/{event}/hist"))

    def counters(self):
        """KVM's own sums of both guests; with the histograms on also kinds, IPIs and kicks."""
        def total(name):
            return sum(int(read(path)) for process in self.processes.values()
                       for path in glob.glob(f"{DEBUG}/{process.pid}-*/{name}"))

        if not glob.glob(f"{DEBUG}/*/exits"):
            raise CompareError(f"no counters of KVM in {DEBUG}")
        out = {"exits": total("exits"), "interrupts": total("irq_injections"), "halts": total("halt_exits"),
               "halt_polls_won": total("halt_successful_poll"), "halt_polls": total("halt_attempted_poll"),
               # What QEMU itself answers.
               "user_exits": total("mmio_exits") + total("io_exits")}
        if self.traced:
            out["kinds"] = {}
            for keys, hits in self.histogram("kvm_exit"):
                kind = kind_of(keys["exit_reason"], keys["info1"], self.intel)
                out["kinds"][kind] = out["kinds"].get(kind, 0) + hits
            pv = sum(hits for keys, hits in self.histogram("kvm_hypercall") if keys["nr"] == PV_SEND_IPI)
            out["ipis"] = pv + sum(hits for _, hits in self.histogram("kvm_apic_ipi"))
            # Writes to a device's doorbell; those to the interrupt controllers are none.
            out["kicks"] = sum(hits for keys, hits in self.histogram("kvm_mmio")
                               if keys["type"] == WRITE and not 0xfec00000 <= keys["gpa"] < 0xfef00000)
        return out
