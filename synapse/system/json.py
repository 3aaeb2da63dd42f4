"""JSON as the log, the index and the ledger write it: compact, and readable beyond ASCII.

One encoder, made once: `json.dumps` with options makes a new one for every value.
"""

from __future__ import annotations

import json

dumps = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
