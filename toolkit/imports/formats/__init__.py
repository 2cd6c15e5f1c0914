"""Files of known tools come in by the tool's name, or by what they hold."""

from toolkit.imports.formats.format import FORMATS
from toolkit.imports.formats.importing import Detected, detect_format, import_format

__all__ = ["FORMATS", "Detected", "detect_format", "import_format"]
