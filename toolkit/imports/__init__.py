"""Imports of foreign logs: `import_table` reads any JSONL, CSV or Parquet through a mapping file (see mapping.py), and
`import_format` reads what known tools write, by the tool's name.
"""

from toolkit.imports.build.table import ImportReport, import_table
from toolkit.imports.formats import FORMATS, detect_format, import_format
from toolkit.imports.formats.recovery import RecoveryReport, import_recovery, import_replay
from toolkit.imports.guessing.anything import AnyImport, import_any
from toolkit.imports.guessing.guess import Guess, guess_mapping
from toolkit.imports.map.mapping import ImportMapping, read_mapping, shipped_maps

__all__ = [
    "FORMATS", "AnyImport", "Guess", "ImportMapping", "ImportReport", "RecoveryReport", "detect_format",
    "guess_mapping", "import_any", "import_format", "import_recovery", "import_replay", "import_table", "read_mapping",
    "shipped_maps",
]  # fmt: skip
