# SPDX-License-Identifier: BSD-2-Clause
"""One of a machine's byte streams (a serial console, the agent's port): logged, awaited, written to.

A thread reads all the time, so the machine never waits for us and no byte is lost. Everything read
goes to the log, each line with the seconds since the machine started. A wait always has a deadline.
"""
import codecs
import os
import re
import select
import socket
import threading
import time

from lab.paths import LabError


class Stream:
    """The near end of a socket pair whose far end the emulator has."""

    def __init__(self, name, log_path, start):
        self.name = name
        self.near, self.far = socket.socketpair()
        self.start = start
        self.log_path = log_path
        self.lines = []  # (seconds, text), whole lines only
        self._listener = None
        self._data = b""  # all that was read, for a listener that comes late
        self._text = ""  # what expect() has not consumed
        self._part = ""
        self._ended = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._read, daemon=True)

    def begin(self):
        """To be called once the emulator has the far end."""
        self.far.close()
        self._thread.start()

    def _read(self):
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        with open(self.log_path, "w", encoding="utf-8") as log:
            while True:
                try:
                    data = self.near.recv(65536)
                except OSError:
                    data = b""
                if not data:
                    break
                with self._changed:
                    self._data += data
                    if self._listener:
                        self._listener(data)
                self._take(decoder.decode(data), log)
            with self._changed:
                self._take_line(self._part, log)
                self._ended = True
                self._changed.notify_all()

    def _take(self, text, log):
        with self._changed:
            self._text += text
            *whole, self._part = (self._part + text).split("\n")
            for line in whole:
                self._take_line(line, log)
            log.flush()
            self._changed.notify_all()

    def _take_line(self, line, log):
        line = line.rstrip("\r")
        if line:
            seconds = time.monotonic() - self.start
            self.lines.append((seconds, line))
            log.write(f"[{seconds:8.3f}] {line}\n")

    def show(self, listener, past=True):
        """Calls listener with each block of bytes, first with those already read; None ends that."""
        with self._changed:
            if listener and past and self._data:
                listener(self._data)
            self._listener = listener

    def has_ended(self):
        return self._ended

    def send(self, text):
        self.near.sendall(text.encode() if isinstance(text, str) else text)

    def expect(self, pattern, timeout_s):
        """Waits for a regular expression; returns its match and consumes the text up to its end."""
        deadline = time.monotonic() + timeout_s
        compiled = re.compile(pattern, re.M)
        with self._changed:
            while True:
                match = compiled.search(self._text)
                if match:
                    self._text = self._text[match.end():]
                    return match
                left = deadline - time.monotonic()
                if self._ended or left <= 0:
                    why = "ended" if self._ended else f"had {timeout_s} s"
                    raise LabError(f"{self.name}: no /{pattern}/ ({why}); last lines:\n"
                                   + self.tail())
                self._changed.wait(left)

    def find_time(self, pattern):
        """Seconds from the machine's start to the first whole line that matches, or None."""
        compiled = re.compile(pattern)
        with self._changed:
            return next((t for t, line in self.lines if compiled.search(line)), None)

    def tail(self, count=25):
        with self._changed:
            text = [line for _, line in self.lines[-count:]]
            text += [self._part] if self._part else []
        return "\n".join("    " + line for line in text)

    def close(self):
        try:
            self.near.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        if self._thread.is_alive():
            self._thread.join(5)
        self.near.close()


def join_terminal(stream, source, sink, escape=b"\x1d"):
    """Ties a stream to a terminal (two descriptors in raw mode) until the escape key or its end."""
    stream.show(lambda data: os.write(sink, data), past=False)
    try:
        while not stream.has_ended():
            if select.select([source], [], [], 0.2)[0]:
                data = os.read(source, 4096)
                if not data or escape in data:
                    return
                stream.send(data)
    finally:
        stream.show(None)
