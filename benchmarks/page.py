"""How far the page lags behind a fast stream, and how long the slider takes in a long trace: 3,000 SYNTHETIC events in headless Chromium."""

from __future__ import annotations

from kvrescue.models.load import Pair

MOST_LAG_MS, MOST_HEAP_MB, MOST_BYTES, MOST_OPEN_MS = 1000, 150, 16_000, 1000


def measure(_pair: Pair) -> bool:
    follows = stream()
    return seek() and follows


def stream() -> bool:
    from tests.web.look import EVENTS, UPDATES_PER_SECOND, lag

    print(f"\n## Page: {EVENTS:,} events at {UPDATES_PER_SECOND} updates a second")
    found = lag()
    each = found["bytes"] / (EVENTS / 10)
    print(f"{found['events'] / found['seconds']:.0f} events/s, {found['bytes']:,} bytes, {each:,.0f} bytes an update (at most {MOST_BYTES:,})")
    print(f"clock at most {found['worst_lag_ms']} ms late, longest update {found['longest_update_ms']} ms")
    print(f"idle {found['idle_after_ms']} ms after the last update")
    print(f"heap {found['heap_mb']} MB; wanted: lag under {MOST_LAG_MS} ms, heap under {MOST_HEAP_MB} MB")
    return max(found["worst_lag_ms"], found["idle_after_ms"]) < MOST_LAG_MS and found["heap_mb"] < MOST_HEAP_MB and each <= MOST_BYTES


def seek() -> bool:
    from tests.web.look import MOST_SEEK_MS, SEEKS
    from tests.web.look import seek as measured

    found = measured()
    print(f"\n## Slider: {len(SEEKS)} places in a trace of {found['events']:,} events, {found['steps']} steps, opened in {found['opened_ms']:.0f} ms")
    for what in ("layout", "painted"):
        median, p90, most = spread(found[what])
        print(f"{what}: median {median:.0f} ms, nine in ten within {p90:.0f} ms, all within {most:.0f} ms")
    print(f"heap after {len(SEEKS)} and {2 * len(SEEKS)} seeks: {found['heap_mb'][0]} and {found['heap_mb'][1]} MB")
    print(f"wanted: nine in ten laid out within {MOST_SEEK_MS} ms, opened within {MOST_OPEN_MS} ms, heap under {MOST_HEAP_MB} MB")
    return spread(found["layout"])[1] < MOST_SEEK_MS and found["opened_ms"] < MOST_OPEN_MS and max(found["heap_mb"]) < MOST_HEAP_MB


def spread(times: list[float]) -> tuple[float, float, float]:
    """Median, what nine in ten stay under, and the most."""
    ordered = sorted(times)
    return ordered[len(ordered) // 2], ordered[int(0.9 * len(ordered))], ordered[-1]
