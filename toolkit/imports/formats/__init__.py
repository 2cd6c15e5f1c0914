"""Imports of the files of known tools, by the tool's name or by the files' content."""

from toolkit.imports.formats.format import FORMATS
from toolkit.imports.formats.importing import Detected, detect_format, import_format

__all__ = ["FORMATS", "Detected", "detect_format", "import_format"]
