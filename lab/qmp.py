# SPDX-License-Identifier: BSD-2-Clause
"""The emulator's control connection (QMP): how a machine is ended, reset and looked at."""
import json
import queue
import socket
import threading

from lab.paths import LabError


class Qmp:
    """Commands and their answers one at a time; events are kept in a list."""

    def __init__(self):
        self.near, self.far = socket.socketpair()
        self.events = []
        self._answers = queue.Queue()
        self._thread = threading.Thread(target=self._read, daemon=True)

    def begin(self, timeout_s=30):
        self.far.close()
        self._thread.start()
        self._take(timeout_s)  # the greeting
        self.command("qmp_capabilities")

    def _read(self):
        buffer = b""
        while True:
            try:
                data = self.near.recv(65536)
            except OSError:
                data = b""
            if not data:
                self._answers.put({"error": {"desc": "the emulator ended"}})
                return
            *lines, buffer = (buffer + data).split(b"\n")
            for line in lines:
                message = json.loads(line)
                if "event" in message:
                    self.events.append(message)
                else:
                    self._answers.put(message)

    def _take(self, timeout_s):
        try:
            return self._answers.get(timeout=timeout_s)
        except queue.Empty:
            raise LabError(f"the emulator did not answer within {timeout_s} s") from None

    def command(self, name, timeout_s=30, **arguments):
        message = {"execute": name, "arguments": arguments}
        try:
            self.near.sendall(json.dumps(message).encode() + b"\n")
        except OSError as error:
            raise LabError(f"{name}: {error}") from None
        answer = self._take(timeout_s)
        if "error" in answer:
            raise LabError(f"{name}: {answer['error'].get('desc')}")
        return answer.get("return")

    def close(self):
        self.near.close()
