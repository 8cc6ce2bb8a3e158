"""A search of which everything is known."""

from __future__ import annotations

from breakdowns import PROFILE

from perfmod.tune.result import Offer, Row, Tuning

FOUND = Tuning(
    command="perfmod tune train.py --budget 5m",
    script="train.py",
    profile=PROFILE,
    offers=(
        Offer("bitwise", "equal to the last bit", "PM106", "proven", "", 1.1, 1.05, 1.15, 9.1, 10.0),
        Offer("rounding", "equal up to rounding", "PM106", "proven", "", 1.1, 1.05, 1.15, 9.1, 10.0),
        Offer(
            "precision",
            "other formats of numbers",
            "PM106 + PM303 (reduce-overhead)",
            "proven",
            "",
            4.0,
            3.9,
            4.1,
            2.5,
            10.0,
            512.0,
            400.0,
            1200,
            "--- a/train.py\n+++ b/train.py\n@@ -1 +1,2 @@\n model = Net()\n+model.compile()\n",
        ),
    ),
    rows=(
        Row("PM106 + PM303 (reduce-overhead)", False, 2.5, 10.0, 4.0, 31.0, 512.0, ""),
        Row("PM106 + PM305", True, 12.0, 10.0, 0.83, 0.0, 400.0, ""),
        Row("PM301", True, None, None, 0.0, 0.0, None, "it crashed: RuntimeError: no"),
    ),
    best="precision",
    seconds=75.0,
    budget_seconds=300.0,
    resumed=False,
    complete=True,
    interrupted=False,
    perfmod="0.1.0",
    torch="2.11.0",
    gpu="H100",
    driver="570",
)
