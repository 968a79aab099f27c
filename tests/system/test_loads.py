#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""The loads that judge a soak, on this machine without an emulator: they find what is lost, doubled or old."""
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time

from harness import Wrong, has, run_alone, same
from lab import debian
from lab.paths import BUILD

RECORD = 4096
MESSAGE = 128
PORT = 5001
FOLDER = tempfile.mkdtemp(prefix="loads-", dir=BUILD)
LOAD = os.path.join(FOLDER, "keel-load")


def start(*words):
    return subprocess.Popen([LOAD, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def end(load):
    """What it saw, and what it printed beside that."""
    load.send_signal(signal.SIGTERM)
    text = load.communicate(timeout=60)[0].decode()
    seen = json.loads(has(text, r"keel-load (\{.*\})", "the load's report").group(1))
    same(load.returncode, 1 if seen["bad"] or seen["errors"] else 0, "its exit code")
    return seen, text


def wait_for(condition, what, seconds=20):
    limit = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > limit:
            raise Wrong(f"not within {seconds} s: {what}")
        time.sleep(0.02)


def file(name):
    return os.path.join(FOLDER, name)


def size(name):
    return os.path.getsize(file(name)) if os.path.exists(file(name)) else 0


def test_build():
    debian.build_load(LOAD)


def test_nothing_is_wrong():
    for words in (("idle",), ("verify", file("v"), "64"), ("records", file("r"), "64"), ("fsync", file("j")), ("storm",)):
        load = start(*words)
        time.sleep(0.5)
        seen, text = end(load)
        same((seen["bad"], seen["errors"]), (0, 0), f"{words[0]}: {text}")
        if words[0] != "idle" and not seen["records"]:
            raise Wrong(f"{words[0]} did nothing: {seen}")


def test_an_old_record_is_found():
    """A place gets back what was written to it before: as a write that is done twice, the second time late."""
    load = start("verify", file("old"), "64")
    wait_for(lambda: size("old") == 64 * RECORD, "the file is made")

    def places():
        with open(file("old"), "rb") as text:
            return [text.read(RECORD) for _ in range(64)]
    wait_for(lambda: all(int.from_bytes(p[8:16], "little") >= 1 for p in places()), "each place is written")
    old = places()
    wait_for(lambda: all(int.from_bytes(p[8:16], "little") > int.from_bytes(o[8:16], "little")
                         for p, o in zip(places(), old)), "each place is written again")
    load.send_signal(signal.SIGSTOP)
    with open(file("old"), "r+b") as out:
        for number, place in enumerate(old):
            out.seek(number * RECORD)
            out.write(place)
        out.flush()
        os.fsync(out.fileno())
    load.send_signal(signal.SIGCONT)
    seen, text = end(load)
    if not seen["bad"]:
        raise Wrong(f"nothing was found: {text}")
    has(text, "a record is lost: an older one", "what it says")


def test_a_journal_cut_short_is_found():
    load = start("fsync", file("cut"))
    wait_for(lambda: os.path.exists(file("cut")) and os.path.getsize(file("cut")) >= 4 * RECORD, "some records")
    load.send_signal(signal.SIGSTOP)
    os.truncate(file("cut"), os.path.getsize(file("cut")) - RECORD)
    load.send_signal(signal.SIGCONT)
    seen, text = end(load)
    if not seen["bad"]:
        raise Wrong(f"nothing was found: {text}")


def catch_messages():
    """Some of what `send` sends."""
    with socket.create_server(("127.0.0.1", PORT)) as listener:
        sender = start("send", "127.0.0.1")
        near, _ = listener.accept()
        with near:
            data = b""
            while len(data) < 20 * MESSAGE:
                data += near.recv(65536)
            sender.send_signal(signal.SIGTERM)
            while near.recv(65536):
                pass
    sender.communicate(timeout=60)
    return [data[at:at + MESSAGE] for at in range(0, 20 * MESSAGE, MESSAGE)]


def receive(messages):
    load = start("receive")

    def connected():
        try:
            connected.near = socket.create_connection(("127.0.0.1", PORT))
            return True
        except ConnectionRefusedError:
            return False
    wait_for(connected, "the receiver listens")
    with connected.near as near:
        near.sendall(b"".join(messages))
    return end(load)


def test_the_stream():
    """All in order is right; one lost, one doubled or one changed is not."""
    messages = catch_messages()
    seen, text = receive(messages)
    same((seen["bad"], seen["records"]), (0, 20), text)
    changed = messages[7][:60] + bytes([messages[7][60] ^ 1]) + messages[7][61:]
    for what, wrong in (("lost", messages[:7] + messages[8:]), ("doubled", messages[:8] + messages[7:]),
                        ("changed", messages[:7] + [changed] + messages[8:])):
        seen, text = receive(wrong)
        if not seen["bad"]:
            raise Wrong(f"one message {what}: {text}")


try:
    run_alone([test_build, test_nothing_is_wrong, test_an_old_record_is_found, test_a_journal_cut_short_is_found,
               test_the_stream])
finally:
    shutil.rmtree(FOLDER, ignore_errors=True)
