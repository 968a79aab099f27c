# SPDX-License-Identifier: BSD-2-Clause
"""Where things are: the top of the tree, what is built, what the lab keeps; and the lab's one error."""
import os

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.join(TOP, "build")
LAB = os.path.join(BUILD, "lab")
DEBS = os.path.join(LAB, "debs")
CACHE = os.path.join(LAB, "cache")
LOGS = os.path.join(LAB, "logs")
FILES = os.path.join(TOP, "lab", "files")
FIGURES = os.path.join(BUILD, "figures")


class LabError(Exception):
    """Something in the lab did not happen; the text says what, and where the logs are."""


def need(path, what):
    """The path, if it is there; else an error that says what to do."""
    if not os.path.exists(path):
        raise LabError(f"{os.path.relpath(path, TOP)} is missing: {what}")
    return path
