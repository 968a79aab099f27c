# SPDX-License-Identifier: BSD-2-Clause
"""Side A: guests on keelOS, by `keel`, and hyp's own counters, which are always on."""
import json
import os
import subprocess

from guest import CompareError

NAME = "keel"


def keel(*words, limit_s=120):
    done = subprocess.run(["keel", *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=limit_s, check=False)
    output = done.stdout.decode(errors="replace")
    if done.returncode != 0:
        raise CompareError(f"exit {done.returncode} of: keel {' '.join(words)}\n{output}")
    return output


class Keel:
    """Guests a and b of keelOS."""

    def __init__(self, setup):
        self.setup = setup
        self.files = {}

    def file_of(self, name):
        setup = self.setup
        disks = [f"{setup.images}/guest-{name}.img"] + ([setup.test_disk] if name == "a" else [])
        return "\n".join([
            f"name = compare-{name}", f"cpus = {setup.vcpus}", f"memory = {setup.memory_mib[name]}M",
            f"kernel = {setup.images}/vmlinuz", f"initrd = {setup.images}/initrd.img",
            f'cmdline = "{setup.kernel_line(name)}"', *(f"disk {{ path = {disk} }}" for disk in disks),
            f"net {{ bridge = {setup.bridge}; mac = {setup.mac(name)} }}"]) + "\n"

    def start(self, name):
        path = f"/run/compare-{name}.conf"
        with open(path, "w", encoding="utf-8") as out:
            out.write(self.file_of(name))
        try:
            keel("vm", "create", path)
            self.files[name] = self.file_of(name)
            keel("vm", "start", f"compare-{name}")
        finally:
            os.unlink(path)

    def stop(self):
        for name in list(self.files):
            for verb in ("kill", "delete"):
                subprocess.run(["keel", "vm", verb, f"compare-{name}"], stdin=subprocess.DEVNULL, timeout=60, check=False,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            del self.files[name]

    def console(self, name):
        """What the guest said, for whoever has to find out why it does not answer."""
        try:
            return keel("vm", "console", f"compare-{name}", "--dump")[-2000:]
        except (CompareError, subprocess.TimeoutExpired) as error:
            return str(error)

    def describe(self):
        return {"commands": dict(self.files),
                "versions": {"keelOS": json.loads(keel("status", "--json"))["version"]}}

    def trace(self, _on):
        """Nothing to be turned on."""

    def counters(self):
        """All guests' counters summed up; exits by kind."""
        status = json.loads(keel("status", "--json"))
        vms = [vm for vm in status["vms"] if vm["name"].startswith("compare-")]
        total = {key: sum(int(vm[key]) for vm in vms)
                 for key in ("interrupts", "ipis", "halts", "doorbells", "root_exits", "migrations", "run_ns")}
        kinds = {}
        for vm in vms:
            for kind, count in vm["exits"].items():
                kinds[kind] = kinds.get(kind, 0) + int(count)
        return {"exits": sum(kinds.values()), "kinds": kinds, "interrupts": total["interrupts"], "ipis": total["ipis"],
                "halts": total["halts"], "kicks": total["doorbells"], "user_exits": total["root_exits"],
                "host_exits": sum(int(n) for n in status["root"]["exits"].values()),
                "migrations": total["migrations"], "guest_ns": total["run_ns"]}
