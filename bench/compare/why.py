# SPDX-License-Identifier: BSD-2-Clause
"""Why a row is behind, in the three languages; shown on the page only where the data say that it is."""

WHY = {}
