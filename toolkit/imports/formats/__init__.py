"""Files of known tools come in by the tool's name, or by what they hold."""

from toolkit.imports.formats.importing import Detected, detect_format, import_format
from toolkit.imports.formats.known import FORMATS

__all__ = ["FORMATS", "Detected", "detect_format", "import_format"]
