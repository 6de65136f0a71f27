"""What the paths of the Iceberg REST face begin with."""

from __future__ import annotations

ICEBERG = "/iceberg/"
ICEBERG_V1 = f"{ICEBERG}v1/"
ICEBERG_CONFIG = f"{ICEBERG_V1}config"
