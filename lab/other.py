# SPDX-License-Identifier: BSD-2-Clause
"""Another machine at the end of a server's network cable: a network namespace of this machine with iperf3 in it.

    with OtherHost() as other:
        hardware = Hardware(tap_fd=other.tap_fd)

It runs natively, so it takes little of the CPU time that the emulated server needs. It ends with this process.
"""
import array
import ctypes
import fcntl
import os
import signal
import socket
import struct
import subprocess
import sys

TUNSETIFF = 0x400454ca
IFF_TAP, IFF_NO_PI, IFF_VNET_HDR = 0x2, 0x1000, 0x4000
PR_SET_PDEATHSIG = 1
ADDRESS = "10.77.0.200"


class OtherHost:
    """Its address is ADDRESS; tap_fd is the end of the cable for the emulator."""

    def __enter__(self):
        from lab.paths import LabError  # this file is a program too, of its own namespace
        near, far = socket.socketpair()
        # Whoever may not make a namespace as he is may in a user namespace of his own.
        user = [] if os.geteuid() == 0 else ["--map-root-user", "--user"]
        self._process = subprocess.Popen(["unshare", *user, "--net", sys.executable, __file__, str(far.fileno())],
                                         pass_fds=[far.fileno()], stdin=subprocess.DEVNULL)
        far.close()
        _, ancillary, _, _ = near.recvmsg(1, socket.CMSG_SPACE(4))
        near.close()
        if not ancillary:
            raise LabError("no namespace for the other machine (unshare and /dev/net/tun are needed)")
        self.tap_fd = array.array("i", ancillary[0][2])[0]
        return self

    def __exit__(self, kind, error, trace):
        os.close(self.tap_fd)
        self._process.terminate()
        self._process.wait()


def serve(fd):
    """In the namespace: the cable, its address, the server of iperf3."""
    tap = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(tap, TUNSETIFF, struct.pack("16sH22x", b"cable", IFF_TAP | IFF_NO_PI | IFF_VNET_HDR))
    for words in (["addr", "add", f"{ADDRESS}/24", "dev", "cable"], ["link", "set", "cable", "up"], ["link", "set", "lo", "up"]):
        subprocess.run(["ip", *words], check=True)
    with socket.socket(fileno=fd) as near:
        near.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [tap]))])
    os.close(tap)
    os.execvp("iperf3", ["iperf3", "-s", "--logfile", "/dev/null"])


if __name__ == "__main__":
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    serve(int(sys.argv[1]))
