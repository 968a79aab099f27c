# SPDX-License-Identifier: BSD-2-Clause
"""Keeps built images under the hash of what they were built from, so that nothing is built twice.

A file of the cache is complete or not there: it is written beside its place and renamed. Builders of
one name take turns by a lock, so two runs at once build it once.
"""
import fcntl
import hashlib
import os
import shutil
import time

from lab.paths import CACHE

KEEP = 3  # images of one name; older ones are removed when a new one is built


def hash_inputs(inputs):
    """A short hash over strings, bytes and ("file", path) pairs, the latter by their contents."""
    total = hashlib.sha256()
    for item in inputs:
        if isinstance(item, tuple):
            part = hash_file(item[1])
        else:
            part = hashlib.sha256(item.encode() if isinstance(item, str) else item).digest()
        total.update(part)
    return total.hexdigest()[:16]


def hash_file(path):
    total = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            total.update(block)
    return total.digest()


def get(name, suffix, inputs, build, tell=None):
    """The path of the image; build(path) is called only if no image of these inputs is there."""
    os.makedirs(CACHE, exist_ok=True)
    path = os.path.join(CACHE, f"{name}-{hash_inputs(inputs)}{suffix}")
    with open(os.path.join(CACHE, f".{name}.lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if os.path.exists(path):
            os.utime(path)
            return path
        temp = f"{path}.tmp"
        remove(temp)
        start = time.monotonic()
        try:
            build(temp)
            os.rename(temp, path)
        finally:
            remove(temp)
        if tell:
            tell(f"built {name} in {time.monotonic() - start:.1f} s")
        forget_old(name, suffix)
    return path


def forget_old(name, suffix):
    names = [n for n in os.listdir(CACHE)
             if n.startswith(name + "-") and len(n) == len(name) + 17 + len(suffix)
             and n.endswith(suffix)]
    paths = sorted((os.path.join(CACHE, n) for n in names), key=os.path.getmtime)
    for path in paths[:-KEEP]:
        remove(path)


def remove(path):
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)
