# SPDX-License-Identifier: BSD-2-Clause
"""The emulated servers on which keelOS is built, tested and compared; lab/README.md is the guide."""
