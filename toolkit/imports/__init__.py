"""Foreign logs come in: `import_table` reads any JSONL, CSV or Parquet through a mapping file (see mapping.py),
`import_format` what known tools write, by the tool's name.
"""

from toolkit.imports.build.table import ImportReport, import_table
from toolkit.imports.formats import FORMATS, detect_format, import_format
from toolkit.imports.formats.recovery import RecoveryReport, import_recovery, import_replay
from toolkit.imports.map.mapping import ImportMapping, read_mapping, shipped_maps

__all__ = [
    "FORMATS", "ImportMapping", "ImportReport", "RecoveryReport", "detect_format", "import_format", "import_recovery",
    "import_replay", "import_table", "read_mapping", "shipped_maps",
]  # fmt: skip
