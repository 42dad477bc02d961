"""How far the page lags behind a fast stream: 3,000 SYNTHETIC events at 8 updates a second, in headless Chromium."""

from __future__ import annotations

from kvrescue.models.load import Pair

MOST_LAG_MS, MOST_HEAP_MB, MOST_BYTES = 1000, 150, 16_000


def measure(_pair: Pair) -> bool:
    from tests.web.look import EVENTS, UPDATES_PER_SECOND, lag

    print(f"\n## Page: {EVENTS:,} events at {UPDATES_PER_SECOND} updates a second")
    found = lag()
    each = found["bytes"] / (EVENTS / 10)
    print(f"{found['events'] / found['seconds']:.0f} events/s, {found['bytes']:,} bytes, {each:,.0f} bytes an update (at most {MOST_BYTES:,})")
    print(f"clock at most {found['worst_lag_ms']} ms late, longest update {found['longest_update_ms']} ms")
    print(f"idle {found['idle_after_ms']} ms after the last update")
    print(f"heap {found['heap_mb']} MB; wanted: lag under {MOST_LAG_MS} ms, heap under {MOST_HEAP_MB} MB")
    return max(found["worst_lag_ms"], found["idle_after_ms"]) < MOST_LAG_MS and found["heap_mb"] < MOST_HEAP_MB and each <= MOST_BYTES
