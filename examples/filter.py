#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A filter: a line in, a JSON line out, in the same order, each written out at once.

muster map reviews.jsonl -o words.jsonl -- ./filter.py
"""

import json
import sys

for line in sys.stdin:
    words = json.loads(line)["text"].split()
    print(json.dumps({"words": len(words), "longest": max(words, key=len, default="")}), flush=True)
