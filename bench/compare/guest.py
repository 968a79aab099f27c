# SPDX-License-Identifier: BSD-2-Clause
"""A guest of the comparison as both sides start it, and how a script is run in it (lab/files/compare-guest)."""
import socket
import time
from dataclasses import dataclass

PORT = 7077
STEP_S = 0.2


class CompareError(Exception):
    """Something of a run did not happen; the text says what."""


@dataclass
class Setup:
    """The server that is measured: where the images are, what the guests get."""
    images: str  # a folder with vmlinuz, initrd.img, guest-a.img, guest-b.img
    test_disk: str
    bridge: str
    vcpus: int
    memory_mib: dict  # guest's name to MiB
    network: str  # the first three numbers of the guests' addresses
    other: str  # address of the other machine, which runs `iperf3 -s`; empty: none
    kvm_options: str = ""  # for the module kvm_amd or kvm_intel

    def address(self, name):
        return f"{self.network}.{11 if name == 'a' else 12}"

    def mac(self, name):
        return f"52:54:00:77:00:0{1 if name == 'a' else 2}"

    def kernel_line(self, name):
        return (f"console=ttyS0 panic=-1 quiet root=/dev/vda rw init=/usr/sbin/compare-init "
                f"keel.ip={self.address(name)}/24")


def receive(connection, count):
    parts = b""
    while len(parts) < count:
        data = connection.recv(count - len(parts))
        if not data:
            raise CompareError("the guest hung up")
        parts += data
    return parts


def run(address, script, limit_s):
    """Runs a script in the guest; its exit code and output. CompareError when it does not answer in time."""
    try:
        with socket.create_connection((address, PORT), 10) as connection:
            connection.settimeout(limit_s + 20)
            data = script.encode()
            connection.sendall(f"{int(limit_s)} {len(data)}\n".encode() + data)
            head = b""
            while not head.endswith(b"\n"):
                head += receive(connection, 1)
            code, size = (int(word) for word in head.split())
            return code, receive(connection, size).decode(errors="replace")
    except (OSError, ValueError) as error:
        raise CompareError(f"guest at {address}: {error}") from None


def check(address, script, limit_s=60):
    code, output = run(address, script, limit_s)
    if code != 0:
        raise CompareError(f"guest at {address}: exit {code} of: {script}\n{output[-2000:]}")
    return output


def wait(address, limit_s):
    """Until its agent answers."""
    end = time.monotonic() + limit_s
    while True:
        try:
            check(address, "true", 30)
            return
        except CompareError as error:
            if time.monotonic() > end:
                raise CompareError(f"the guest does not come up within {limit_s} s: {error}") from None
        time.sleep(STEP_S)
